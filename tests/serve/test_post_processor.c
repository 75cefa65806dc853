/* What libmicrohttpd's own post processor finds in a body is what limits have counted by. Thousands of
 * bodies, most of them bent a little, go to a wrapped application that uses one, in pieces of all
 * sizes; and whatever weir lets through, the two have to read alike.
 *
 * WEIR_ROUNDS and WEIR_SEED in the environment ask for more, and for others. */
#include "test.h"

#include <strings.h>
#include <unistd.h>

#include <microhttpd.h>
#include <weir/weir.h>

#include "client.h"

/* the application */

static const char *const names[] = { "username", "x" };

struct visit {
    struct MHD_PostProcessor *processor;
    struct found {
        char value[8192];
        size_t length;
        bool is_twice;
    } found[COUNT_OF(names)];
};

static void note(struct found *found, const char *data, uint64_t offset, size_t size)
{
    if (offset == 0 && found->length > 0)
        found->is_twice = true;
    if (offset + size > sizeof found->value)
        return;
    memcpy(found->value + offset, data, size);
    found->length = offset + size;
}

static enum MHD_Result take_field(void *cls, enum MHD_ValueKind kind, const char *key,
                                  const char *filename, const char *type, const char *encoding,
                                  const char *data, uint64_t offset, size_t size)
{
    (void)kind, (void)filename, (void)type, (void)encoding;
    struct visit *visit = cls;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (key != NULL && strcasecmp(key, names[i]) == 0) /* as careless ones do, too */
            note(&visit->found[i], data, offset, size);
    return MHD_YES;
}

static bool is_alike(struct weir_request *request, const char *name, const struct found *found)
{
    const char *value;
    size_t length;
    switch (weir_request_field(request, name, &value, &length)) {
    case WEIR_FIELD_FOUND:
        return found->length == 0
               || (!found->is_twice && found->length == length
                   && memcmp(found->value, value, length) == 0);
    case WEIR_FIELD_ABSENT:
        return found->length == 0;
    case WEIR_FIELD_BROKEN: /* of a field that no limit counts by */
        return strcmp(name, "username") != 0;
    case WEIR_FIELD_WAIT:
    case WEIR_FIELD_FOREIGN:
    case WEIR_FIELD_UNREAD:
        break;
    }
    return false;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result reply_what_was_found(struct MHD_Connection *connection, struct visit *visit)
{
    char text[600] = "";
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct found *found = &visit->found[i];
        if (is_alike(weir_request_of(connection), names[i], found))
            continue;
        snprintf(text, sizeof text, "%s is \"%.*s\"%s for libmicrohttpd", names[i],
                 (int)(found->length < 400 ? found->length : 400), found->value,
                 found->is_twice ? ", twice," : "");
        return reply(connection, 500, text);
    }
    return reply(connection, visit->found[0].length > 0 ? 200 : 202, "alike");
}

/* Does not ask how it went, as careless applications do not. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version;
    struct visit *visit = *con_cls;
    if (visit == NULL) {
        const char *buffer = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Buffer");
        *con_cls = visit = calloc(1, sizeof *visit);
        assert_non_null(visit);
        visit->processor =
            MHD_create_post_processor(connection, strtoul(buffer, NULL, 10), take_field, visit);
        return MHD_YES;
    }
    if (*size > 0) {
        if (visit->processor != NULL)
            MHD_post_process(visit->processor, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (visit->processor != NULL)
        MHD_destroy_post_processor(visit->processor);
    visit->processor = NULL;
    return reply_what_was_found(connection, visit);
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection, (void)code;
    struct visit *visit = *con_cls;
    if (visit != NULL && visit->processor != NULL)
        MHD_destroy_post_processor(visit->processor);
    free(visit);
}

/* the site */

static const char policy_json[] =
    "{\"secret\": \"s\", \"policies\": {\"login\": {\"limits\": ["
    "  {\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"1000000/second\"}]}},"
    " \"routes\": [{\"match\": \"* /*\", \"policy\": \"login\"}]}";

