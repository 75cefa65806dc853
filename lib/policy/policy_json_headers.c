/* "headers": which quota fields responses carry. */
#include "policy/policy_json.h"

static enum weir_code read_form(const struct weir_reader *reader, const struct weir_place *place,
                                unsigned *forms)
{
    static const struct weir_choice choices[] = {
        { "draft-11", WEIR_HEADERS_DRAFT_11 },
        { "draft-7", WEIR_HEADERS_DRAFT_7 },
        { "draft-6", WEIR_HEADERS_DRAFT_6 },
        { "legacy", WEIR_HEADERS_LEGACY },
    };
    int form = 0;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &form);
    *forms |= (unsigned)form;
    return code;
}

static enum weir_code read_form_list(const struct weir_reader *reader,
                                     const struct weir_place *place, unsigned *forms)
{
    enum weir_code code = WEIR_OK;
    if (json_array_size(place->value) == 0)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The list is empty; wanted is at least one form, or false for none.");
    for (size_t i = 0; i < json_array_size(place->value) && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_form(reader, &item, forms);
    }
    return code;
}

static enum weir_code read_forms(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    unsigned *forms = into;
    *forms = 0;
    if (json_is_false(place->value))
        return WEIR_OK;
    if (json_is_array(place->value))
        return read_form_list(reader, place, forms);
    if (json_is_string(place->value))
        return read_form(reader, place, forms);
    return weir_refuse_type(reader, place,
                            "\"draft-11\", \"draft-7\", \"draft-6\", \"legacy\", a list of them, "
                            "or false");
}

static enum weir_code read_clamp(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    return weir_read_bool(reader, place, &reader->policy->headers_clamp);
}

static enum weir_code read_expose(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    (void)into;
    return weir_read_bool(reader, place, &reader->policy->expose_headers);
}

enum weir_code weir_read_headers(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    static const struct weir_member members[] = {
        { "forms", read_forms, false },
        { "clamp", read_clamp, false },
        { "expose", read_expose, false },
    };
    unsigned *forms = &reader->policy->headers;
    if (json_is_object(place->value))
        return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), forms);
    return read_forms(reader, place, forms);
}
