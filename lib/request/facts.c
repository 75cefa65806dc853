#include "request/facts.h"

static const struct weir_text none = { NULL, 0 };

struct weir_text weir_facts_header(const struct weir_facts *facts, struct weir_text name)
{
    for (size_t i = 0; i < facts->header_count; i++)
        if (weir_text_equal_fold(facts->headers[i].name, name))
            return facts->headers[i].value;
    return none;
}

struct weir_text weir_facts_query(const struct weir_facts *facts, struct weir_text name)
{
    for (size_t i = 0; i < facts->query_count; i++)
        if (weir_text_equal(facts->queries[i].name, name))
            return facts->queries[i].value;
    return none;
}
