#include "test.h"

#include "request/body_fields.h"

static const char *const names[] = { "username", "user.name", "x" };

/* A body as a client sends it, with lengths, since NUL bytes are what some of them are about. */
struct row {
    const char *when;
    const char *body;
    size_t length;
    enum weir_body_reading reading;
    const char *username; /* NULL: absent */
    const char *nested;   /* "user.name"  */
};

/* clang-format off */
#define BODY(text) (text), sizeof(text) - 1
/* clang-format on */

static bool is_value(struct weir_text value, const char *wanted)
{
    return wanted == NULL ? value.at == NULL
                          : value.at != NULL && weir_text_equal(value, weir_text_from(wanted));
}

static enum weir_body_reading read_body(const struct weir_facts *facts, struct weir_text body,
                                        struct weir_body_field fields[3])
{
    static char memory[100000];
    assert_true(weir_body_memory_bytes(body, 3) <= sizeof memory);
    struct weir_buffer buffer = weir_buffer_init(memory, weir_body_memory_bytes(body, 3));
    for (size_t i = 0; i < 3; i++)
        fields[i].name = weir_text_from(names[i]);
    return weir_body_read(facts, body, fields, 3, &buffer);
}

static void check(const char *type, const struct row *row)
{
    print_message("    %s\n", row->when);
    struct weir_line line = { WEIR_TEXT("Content-Type"), weir_text_from(type) };
    const struct weir_facts facts = { .headers = &line, .header_count = 1 };
    struct weir_body_field fields[3];
    /* On the heap and without a NUL, so that a sanitizer sees who reads on. */
    char *copy = malloc(row->length + (row->length == 0));
    assert_non_null(copy);
    memcpy(copy, row->body, row->length);
    assert_int_equal(read_body(&facts, (struct weir_text){ copy, row->length }, fields),
                     row->reading);
    if (row->reading == WEIR_BODY_READ) {
        assert_true(is_value(fields[0].value, row->username));
        assert_true(is_value(fields[1].value, row->nested));
    }
    free(copy);
}