static struct {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
    uint16_t port;
    int fd; /* of the client; -1: not connected */
    unsigned long rounds;
    uint64_t seed;
    unsigned long found, let_through, refused;
} site = { .fd = -1 };

static unsigned long setting(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);
    return value == NULL ? otherwise : strtoul(value, NULL, 10);
}

static int set_up(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &site.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site.policy), &site.limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &site.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(site.chain, weir_limit(site.limiter)), WEIR_OK);
    assert_int_equal(
        weir_chain_serve(site.chain, WEIR_APP(.handler = answer, .completed = completed)), WEIR_OK);
    site.daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         weir_access_handler, site.chain, MHD_OPTION_NOTIFY_COMPLETED,
                         weir_request_completed, site.chain, MHD_OPTION_END);
    assert_non_null(site.daemon);
    site.port = MHD_get_daemon_info(site.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    site.rounds = setting("WEIR_ROUNDS", 6000);
    site.seed = setting("WEIR_SEED", 20221130);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (site.fd >= 0)
        close(site.fd);
    weir_stop_daemon(site.chain, site.daemon, 5000);
    weir_chain_free(site.chain);
    weir_limiter_free(site.limiter);
    weir_policy_free(site.policy);
    return 0;
}

/* chance */

static uint64_t number_below(uint64_t end)
{
    site.seed = site.seed * 6364136223846793005u + 1442695040888963407u;
    return (site.seed >> 33) % end;
}

#define ONE_OF(words) ((words)[number_below(COUNT_OF(words))])

/* texts that may hold any byte */

#define TEXT_MAX 6000

struct bytes {
    char at[TEXT_MAX];
    size_t length;
};

struct word {
    const char *at;
    size_t length;
};

/* clang-format off */
#define WORD(literal) { (literal), sizeof(literal) - 1 }
/* clang-format on */

static void put(struct bytes *bytes, const char *at, size_t length)
{
    if (length > TEXT_MAX - bytes->length)
        return;
    memcpy(bytes->at + bytes->length, at, length);
    bytes->length += length;
}

static void put_text(struct bytes *bytes, const char *text)
{
    put(bytes, text, strlen(text));
}

static void insert(struct bytes *bytes, size_t place, struct word word)
{
    if (word.length > TEXT_MAX - bytes->length)
        return;
    memmove(bytes->at + place + word.length, bytes->at + place, bytes->length - place);
    memcpy(bytes->at + place, word.at, word.length);
    bytes->length += word.length;
}

static void take_out(struct bytes *bytes, size_t place, size_t length)
{
    if (length > bytes->length - place)
        length = bytes->length - place;
    memmove(bytes->at + place, bytes->at + place + length, bytes->length - place - length);
    bytes->length -= length;
}

/* Puts a word in, takes some bytes out, changes one, or says something twice. */
static void bend(struct bytes *bytes, const struct word *words, size_t count)
{
    size_t place = number_below(bytes->length + 1);
    struct word word = words[number_below(count)];
    char copy[64];
    switch (number_below(5)) {
    case 0:
        take_out(bytes, place, 1 + number_below(6));
        break;
    case 1:
        if (place < bytes->length)
            bytes->at[place] = word.at[0];
        break;
    case 2:
        word.length = bytes->length - place < 40 ? bytes->length - place : 40;
        memcpy(copy, bytes->at + place, word.length);
        word.at = copy;
        insert(bytes, number_below(bytes->length + 1), word);
        break;
    case 3:
        take_out(bytes, place, word.length);
        insert(bytes, place, word);
        break;
    default:
        insert(bytes, place, word);
        break;
    }
}

/* exchanges */

