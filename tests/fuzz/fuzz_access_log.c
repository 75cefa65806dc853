/* Access logs: whatever stands in a line, it is refused with a reason, or becomes a request that the
 * limiter decides, counts and tells. The first byte chooses the format and some mappings. */
#include <stdlib.h>
#include <string.h>

#include "tools/access_log.h"
#include "tools/simulate_lines.h"
#include "tools/simulate_tally.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"s\","
    "  \"client_ip\": {\"trust\": [\"10.0.0.0/8\"], \"header\": \"X-Forwarded-For\"},"
    "  \"policies\": {\"all\": {\"limits\": ["
    "    {\"name\": \"a\", \"by\": [\"client\", \"route\"], \"rate\": \"5/second\"},"
    "    {\"name\": \"b\", \"by\": \"header:User-Agent\", \"rate\": \"1/day\","
    "     \"algorithm\": \"sliding-log\", \"count\": \"failures\"},"
    "    {\"name\": \"c\", \"by\": [\"param:id\", \"query:q\"], \"rate\": \"0/minute\"},"
    "    {\"name\": \"d\", \"by\": \"field:name\", \"rate\": \"9/minute\"}]}},"
    "  \"routes\": [{\"match\": \"* /a/:id\", \"policy\": \"all\"},"
    "    {\"match\": \"POST /*\", \"policy\": \"all\", \"cost\": 3}],"
    "  \"default\": \"all\" }";

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct weir_policy *policy_for_all(void)
{
    static struct weir_policy *policy;
    if (policy == NULL)
        require(weir_policy_parse(policy_json, sizeof policy_json - 1, NULL, &policy, NULL)
                == WEIR_OK);
    return policy;
}

static struct weir_access_reader *new_reader(uint8_t choice)
{
    struct weir_access_reader *reader =
        weir_access_reader_new((enum weir_access_format)(choice % 4));
    require(reader != NULL);
    if (choice & 4)
        require(weir_access_reader_map(reader, "field:name=name", NULL) == WEIR_OK);
    if (choice & 8)
        require(weir_access_reader_map(reader, "duration=took", NULL) == WEIR_OK);
    if (choice & 16)
        require(weir_access_reader_map(reader, "path=http.path", NULL) == WEIR_OK);
    return reader;
}

static void decide(const struct weir_lines *lines)
{
    const struct weir_lines_state *state = weir_lines_state(lines);
    struct weir_replay *replay;
    require(weir_replay_new(policy_for_all(), state->count, &replay, NULL) == WEIR_OK);
    struct weir_tally *tally = weir_tally_new(policy_for_all(), state->first_us, state->last_us);
    struct weir_access_entry entry;
    struct weir_line_place place;
    struct weir_replayed replayed;
    uint64_t before_us = 0;
    require(tally != NULL);
    for (size_t i = 0; i < state->count; i++) {
        weir_lines_get(lines, i, &entry, &place);
        require(entry.time_us >= before_us && place.line > 0);
        require(entry.texts[WEIR_ACCESS_METHOD].length > 0);
        require(entry.texts[WEIR_ACCESS_TARGET].length > 0);
        require(weir_replay_request(replay, &entry, &replayed));
        require(weir_tally_add(tally, entry.time_us, entry.status, &replayed));
        before_us = entry.time_us;
    }
    require(tally->all.requests == state->count);
    weir_tally_free(tally);
    weir_replay_free(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct weir_access_reader *reader = new_reader(data[0]);
    struct weir_lines *lines = weir_lines_new(0, UINT64_MAX);
    FILE *stream = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "rb");
    require(lines != NULL && stream != NULL);
    weir_lines_read(lines, reader, stream, "log", NULL);
    fclose(stream);
    const struct weir_lines_state *state = weir_lines_state(lines);
    require(state->lines == state->bad + state->count);
    require(state->first_bad_count == 0 || state->first_bad[0].why != NULL);
    weir_lines_order(lines, data[0] & 32);
    if (state->count > 0)
        decide(lines);
    weir_lines_free(lines);
    weir_access_reader_free(reader);
    return 0;
}