static void reads_fields_of_a_form(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "one field", BODY("username=ann"), WEIR_BODY_READ, "ann", NULL },
        { "among others", BODY("a=1&username=ann&b=2"), WEIR_BODY_READ, "ann", NULL },
        { "no such field", BODY("user=ann&name=x"), WEIR_BODY_READ, NULL, NULL },
        { "a dot is a letter", BODY("user.name=ann"), WEIR_BODY_READ, NULL, "ann" },
        { "an empty value", BODY("username="), WEIR_BODY_READ, "", NULL },
        { "no equals sign", BODY("username"), WEIR_BODY_READ, "", NULL },
        { "a second equals sign", BODY("username=a=b"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a second equals sign elsewhere", BODY("a=b=c&username=ann"), WEIR_BODY_READ, "ann",
          NULL },
        { "semicolons in others", BODY("a;b=c;d&username=ann"), WEIR_BODY_READ, "ann", NULL },
        { "a semicolon in it", BODY("username=a;b"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a semicolon in front of it", BODY("a=b;user%6eame=c"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a semicolon behind its name", BODY("a;username"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a plus is a space", BODY("username=a+b"), WEIR_BODY_READ, "a b", NULL },
        { "escapes", BODY("username=a%40b.%C3%A9"), WEIR_BODY_READ, "a@b.\xC3\xA9", NULL },
        { "an escaped ampersand", BODY("username=a%26b"), WEIR_BODY_READ, "a&b", NULL },
        { "an escaped name", BODY("user%6eame=ann"), WEIR_BODY_READ, "ann", NULL },
        { "bytes of UTF-8", BODY("username=\xC3\xA9"), WEIR_BODY_READ, "\xC3\xA9", NULL },
        { "empty pairs", BODY("&&username=ann&&"), WEIR_BODY_READ, "ann", NULL },
        { "a line break at the end", BODY("username=ann\r\n"), WEIR_BODY_READ, "ann", NULL },
        { "another letter case", BODY("Username=ann"), WEIR_BODY_BROKEN, NULL, NULL },
        { "another letter case beside it", BODY("username=ann&%55SERNAME=bob"), WEIR_BODY_BROKEN,
          NULL, NULL },
        { "a longer name", BODY("username2=ann"), WEIR_BODY_READ, NULL, NULL },
        { "a shorter name", BODY("usernam=ann"), WEIR_BODY_READ, NULL, NULL },
        { "others twice", BODY("a=1&a=2&username=ann"), WEIR_BODY_READ, "ann", NULL },
        { "others with what is no value", BODY("a=%00%FF&username=ann"), WEIR_BODY_READ, "ann",
          NULL },
        { "another with a broken escape", BODY("a=%zz&username=ann"), WEIR_BODY_BROKEN, NULL,
          NULL },
        { "another with a cut escape", BODY("a=%6&username=1nn"), WEIR_BODY_BROKEN, NULL, NULL },
        { "twice", BODY("username=ann&username=bob"), WEIR_BODY_BROKEN, NULL, NULL },
        { "twice, once empty", BODY("username=&username=bob"), WEIR_BODY_BROKEN, NULL, NULL },
        { "twice, once escaped", BODY("username=ann&%75sername=bob"), WEIR_BODY_BROKEN, NULL,
          NULL },
        { "an escaped NUL", BODY("username=a%00b"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a NUL", BODY("username=a\0b"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a NUL somewhere", BODY("username=a&b=\0"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a NUL in a name", BODY("username%00=a"), WEIR_BODY_BROKEN, NULL, NULL },
        { "no hexadecimal digits", BODY("username=%4g"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a cut escape", BODY("username=%4"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a percent sign at the end", BODY("username=%"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a broken escape in a name", BODY("user%name=a"), WEIR_BODY_BROKEN, NULL, NULL },
        { "no UTF-8", BODY("username=%FF"), WEIR_BODY_BROKEN, NULL, NULL },
        { "an overlong slash", BODY("username=%C0%AF"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a surrogate", BODY("username=%ED%A0%80"), WEIR_BODY_BROKEN, NULL, NULL },
        { "half a character", BODY("username=%C3&a=%A9"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a line break inside", BODY("username=ann\nusername=bob"), WEIR_BODY_BROKEN, NULL, NULL },
        { "nothing", BODY(""), WEIR_BODY_READ, NULL, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check("application/x-www-form-urlencoded", &rows[i]);
}

static void reads_members_of_a_json_object(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a string", BODY("{\"username\":\"ann\"}"), WEIR_BODY_READ, "ann", NULL },
        { "an escaped name", BODY("{\"user\\u006eame\":\"ann\"}"), WEIR_BODY_READ, "ann", NULL },
        { "escapes", BODY("{\"username\":\"a\\u00e9\\ud83d\\ude00\"}"), WEIR_BODY_READ,
          "a\xC3\xA9\xF0\x9F\x98\x80", NULL },
        { "another letter case", BODY("{\"Username\":\"ann\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "another letter case beside it", BODY("{\"username\":\"ann\",\"userName\":null}"),
          WEIR_BODY_BROKEN, NULL, NULL },
        { "another letter case inside", BODY("{\"user\":{\"NAME\":1}}"), WEIR_BODY_BROKEN, NULL,
          NULL },
        { "another letter case of what it leads into", BODY("{\"User\":{}}"), WEIR_BODY_BROKEN,
          NULL, NULL },
        { "nested", BODY("{\"user\":{\"name\":\"ann\"}}"), WEIR_BODY_READ, NULL, "ann" },
        { "a dot in a name leads inside", BODY("{\"user.name\":\"ann\"}"), WEIR_BODY_READ, NULL,
          NULL },
        { "nothing to lead inside of", BODY("{\"user\":null}"), WEIR_BODY_READ, NULL, NULL },
        { "an empty text", BODY("{\"username\":\"\"}"), WEIR_BODY_READ, "", NULL },
        { "null", BODY("{\"username\":null}"), WEIR_BODY_READ, NULL, NULL },
        { "a number", BODY("{\"username\":42}"), WEIR_BODY_READ, "42", NULL },
        { "the same number", BODY("{\"username\":420.0e-1}"), WEIR_BODY_READ, "42", NULL },
        { "nothing, negative", BODY("{\"username\":-0.0}"), WEIR_BODY_READ, "0", NULL },
        { "a long number", BODY("{\"username\":-9223372036854775808}"), WEIR_BODY_READ,
          "-9223372036854775808", NULL },
        { "a fraction", BODY("{\"username\":1.5}"), WEIR_BODY_READ, "1.5", NULL },
        { "a large number", BODY("{\"username\":1e300}"), WEIR_BODY_READ, "1.0000000000000001e300",
          NULL },
        { "a boolean", BODY("{\"username\":true}"), WEIR_BODY_READ, "true", NULL },
        { "others of all kinds",
          BODY("{\"a\":[1,{\"username\":\"x\"}],\"p\":\"\\u0000\",\"username\":\"ann\"}"),
          WEIR_BODY_READ, "ann", NULL },
        { "blanks around it", BODY(" {\"username\" : \"ann\" }\r\n"), WEIR_BODY_READ, "ann", NULL },
        { "no members", BODY("{}"), WEIR_BODY_READ, NULL, NULL },
        { "twice", BODY("{\"username\":\"ann\",\"username\":\"bob\"}"), WEIR_BODY_BROKEN, NULL,
          NULL },
        { "twice, once escaped", BODY("{\"username\":\"ann\",\"\\u0075sername\":\"bob\"}"),
          WEIR_BODY_BROKEN, NULL, NULL },
        { "an escaped NUL", BODY("{\"username\":\"a\\u0000b\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a NUL in a name", BODY("{\"username\\u0000\":\"a\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a NUL", BODY("{\"username\":\"a\0b\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "no UTF-8", BODY("{\"username\":\"\xFF\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "half a character", BODY("{\"username\":\"\\ud83d\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "an object", BODY("{\"username\":{\"a\":\"b\"}}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a list", BODY("{\"username\":[\"ann\"]}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a list to lead inside of", BODY("{\"user\":[{\"name\":\"ann\"}]}"), WEIR_BODY_BROKEN,
          NULL, NULL },
        { "a text to lead inside of", BODY("{\"user\":\"ann\"}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a list in place of an object", BODY("[{\"username\":\"ann\"}]"), WEIR_BODY_BROKEN, NULL,
          NULL },
        { "a text in place of an object", BODY("\"username\""), WEIR_BODY_BROKEN, NULL, NULL },
        { "something behind it", BODY("{\"username\":\"ann\"}{}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a comma at the end", BODY("{\"username\":\"ann\",}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a number that is none", BODY("{\"username\":NaN}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a number without end", BODY("{\"username\":1e999}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "an end that is missing", BODY("{\"username\":\"ann\""), WEIR_BODY_BROKEN, NULL, NULL },
        { "a form", BODY("username=ann"), WEIR_BODY_BROKEN, NULL, NULL },
        { "a byte order mark", BODY("\xEF\xBB\xBF{}"), WEIR_BODY_BROKEN, NULL, NULL },
        { "nothing", BODY(""), WEIR_BODY_READ, NULL, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check("application/json; charset=utf-8", &rows[i]);
}

static void refuses_json_that_is_nested_absurdly(void **state)
{
    (void)state;
    char deep[60000];
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = i % 5 < 4 ? "{\"a\""[i % 5] : ':';
    const struct row row = {
        "objects in objects", deep, sizeof deep, WEIR_BODY_BROKEN, NULL, NULL
    };
    check("application/json", &row);
}

#define PART(head, content) "--limit\r\n" head "\r\n\r\n" content "\r\n"
#define FIELD(name)         "Content-Disposition: form-data; name=\"" name "\""
#define END                 "--limit--\r\n"
#define READS               WEIR_BODY_READ
#define BREAKS              WEIR_BODY_BROKEN, NULL, NULL

static void reads_fields_of_a_multipart_form(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "one field", BODY(PART(FIELD("username"), "ann") END), READS, "ann", NULL },
        { "among others",
          BODY(PART(FIELD("a"), "1") PART(FIELD("username"), "ann") PART(FIELD("b"), "") END),
          READS, "ann", NULL },
        { "an empty value", BODY(PART(FIELD("username"), "") END), READS, "", NULL },
        { "a dot is a letter", BODY(PART(FIELD("user.name"), "ann") END), READS, NULL, "ann" },
        { "lines in a value", BODY(PART(FIELD("username"), "a\r\nb\nc\r\n--lim") END), READS,
          "a\r\nb\nc\r\n--lim", NULL },
        { "letter case that does not matter",
          BODY(PART("content-disposition: form-data; name=\"username\"", "ann") END), READS, "ann",
          NULL },
        { "letter case that does",
          BODY(PART("Content-Disposition: Form-Data; name=\"a\"", "b") END), BREAKS },
        { "a name in capitals", BODY(PART("Content-Disposition: form-data; NAME=\"a\"", "b") END),
          BREAKS },
        { "no quotes", BODY(PART("Content-Disposition: form-data; name=username", "ann") END),
          BREAKS },
        { "no blank behind a colon",
          BODY(PART("Content-Disposition:form-data; name=\"a\"", "b") END), BREAKS },
        { "two blanks behind a colon",
          BODY(PART("Content-Disposition:  form-data; name=\"a\"", "b") END), BREAKS },
        { "a tab behind a colon",
          BODY(PART("Content-Disposition:\tform-data; name=\"a\"", "b") END), BREAKS },
        { "a blank at the end of a line", BODY(PART(FIELD("a") " ", "b") END), BREAKS },
        { "no blank in front of a name",
          BODY(PART("Content-Disposition: form-data;name=\"a\"", "b") END), BREAKS },
        { "something in front of a name",
          BODY(PART("Content-Disposition: form-data; x=\"y\"; name=\"a\"", "b") END), BREAKS },
        { "something behind a name", BODY(PART(FIELD("a") "; x=\"y\"", "b") END), BREAKS },
        { "other lines of a head",
          BODY(PART("X-A: b\r\n" FIELD("username") "\r\nContent-Type: text/plain\r\n"
                                                   "Content-Transfer-Encoding: 8bit",
                    "ann") END),
          READS, "ann", NULL },
        { "a file beside it",
          BODY(PART(FIELD("f") "; filename=\"C:\\a.txt\"\r\nContent-Type: image/png", "\0\xFF\r\n")
                   PART(FIELD("username"), "ann") END),
          READS, "ann", NULL },
        { "a file with two names beside it",
          BODY(PART(FIELD("f") "; filename=\"a.txt\"; filename*=utf-8''a.txt", "b")
                   PART(FIELD("username"), "ann") END),
          READS, "ann", NULL },
        { "a quote in the name of a file",
          BODY(PART(FIELD("f") "; filename=\"a\\\"; name=\\\"username\"", "b") END), BREAKS },
        { "a file without quotes", BODY(PART(FIELD("f") "; filename=a", "b") END), BREAKS },
        { "a line break in front", BODY("\r\n" PART(FIELD("username"), "ann") END), READS, "ann",
          NULL },
        { "no line break at the end", BODY(PART(FIELD("username"), "ann") "--limit--"), READS,
          "ann", NULL },
        { "no parts", BODY(END), READS, NULL, NULL },
        { "another letter case", BODY(PART(FIELD("Username"), "ann") END), BREAKS },
        { "others twice", BODY(PART(FIELD("a"), "1") PART(FIELD("a"), "2") END), READS, NULL,
          NULL },
        { "twice", BODY(PART(FIELD("username"), "a") PART(FIELD("username"), "b") END), BREAKS },
        { "a file under the wanted name",
          BODY(PART(FIELD("username") "; filename=\"f\"", "ann") END), BREAKS },
        { "a file under the wanted name, otherwise",
          BODY(PART(FIELD("username") "; filename*=utf-8''f", "ann") END), BREAKS },
        { "a NUL", BODY(PART(FIELD("username"), "a\0b") END), BREAKS },
        { "no UTF-8", BODY(PART(FIELD("username"), "\xFF") END), BREAKS },
        { "base64",
          BODY(PART(FIELD("username") "\r\nContent-Transfer-Encoding: base64", "YW5u") END),
          BREAKS },
        { "base64 elsewhere",
          BODY(PART(FIELD("a") "\r\nContent-Transfer-Encoding: base64", "YW5u") END), BREAKS },
        { "two encodings",
          BODY(PART(FIELD("a") "\r\nContent-Transfer-Encoding: 8bit\r\n"
                               "Content-Transfer-Encoding: 8bit",
                    "b") END),
          BREAKS },
        { "two types",
          BODY(PART(FIELD("a") "\r\nContent-Type: text/plain\r\nContent-Type: text/plain", "b")
                   END),
          BREAKS },
        { "parts inside another part",
          BODY(PART(FIELD("a") "\r\ncontent-type: Multipart/Mixed; boundary=b", "ann") END),
          BREAKS },
        { "parts inside, said elsewhere",
          BODY(PART(FIELD("a") "\r\nX-A: Content-Type: multipart/mixed; boundary=b", "ann") END),
          BREAKS },
        { "parts inside, said by a longer name",
          BODY(PART("X-Content-Type: multipart/mixed; boundary=b\r\n" FIELD("a"), "ann") END),
          BREAKS },
        { "parts inside a part",
          BODY(PART(FIELD("username") "\r\nContent-Type: multipart/mixed; boundary=b", "ann") END),
          BREAKS },
        { "two names",
          BODY(PART("Content-Disposition: form-data; name=\"a\"; name=\"username\"", "b") END),
          BREAKS },
        { "a name of another kind",
          BODY(PART("Content-Disposition: form-data; name=a; name*=utf-8''username", "b") END),
          BREAKS },
        { "a backslash in a name", BODY(PART(FIELD("user\\name"), "b") END), BREAKS },
        { "a name inside another value",
          BODY(PART("Content-Disposition: form-data; x=\" name=\"username\"; name=\"a\"", "b") END),
          BREAKS },
        { "no name", BODY(PART("Content-Disposition: form-data", "b") END), BREAKS },
        { "a parameter without a value",
          BODY(PART("Content-Disposition: form-data; name=\"a\"; filename=", "b") END), BREAKS },
        { "two dispositions", BODY(PART(FIELD("a") "\r\n" FIELD("username"), "b") END), BREAKS },
        { "no disposition", BODY(PART("Content-Type: text/plain", "b") END), BREAKS },
        { "another disposition",
          BODY(PART("Content-Disposition: attachment; name=\"username\"", "b") END), BREAKS },
        { "a folded line",
          BODY(PART("Content-Disposition: form-data;\r\n name=\"username\"", "b") END), BREAKS },
        { "lines that end with half a line break",
          BODY("--limit\n" FIELD("username") "\n\nann\n--limit--\n"), BREAKS },
        { "half a line break in front of the boundary",
          BODY("--limit\r\n" FIELD("a") "\r\n\r\nb\n" PART(FIELD("username"), "ann") END), BREAKS },
        { "a boundary that goes on", BODY(PART(FIELD("a"), "b\r\n--limits") END), BREAKS },
        { "a boundary with blanks behind it",
          BODY("--limit \r\n" FIELD("username") "\r\n\r\nann\r\n" END), BREAKS },
        { "a boundary at once, and others",
          BODY("--limit\r\n" FIELD("a") "\r\n\r\n" PART(FIELD("username"), "ann") END), BREAKS },
        { "a boundary at once", BODY("--limit\r\n" FIELD("username") "\r\n\r\n" END), BREAKS },
        { "a text in front", BODY("x\r\n" PART(FIELD("username"), "ann") END), BREAKS },
        { "a text behind it", BODY(PART(FIELD("a"), "b") END PART(FIELD("username"), "ann") END),
          BREAKS },
        { "an end that is missing", BODY("--limit\r\n" FIELD("username") "\r\n\r\nann"), BREAKS },
        { "an end that is cut", BODY(PART(FIELD("username"), "ann") "--limit"), BREAKS },
        { "a head that is cut", BODY("--limit\r\n" FIELD("username")), BREAKS },
        { "another boundary", BODY("--other\r\n" FIELD("username") "\r\n\r\nann\r\n--other--"),
          BREAKS },
        { "a form", BODY("username=ann"), BREAKS },
        { "nothing", BODY(""), READS, NULL, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check("multipart/form-data; boundary=limit", &rows[i]);
}

static void takes_the_kind_of_a_body_from_its_content_type(void **state)
{
    (void)state;
    static const char form[] = "username=ann";
    static const char parts[] = PART(FIELD("username"), "ann") END;
    static const struct {
        const char *type; /* NULL: none */
        const char *body;
        enum weir_body_reading reading;
    } rows[] = {
        { "application/x-www-form-urlencoded", form, WEIR_BODY_READ },
        { "Application/X-WWW-Form-Urlencoded ; charset=UTF-8", form, WEIR_BODY_READ },
        { "application/x-www-form-urlencodedly", form, WEIR_BODY_FOREIGN },
        { "text/plain", form, WEIR_BODY_FOREIGN },
        { "application/problem+json", "{}", WEIR_BODY_FOREIGN },
        { "", form, WEIR_BODY_FOREIGN },
        { NULL, form, WEIR_BODY_FOREIGN },
        { NULL, "", WEIR_BODY_READ },
        { "text/plain", "", WEIR_BODY_READ },
        { "multipart/form-data; boundary=\"limit\"", parts, WEIR_BODY_READ },
        { "multipart/form-data; charset=utf-8; boundary=limit", parts, WEIR_BODY_READ },
        { "Multipart/Form-Data;boundary=limit", parts, WEIR_BODY_READ },
        { "multipart/form-data; Boundary=limit", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=limit; charset=utf-8", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=limit ", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=\"limit\" ", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; charset=utf-7; boundary=limit", parts, WEIR_BODY_BROKEN },
        { "application/x-www-form-urlencoded; charset=ibm037", form, WEIR_BODY_FOREIGN },
        { "application/x-www-form-urlencoded;charset=\"iso-8859-1\";", form, WEIR_BODY_READ },
        { "application/x-www-form-urlencoded; charset", form, WEIR_BODY_FOREIGN },
        { "application/json;charset=utf-16", "{}", WEIR_BODY_FOREIGN },
        { "multipart/form-data", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=\"limit", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=limit; boundary=other", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; xboundary=other; boundary=limit", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; charset=\"boundary=other\"; boundary=limit", parts,
          WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=\"li\\mit\"", parts, WEIR_BODY_BROKEN },
        { "multipart/form-data; boundary=limit;", parts, WEIR_BODY_BROKEN },
        { "multipart/mixed; boundary=limit", parts, WEIR_BODY_FOREIGN },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].type == NULL ? "none" : rows[i].type);
        struct weir_line line = { WEIR_TEXT("content-type"), weir_text_from(rows[i].type) };
        const struct weir_facts facts = { .headers = &line, .header_count = rows[i].type != NULL };
        struct weir_body_field fields[3];
        assert_int_equal(read_body(&facts, weir_text_from(rows[i].body), fields), rows[i].reading);
        if (rows[i].reading == WEIR_BODY_READ)
            assert_true(is_value(fields[0].value, rows[i].body[0] == '\0' ? NULL : "ann"));
    }
}

static void refuses_what_two_parsers_could_take_for_two_things(void **state)
{
    (void)state;
    static const char form[] = "application/x-www-form-urlencoded";
    static const struct {
        const char *when;
        const char *name;
        const char *value;
        enum weir_body_reading reading;
    } rows[] = {
        { "a second type", "Content-Type", form, WEIR_BODY_FOREIGN },
        { "compressed", "Content-Encoding", "gzip", WEIR_BODY_FOREIGN },
        { "not compressed", "content-encoding", "Identity", WEIR_BODY_READ },
        { "something else", "X-Other", form, WEIR_BODY_READ },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_line lines[] = {
            { WEIR_TEXT("Content-Type"), weir_text_from(form) },
            { weir_text_from(rows[i].name), weir_text_from(rows[i].value) },
        };
        const struct weir_facts facts = { .headers = lines, .header_count = 2 };
        struct weir_body_field fields[3];
        assert_int_equal(read_body(&facts, WEIR_TEXT("username=ann"), fields), rows[i].reading);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_fields_of_a_form),
        cmocka_unit_test(reads_members_of_a_json_object),
        cmocka_unit_test(refuses_json_that_is_nested_absurdly),
        cmocka_unit_test(reads_fields_of_a_multipart_form),
        cmocka_unit_test(takes_the_kind_of_a_body_from_its_content_type),
        cmocka_unit_test(refuses_what_two_parsers_could_take_for_two_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