/* In chunks, which libmicrohttpd hands on one by one. */
static void put_chunks(struct bytes *request, const struct bytes *body)
{
    size_t most = 1 + number_below(number_below(3) == 0 ? 4 : 200);
    for (size_t at = 0; at < body->length;) {
        char line[32];
        size_t length = 1 + number_below(most);
        if (length > body->length - at)
            length = body->length - at;
        snprintf(line, sizeof line, "%zx\r\n", length);
        put_text(request, line);
        put(request, body->at + at, length);
        put_text(request, "\r\n");
        at += length;
    }
    put_text(request, "0\r\n\r\n");
}

static void print_bytes(const struct bytes *bytes)
{
    char text[4 * TEXT_MAX + 1];
    size_t length = 0;
    for (size_t i = 0; i < bytes->length; i++) {
        unsigned char c = (unsigned char)bytes->at[i];
        length += (size_t)snprintf(text + length, 5,
                                   c == '\r'                           ? "\\r"
                                   : c == '\n'                         ? "\\n"
                                   : c >= ' ' && c != 0x7F && c < 0x80 ? "%c"
                                                                       : "\\%03o",
                                   c);
    }
    print_error("%s\n", text);
}

/* False: nothing came back. libmicrohttpd closes a connection after some heads that it refuses, and
 * does not always say so before. */
static bool send_and_read(const struct bytes *request, struct reply *got)
{
    if (site.fd < 0)
        site.fd = client_connect(site.port);
    client_send(site.fd, request->at, request->length);
    client_read(site.fd, false, got);
    const char *connection = reply_header(got, "Connection");
    if (got->status == 0 || (connection != NULL && strcmp(connection, "close") == 0)) {
        close(site.fd);
        site.fd = -1;
    }
    return got->status != 0;
}

static void exchange(const char *type, const struct bytes *body)
{
    static const unsigned buffers[] = { 256, 300, 1024, 8192 };
    struct bytes request = { .length = 0 };
    struct reply got;
    char head[700];
    snprintf(head, sizeof head,
             "POST / HTTP/1.1\r\nHost: t\r\nX-Buffer: %u\r\nTransfer-Encoding: chunked\r\n%s\r\n",
             ONE_OF(buffers), type);
    put_text(&request, head);
    if (body->length * 6 + 10 > TEXT_MAX - request.length)
        return;
    put_chunks(&request, body);
    if (!send_and_read(&request, &got))
        send_and_read(&request, &got);
    if (got.status != 200 && got.status != 202 && got.status != 400 && got.status != 415) {
        print_bytes(&request);
        fail_msg("%u %s", got.status, got.body);
    }
    site.found += got.status == 200;
    site.let_through += got.status <= 202;
    site.refused += got.status >= 400;
}

/* So that the test does not come to test nothing. */
static void expect_of_all(const char *what)
{
    print_message("    %s: %lu read, %lu of them with a name, %lu refused\n", what,
                  site.let_through, site.found, site.refused);
    assert_true(site.found > site.rounds / 60);
    assert_true(site.refused > site.rounds / 60);
    site.found = site.let_through = site.refused = 0;
}

/* forms */

static void put_form(struct bytes *body)
{
    static const struct word pairs[] = {
        WORD("username=ann"),
        WORD("Username=bob"),
        WORD("username=%61nn"),
        WORD("user%6eame=ann+b"),
        WORD("x=1"),
        WORD("x=%6"),
        WORD("x"),
        WORD("username"),
        WORD("y=1;username=b"),
        WORD("y=%41%42"),
        WORD("x="),
        WORD(""),
        WORD("=z"),
        WORD("username=a%40b"),
        WORD("username=a+b"),
        WORD("y=2"),
        WORD("y=%C3%A9"),
        WORD("x=%20"),
        WORD("y=%"),
        WORD("x=a=b"),
        WORD("username=1nn"),
        WORD("u%00=c"),
    };
    size_t count = 1 + number_below(4);
    for (size_t i = 0; i < count; i++) {
        struct word pair = ONE_OF(pairs);
        put(body, "&", i > 0);
        put(body, pair.at, pair.length);
    }
}

