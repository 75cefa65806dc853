/* What a wrapped handler is told that asks for a field: whether limits hold or not it finds it, or knows
 * at once that it has to read the body itself. */
#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

#include "client.h"
#include "served.h"

/* "%s" are members of the file and of the policy. */
static const char policy_json[] =
    "{\"secret\": \"s\", %s \"policies\": {"
    "  \"login\": {%s \"limits\": [{\"name\": \"account\", \"by\": \"field:username\","
    "    \"rate\": \"1000/day\"}]},"
    "  \"plain\": {\"limits\": [{\"name\": \"address\", \"by\": \"ip\", \"rate\": \"1000/day\"}]}},"
    " \"routes\": [{\"match\": \"* /login\", \"policy\": \"login\"},"
    "   {\"match\": \"* /plain\", \"policy\": \"plain\"}]}";

static struct served served;
static atomic_uint warnings;

static void note_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level == WEIR_WARNING && strstr(text, "[field-unread]") != NULL)
        atomic_fetch_add(&warnings, 1);
}

struct visit {
    char bytes[12]; /* the first of the body, as the handler saw it come */
    size_t length;
};

static const char *word(enum weir_field found)
{
    static const char *const words[] = {
        [WEIR_FIELD_WAIT] = "wait",       [WEIR_FIELD_FOUND] = "found",
        [WEIR_FIELD_ABSENT] = "absent",   [WEIR_FIELD_BROKEN] = "broken",
        [WEIR_FIELD_FOREIGN] = "foreign", [WEIR_FIELD_UNREAD] = "unread",
    };
    return words[found];
}

/* Says what it was told in its last call, and, of the whole body, whether it is there. */
static enum MHD_Result say(struct MHD_Connection *connection, const struct visit *visit)
{
    struct weir_request *request = weir_request_of(connection);
    char text[200];
    const char *value = "", *bytes;
    size_t length;
    enum weir_field found = weir_request_field(request, "username", &value, &length);
    bool is_whole = weir_request_body(request, 1000, &bytes, &length);
    snprintf(text, sizeof text, "%s %s %s %.*s", word(found), value, is_whole ? "whole" : "none",
             (int)visit->length, visit->bytes);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

/* Asks in its first call, too, as one does that has to decide whether to read on. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version;
    struct visit *visit = *con_cls;
    if (visit == NULL) {
        const char *value;
        size_t length;
        assert_int_not_equal(
            weir_request_field(weir_request_of(connection), "username", &value, &length),
            WEIR_FIELD_WAIT);
        *con_cls = calloc(1, sizeof *visit);
        return MHD_YES;
    }
    if (*size == 0)
        return say(connection, visit);
    size_t room = sizeof visit->bytes - visit->length;
    size_t taken = *size < room ? *size : room;
    memcpy(visit->bytes + visit->length, data, taken);
    visit->length += taken;
    *size = 0;
    return MHD_YES;
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection, (void)code;
    free(*con_cls);
}

static void start(const char *of_file, const char *of_policy)
{
    char text[1024];
    snprintf(text, sizeof text, policy_json, of_file, of_policy);
    atomic_store(&warnings, 0);
    served_start(&served, text, WEIR_APP(.handler = answer, .completed = completed),
                 (struct weir_log){ note_line, NULL });
}

#define FORM    "Content-Type: application/x-www-form-urlencoded\r\n"
#define WHOLE   FORM "Content-Length: 12\r\n\r\nusername=ann"
#define CHUNKED FORM "Transfer-Encoding: chunked\r\n\r\nc\r\nusername=ann\r\n0\r\n\r\n"

/* Three times each, on one connection: the answer is always the same, and a warning comes once. */
static void expect(const char *path, const char *request, const char *wanted)
{
    struct reply reply;
    char text[2048];
    int fd = client_connect(served.port);
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: t\r\n%s", path, request);
    for (int times = 0; times < 3; times++) {
        client_send_text(fd, text);
        client_read(fd, false, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.body, wanted);
    }
    close(fd);
}

static void finds_fields_whether_limits_hold_or_not(void **state)
{
    (void)state;
    static const struct {
        const char *when, *of_file, *of_policy;
        bool reads_chunks;
    } rows[] = {
        { "limits hold", "", "", true },
        { "the file is off", "\"mode\": \"off\",", "", false },
        { "the policy is off", "", "\"mode\": \"off\",", false },
        { "the file only watches", "\"mode\": \"shadow\",", "", false },
        { "the policy only watches", "", "\"mode\": \"shadow\",", false },
        { "the file allows the client", "\"allow\": {\"ip\": [\"127.0.0.1\"]},", "", false },
        { "the policy allows the client", "", "\"allow\": {\"ip\": [\"127.0.0.1\"]},", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        start(rows[i].of_file, rows[i].of_policy);
        expect("/login", WHOLE, "found ann whole username=ann");
        expect("/login", FORM "Content-Length: 0\r\n\r\n", "absent  whole ");
        assert_int_equal(atomic_load(&warnings), 0);
        expect("/login", CHUNKED,
               rows[i].reads_chunks ? "found ann whole username=ann" : "unread  none username=ann");
        assert_int_equal(atomic_load(&warnings), !rows[i].reads_chunks);
        served_free(&served);
    }
}

static void says_at_once_that_it_has_not_read_a_body(void **state)
{
    (void)state;
    static const char *const paths[] = { "/plain", "/nowhere" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        start("", "");
        expect(paths[i], FORM "Content-Length: 0\r\n\r\n", "absent  whole ");
        assert_int_equal(atomic_load(&warnings), 0);
        expect(paths[i], WHOLE, "unread  none username=ann");
        expect(paths[i], CHUNKED, "unread  none username=ann");
        assert_int_equal(atomic_load(&warnings), 1);
        served_free(&served);
    }
}

static void leaves_long_bodies_to_the_handler_where_it_refuses_none(void **state)
{
    (void)state;
    char request[1200];
    int length =
        snprintf(request, sizeof request, FORM "Content-Length: 1025\r\n\r\nusername=ann&");
    memset(request + length, 'x', 1012);
    request[length + 1012] = '\0';
    start("\"mode\": \"off\",", "\"body_max\": \"1KiB\",");
    expect("/login", request, "unread  none username=ann");
    assert_int_equal(atomic_load(&warnings), 1);
    served_free(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_fields_whether_limits_hold_or_not),
        cmocka_unit_test(says_at_once_that_it_has_not_read_a_body),
        cmocka_unit_test(leaves_long_bodies_to_the_handler_where_it_refuses_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