static void reads_forms_as_libmicrohttpd_does(void **state)
{
    (void)state;
    static const struct word words[] = {
        WORD("&"),         WORD("="),
        WORD(";"),         WORD("+"),
        WORD("%"),         WORD("%6"),
        WORD("%61"),       WORD("%00"),
        WORD("\0"),        WORD("\n"),
        WORD("\r"),        WORD("\r\n"),
        WORD(" "),         WORD("%e"),
        WORD("%C3%A9"),    WORD("username"),
        WORD("username="), WORD("&username=bob"),
        WORD("%26"),       WORD("%3D"),
        WORD("[]"),        WORD("\xEF\xBB\xBF"),
        WORD("n"),         WORD("%6E"),
    };
    static const char *const types[] = {
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "content-type:Application/X-WWW-Form-URLencoded ; charset=utf-8 \r\n",
        "Content-Type: application/x-www-form-urlencoded,multipart/form-data; boundary=abc\r\n",
        "Content-Type: application/x-www-form-urlencodedly\r\n",
    };
    for (unsigned long round = 0; round < site.rounds; round++) {
        struct bytes body = { .length = 0 };
        put_form(&body);
        for (uint64_t bends = number_below(3); bends > 0; bends--)
            bend(&body, words, COUNT_OF(words));
        exchange(ONE_OF(types), &body);
    }
    expect_of_all("forms");
}

/* multipart forms */

/* Mostly one of the first. */
#define MOSTLY(words, others) (number_below(6) > 0 ? ONE_OF(words) : ONE_OF(others))

static const char *disposition(void)
{
    static const char *const plain[] = {
        "Content-Disposition: form-data; name=\"username\"",
        "Content-Disposition: form-data; name=\"x\"",
        "Content-Disposition: form-data; name=\"y\"",
        "content-disposition: form-data; name=\"x\"",
        "Content-Disposition: form-data; name=\"y\"; filename=\"f.txt\"",
    };
    static const char *const odd[] = {
        "Content-Disposition: form-data; name=\"username\"; filename=\"f.txt\"",
        "Content-Disposition:form-data; name=\"x\"",
        "Content-Disposition: form-data; NAME=\"x\"",
        "Content-Disposition: form-data; name=\"UserName\"",
        "Content-Disposition: form-data;name=\"x\"",
        "Content-Disposition: form-data; name=username",
        "Content-Disposition: form-data; y=q name=\"username\"; name=\"x\"",
        "Content-Disposition: form-data; filename=\"a\\\" name=\\\"username\"; name=\"x\"",
    };
    return MOSTLY(plain, odd);
}

static const char *other_line(void)
{
    static const char *const plain[] = {
        "",
        "",
        "Content-Type: text/plain\r\n",
        "Content-Length: 3\r\n",
        "Content-Transfer-Encoding: 8bit\r\n",
    };
    static const char *const odd[] = {
        "Content-Type: multipart/mixed; boundary=nn\r\n",
        "Content-Type:multipart/mixed; boundary=nn\r\n",
        "X-Y: Content-Type: multipart/mixed; boundary=nn\r\n",
        "X-Content-Type: multipart/mixed; boundary=nn\r\n",
    };
    return MOSTLY(plain, odd);
}

static const char *content(void)
{
    static const char *const plain[] = { "ann", "", "a\r\nb", "\r\n--ab" };
    static const char *const odd[] = {
        "--nn\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--nn--",
        "--abc; charset=u\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob",
        "\r\n--abcd\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob",
    };
    return MOSTLY(plain, odd);
}

static void put_part(struct bytes *body)
{
    bool is_first = number_below(2) == 0;
    const char *line = other_line();
    put_text(body, "--abc\r\n");
    put_text(body, is_first ? line : "");
    put_text(body, disposition());
    put_text(body, "\r\n");
    put_text(body, is_first ? "" : line);
    put_text(body, "\r\n");
    put_text(body, content());
    put_text(body, "\r\n");
}

/* The line of the head, bent in a body of its own. */
static void make_type(char *line, size_t size)
{
    static const char *const types[] = {
        "Content-Type: multipart/form-data; boundary=abc; charset=u",
        "Content-Type: multipart/form-data; charset=utf-8; boundary=abc",
        "Content-Type: multipart/form-data; boundary=\"abc\"",
        "Content-Type: multipart/form-data; boundary=\"abc\";",
        "Content-Type: multipart/form-data; Boundary=abc; boundary=ab",
        "Content-Type: multipart/form-data; boundary=abc ",
        "Content-Type: multipart/form-data; boundary=abcd; boundary=abc",
        "Content-Type: multipart/form-data; boundary=abc\r\nContent-Type: text/plain",
        "Content-Type: multipart/form-data; charset=\"boundary=abcd\"; boundary=abc",
        "Content-Type: multipart/form-data;\r\n boundary=abc",
        "Content-Type: multipart/form-data; boundary=abc\r\n ; charset=u",
    };
    static const struct word words[] = {
        WORD("abc"), WORD("; "), WORD("boundary="), WORD("\""), WORD(" "),  WORD("\t"), WORD("d"),
        WORD(","),   WORD("="),  WORD("-"),         WORD("\\"), WORD("--"), WORD("B"),
    };
    struct bytes type = { .length = 0 };
    static const char *const plain[] = { "Content-Type: multipart/form-data; boundary=abc" };
    put_text(&type, MOSTLY(plain, types));
    if (number_below(8) == 0)
        bend(&type, words, COUNT_OF(words));
    snprintf(line, size, "%.*s\r\n", (int)type.length, type.at);
}

static void reads_multipart_forms_as_libmicrohttpd_does(void **state)
{
    (void)state;
    static const struct word words[] = {
        WORD("\r\n"),
        WORD("\n"),
        WORD("\r"),
        WORD("--"),
        WORD("--abc"),
        WORD("\r\n--abc"),
        WORD("\r\n--abc\r\n"),
        WORD("\r\n--abc--"),
        WORD("--abc--\r\n"),
        WORD("\r\n\r\n"),
        WORD(" "),
        WORD("\t"),
        WORD(";"),
        WORD("; "),
        WORD(":"),
        WORD(": "),
        WORD("\""),
        WORD("\\"),
        WORD("\\\""),
        WORD("\0"),
        WORD("="),
        WORD(" name=\"username\""),
        WORD("; name=\"username\""),
        WORD("name*=utf-8''username"),
        WORD("filename="),
        WORD("\r\n "),
        WORD("username"),
        WORD("Content-Disposition: form-data; name=\"username\"\r\n"),
        WORD("Content-Disposition: "),
        WORD("Content-Type: multipart/mixed; boundary=nn\r\n"),
        WORD("Content-Type: "),
        WORD("multipart/mixed, boundary=nn"),
        WORD("--nn\r\n"),
        WORD("Content-Transfer-Encoding: base64\r\n"),
        WORD("C"),
        WORD("n"),
        WORD("-"),
    };
    for (unsigned long round = 0; round < site.rounds; round++) {
        struct bytes body = { .length = 0 };
        char type[300];
        put_text(&body, number_below(10) == 0 ? "\r\n" : "");
        for (uint64_t parts = 1 + number_below(3); parts > 0; parts--)
            put_part(&body);
        put_text(&body, number_below(10) == 0 ? "--abc--" : "--abc--\r\n");
        for (uint64_t bends = number_below(3); bends > 0; bends--)
            bend(&body, words, COUNT_OF(words));
        make_type(type, sizeof type);
        exchange(type, &body);
    }
    expect_of_all("multipart");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_forms_as_libmicrohttpd_does),
        cmocka_unit_test(reads_multipart_forms_as_libmicrohttpd_does),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
