#include "zones.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/date.h"
#include "policy/zone.h"

#define HEADER_BYTES 44
#define ZONES        "/usr/share/zoneinfo"

static char folder[] = "/tmp/weir-zones-XXXXXX";

/* Europe/Berlin, version 2 or later, as it is installed. */
static char berlin[65536];
static size_t berlin_length;

static char path_memory[256];

static const char *path_of(const char *name)
{
    snprintf(path_memory, sizeof path_memory, "%s/%s", folder, name);
    return path_memory;
}

static void write_file(const char *name, const void *bytes, size_t length)
{
    FILE *stream = fopen(path_of(name), "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, length, stream), length);
    assert_int_equal(fclose(stream), 0);
}

static int start(void **state)
{
    (void)state;
    FILE *stream = fopen(ZONES "/Europe/Berlin", "r");
    if (stream == NULL)
        fail_msg("There is no " ZONES "/Europe/Berlin; install the package tzdata.");
    berlin_length = fread(berlin, 1, sizeof berlin, stream);
    fclose(stream);
    assert_true(berlin_length > 500 && berlin[4] >= '2');
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct weir_zone load(const char *name)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    assert_ok(weir_zone_load(name, &zone, &error), &error);
    return zone;
}

/* the same as the C library */

static void compare(const struct weir_zone *zone, const char *name, int64_t at_s)
{
    struct tm local = local_time(at_s);
    int32_t offset_s = weir_zone_offset_s(zone, at_s);
    if (offset_s != local.tm_gmtoff)
        fail_msg("%s at %lld: %d, and the C library says %ld", name, (long long)at_s, offset_s,
                 local.tm_gmtoff);
}

/* Around each change, where the mistakes are. */
static void compare_at_changes(const struct weir_zone *zone, const char *name)
{
    for (size_t i = 1; i < zone->count; i++) {
        int64_t since_s = zone->changes[i].since_s;
        if (since_s <= 0 || since_s >= YEAR_2100_S)
            continue;
        compare(zone, name, since_s - 1);
        compare(zone, name, since_s);
        compare(zone, name, since_s + 1);
    }
}

static void compare_anywhere(const struct weir_zone *zone, const char *name, int count,
                             int64_t before_s)
{
    uint64_t random = 7;
    for (int i = 0; i < count; i++)
        compare(zone, name, random_instant(&random, before_s));
}

static void tells_the_offset_that_the_c_library_tells(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd_zones); i++) {
        struct weir_zone zone = load(odd_zones[i]);
        print_message("    %s: %zu changes\n", odd_zones[i], zone.count);
        let_c_library_use(odd_zones[i]);
        compare_at_changes(&zone, odd_zones[i]);
        compare_anywhere(&zone, odd_zones[i], 20000, YEAR_2100_S);
        weir_zone_finish(&zone);
    }
}

static size_t zones_walked;

static int walk_zone(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)where;
    char magic[4] = "";
    const char *name = path + sizeof ZONES;
    if (kind != FTW_F || strncmp(name, "right/", 6) == 0 || status->st_size < HEADER_BYTES)
        return 0;
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    bool is_zone = fread(magic, 1, 4, stream) == 4 && memcmp(magic, "TZif", 4) == 0;
    fclose(stream);
    if (!is_zone)
        return 0;

    struct weir_zone zone = load(name);
    let_c_library_use(path);
    compare_at_changes(&zone, name);
    compare_anywhere(&zone, name, 100, YEAR_2100_S);
    weir_zone_finish(&zone);
    zones_walked++;
    return 0;
}

static void reads_every_zone_that_is_installed(void **state)
{
    (void)state;
    assert_int_equal(nftw(ZONES, walk_zone, 16, FTW_PHYS), 0);
    print_message("    %zu zones\n", zones_walked);
    assert_true(zones_walked > 100);
}

/* rules */

/* A file of version 3 that has nothing but a rule. */
static size_t make_rule_file(const char *rule, char bytes[256])
{
    static const char header[HEADER_BYTES] = { 'T', 'Z', 'i', 'f', '3', [39] = 1, [43] = 4 };
    static const char type_and_name[10] = { 0, 0, 0, 0, 0, 0, 'L', 'M', 'T', 0 };
    size_t length = 0;
    for (int i = 0; i < 2; i++) {
        memcpy(bytes + length, header, sizeof header);
        memcpy(bytes + length + sizeof header, type_and_name, sizeof type_and_name);
        length += sizeof header + sizeof type_and_name;
    }
    return length + (size_t)snprintf(bytes + length, 256 - length, "\n%s\n", rule);
}

static struct weir_zone zone_of_rule(const char *rule)
{
    char bytes[256];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    struct weir_text file = { bytes, make_rule_file(rule, bytes) };
    assert_ok(weir_zone_read(rule, file, &zone, &error), &error);
    return zone;
}

static void follows_rules_as_the_c_library_does(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "UTC0",
        "<+0330>-3:30",
        "<-00>+00:00:00",
        "AAA24:59:59",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "EST5EDT,M3.2.0,M11.1.0",
        "EST5EDT4:30,J60/1:30:15,J300/0",
        "EST5EDT,59,299/4",
        "NZST-12NZDT,M9.5.0,M4.1.0/3",
        "IST-1GMT0,M10.5.0,M3.5.0/1",
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "EET-2EEST,M3.4.4/50,M10.4.4/50",
        "EET-2EEST,M4.2.1/-167,M9.4.3/+167",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3",
        "AAA3BBB,M1.5.6,M12.1.3/13",
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct weir_zone zone = zone_of_rule(rules[i]);
        print_message("    %s\n", rules[i]);
        let_c_library_use(rules[i]);
        compare_at_changes(&zone, rules[i]);
        compare_anywhere(&zone, rules[i], 20000, 4 * YEAR_2200_S);
        weir_zone_finish(&zone);
    }
}

/* Of "2024-03-31 01:00:00". */
static int64_t instant(const char *text)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    assert_true(rest != NULL && *rest == '\0');
    return timegm(&tm);
}

static void follows_rules_to_the_second(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *rule;
        const char *at; /* UTC */
        int32_t before_s, from_then_on_s;
    } rows[] = {
        { "the last Sunday", "CET-1CEST,M3.5.0,M10.5.0/3", "2024-03-31 01:00:00", 3600, 7200 },
        { "a last that is the fourth", "CET-1CEST,M2.5.0,M10.5.0/3", "2026-02-22 01:00:00", 3600,
          7200 },
        { "a last that is the fifth", "CET-1CEST,M2.5.0,M10.5.0/3", "2032-02-29 01:00:00", 3600,
          7200 },
        { "in the year 3000", "CET-1CEST,M3.5.0,M10.5.0/3", "3000-03-30 01:00:00", 3600, 7200 },
        { "J60, a leap year", "AAA0BBB,J60/0,J300/0", "2024-03-01 00:00:00", 0, 3600 },
        { "J60, another year", "AAA0BBB,J60/0,J300/0", "2023-03-01 00:00:00", 0, 3600 },
        { "J59, a leap year", "AAA0BBB,J59/0,J300/0", "2024-02-28 00:00:00", 0, 3600 },
        { "59, a leap year", "AAA0BBB,59/0,300/0", "2024-02-29 00:00:00", 0, 3600 },
        { "59, another year", "AAA0BBB,59/0,300/0", "2023-03-01 00:00:00", 0, 3600 },
        { "the day before", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2024-03-31 01:00:00", -7200,
          -3600 },
        { "the next week", "AAA0BBB,M3.1.0/167,M10.5.0", "2024-03-09 23:00:00", 0, 3600 },
        { "south of the equator", "AAA-12BBB,M9.5.0,M4.1.0/3", "2024-04-06 14:00:00", 46800,
          43200 },
        { "the year before it", "AAA-12BBB,J1/-10,J90", "2023-12-31 02:00:00", 43200, 46800 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_zone zone = zone_of_rule(rows[i].rule);
        int64_t at_s = instant(rows[i].at);
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_zone_offset_s(&zone, at_s - 1), rows[i].before_s);
        assert_int_equal(weir_zone_offset_s(&zone, at_s), rows[i].from_then_on_s);
        weir_zone_finish(&zone);
    }
}

/* RFC 9636 section 3.3.1 writes it so. (Version 2.36 of the GNU C library has three hours of standard
 * time at each new year instead.) */
static void knows_daylight_time_all_year(void **state)
{
    (void)state;
    struct weir_zone zone = zone_of_rule("XXX3EDT4,0/0,J365/23");
    uint64_t random = 7;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(weir_zone_offset_s(&zone, random_instant(&random, YEAR_2200_S)), -14400);
    assert_true(zone.count <= 3);
    weir_zone_finish(&zone);
}

static void refuses_what_is_no_rule(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "CE-1",
        "CET",
        "CET-",
        "CET25",
        "CET-1:60",
        "CET-1:00:60",
        "CET-1:",
        "C3T-1",
        "<+3>-3",
        "<+03-3",
        "<+0 3>-3",
        "<>0",
        "CET-1CEST",
        "CET-1CEST-2",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,",
        "CET-1CEST,M3.5.0,M10.5.0/",
        "CET-1CEST,M3.5.0,M10.5.0/168",
        "CET-1CEST,M3.5.0,M10.5.0/-168",
        "CET-1CEST,M3.5.0,M10.5.0/3 ",
        "CET-1CEST,M3.5.0,M10.5.0/3,J1",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5,M10.5.0",
        "CET-1CEST,J0,J300",
        "CET-1CEST,J366,J300",
        "CET-1CEST,J,J300",
        "CET-1CEST,366,300",
        "CET-1CEST,-1,300",
        "CET-1CEST,0000,300",
        ":Europe/Berlin",
        "Europe/Berlin",
        " ",
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        char bytes[256];
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_zone zone;
        struct weir_text file = { bytes, make_rule_file(rules[i], bytes) };
        print_message("    \"%s\"\n", rules[i]);
        assert_int_equal(weir_zone_read("A/B", file, &zone, &error), WEIR_E_FILE);
        if (strstr(error.text, rules[i]) == NULL || strstr(error.text, "is no rule") == NULL)
            fail_msg("%s", error.text);
    }
}

/* files */

static void assert_refused(const char *bytes, size_t length, const char *why)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone = { .count = 77 };
    struct weir_text file = { bytes, length };
    assert_int_equal(weir_zone_read("Europe/Berlin", file, &zone, &error), WEIR_E_FILE);
    assert_int_equal(zone.count, 77);
    if (strstr(error.text, why) == NULL || strstr(error.text, "\"Europe/Berlin\"") == NULL)
        fail_msg("%s", error.text);
}

static void refuses_a_file_that_is_cut_anywhere(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZDIR", folder, 1), 0);
    for (size_t length = 0; length < berlin_length; length++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_zone zone;
        write_file("Cut", berlin, length);
        if (weir_zone_load("Cut", &zone, &error) != WEIR_E_FILE)
            fail_msg("cut to %zu bytes", length);
        if (strstr(error.text, "\"Cut\" is broken") == NULL)
            fail_msg("%s", error.text);
    }
    write_file("Cut", berlin, berlin_length);
    struct weir_zone zone = load("Cut");
    assert_int_equal(weir_zone_offset_s(&zone, instant("2050-07-01 00:00:00")), 7200);
    weir_zone_finish(&zone);
    unlink(path_of("Cut"));
    unsetenv("TZDIR");
}

static uint32_t number_in(const char *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Where the second header starts. */
static size_t second_header(void)
{
    const char *h = berlin;
    return HEADER_BYTES + number_in(h + 32) * 5 + number_in(h + 36) * 6 + number_in(h + 40)
           + number_in(h + 28) * 8 + number_in(h + 24) + number_in(h + 20);
}

/* Where the line feed before the rule is. */
static size_t rule_line(void)
{
    const char *found = memrchr(berlin, '\n', berlin_length - 1);
    assert_non_null(found);
    return (size_t)(found - berlin);
}

static void refuses_numbers_that_cannot_be(void **state)
{
    (void)state;
    size_t second = second_header(), data = second + HEADER_BYTES;
    size_t changes = number_in(berlin + second + 32);
    size_t indexes = data + changes * 8, types = indexes + changes;
    const struct {
        const char *when;
        size_t at;
        const char *bytes;
        size_t length;
        const char *why;
    } rows[] = {
        { "another kind of file", 0, "TZiF", 4, "does not start with \"TZif\"" },
        { "a version of the future", 4, "9", 1, "the byte 57; known are the versions 1 to 4" },
        { "two versions", second + 4, "4", 1, "then version 4" },
        { "no second header", second, "XXXX", 4, "does not start with \"TZif\"" },
        { "more UT marks than types", second + 20, "\0\0\0\1", 4, "it has 1 UT marks" },
        { "more standard marks than types", second + 24, "\0\0\0\1", 4, "1 standard time marks" },
        { "leap seconds", second + 28, "\0\0\0\33", 4, "counts leap seconds" },
        { "very many changes", second + 32, "\377\377\377\377", 4, "counts 4294967295 changes" },
        { "too many changes", second + 32, "\0\0\20\1", 4, "at most are 4096" },
        { "more changes than are there", second + 32, "\0\0\17\377", 4, "ends before its data" },
        { "no types", second + 36, "\0\0\0\0", 4, "counts 0 types" },
        { "too many types", second + 36, "\0\0\1\1", 4, "counts 257 types" },
        { "no names", second + 40, "\0\0\0\0", 4, "counts 0 characters" },
        { "too many names", second + 40, "\0\0\20\1", 4, "counts 4097 characters" },
        { "a first block without end", 32, "\377\377\377\377", 4, "ends before its data" },
        { "a change before the last one", data + 8, "\200\0\0\0\0\0\0\0", 8,
          "change 1 does not come after" },
        { "a change at the time of the last one", data + 8 * (changes - 1), berlin + data, 8,
          "does not come after" },
        { "a change in ten thousand years", data + 8 * (changes - 1), "\177\0\0\0\0\0\0\0", 8,
          "after the year 9999" },
        { "a type that is not there", indexes, "\377", 1, "is to type 255 of" },
        { "a clock far ahead", types, "\0\1\155\240", 4, "is 93600 s ahead of UTC" },
        { "a clock far behind", types, "\377\376\240\160", 4, "is -90000 s ahead of UTC" },
        { "half a daylight time", types + 4, "\2", 1, "type 0 has 2" },
        { "a name that is not there", types + 5, "\377", 1, "is at character 255 of" },
        { "no rule", berlin_length - 1, "0", 1, "does not end the file" },
        { "no line feed before the rule", rule_line(), "0", 1, "no line with a rule" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char changed[sizeof berlin];
        memcpy(changed, berlin, berlin_length);
        memcpy(changed + rows[i].at, rows[i].bytes, rows[i].length);
        print_message("    %s\n", rows[i].when);
        assert_refused(changed, berlin_length, rows[i].why);
    }
}

static void refuses_what_follows_the_rule(void **state)
{
    (void)state;
    char changed[sizeof berlin];
    memcpy(changed, berlin, berlin_length);
    changed[berlin_length] = '\n';
    assert_refused(changed, berlin_length + 1, "does not end the file");
}

static void assert_sound(const struct weir_zone *zone)
{
    assert_true(zone->count >= 1);
    for (size_t i = 0; i < zone->count; i++) {
        assert_in_range(zone->changes[i].offset_s + WEIR_ZONE_OFFSET_MAX_S, 0,
                        2 * WEIR_ZONE_OFFSET_MAX_S);
        assert_true(i == 0 || zone->changes[i].since_s > zone->changes[i - 1].since_s);
    }
}

static void survives_any_byte_that_is_wrong(void **state)
{
    (void)state;
    static const unsigned char others[] = { 0, 0x7F, 0x80, 0xFF };
    size_t refused = 0;
    for (size_t i = 0; i < berlin_length * 8; i++) {
        char *byte = &berlin[i / 8], kept = *byte;
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_zone zone;
        *byte = (char)(i % 8 < 4 ? others[i % 8] : kept ^ 1 << 2 * (i % 4));
        struct weir_text file = { berlin, berlin_length };
        if (weir_zone_read("A", file, &zone, &error) == WEIR_OK) {
            assert_sound(&zone);
            weir_zone_finish(&zone);
        } else {
            assert_int_equal(error.code, WEIR_E_FILE);
            refused++;
        }
        *byte = kept;
    }
    print_message("    %zu of %zu refused\n", refused, berlin_length * 8);
    assert_true(refused > 100);
}

static void reads_the_first_version(void **state)
{
    (void)state;
    char first[sizeof berlin];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    /* Where the installed files are slim, the first block is empty. */
    if (number_in(berlin + 32) == 0)
        skip();
    memcpy(first, berlin, second_header());
    first[4] = 0;
    struct weir_text file = { first, second_header() };
    assert_ok(weir_zone_read("A", file, &zone, &error), &error);
    let_c_library_use("Europe/Berlin");
    compare_anywhere(&zone, "Europe/Berlin", 20000, instant("2037-01-01 00:00:00"));
    assert_int_equal(weir_zone_offset_s(&zone, instant("2050-07-01 00:00:00")), 3600);
    weir_zone_finish(&zone);
    assert_refused(first, second_header() - 1, "ends before its data");
}

static void stays_with_the_last_change_where_no_rule_follows(void **state)
{
    (void)state;
    char changed[sizeof berlin];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    size_t length = rule_line();
    memcpy(changed, berlin, length);
    memcpy(changed + length, "\n\n", 2);
    struct weir_text file = { changed, length + 2 };
    assert_ok(weir_zone_read("A", file, &zone, &error), &error);
    int64_t last_s = zone.changes[zone.count - 1].since_s;
    assert_int_equal(weir_zone_offset_s(&zone, last_s + 400 * 366 * WEIR_DAY_S),
                     zone.changes[zone.count - 1].offset_s);
    weir_zone_finish(&zone);
}

/* One change, in January of 2020, to five hours ahead, and a rule that says thirteen for then. */
static void lets_the_rule_hold_from_the_last_change_on(void **state)
{
    (void)state;
    static const char first[] = { 'T', 'Z', 'i', 'f', '2', [39] = 1, [43] = 4, [53] = 0 };
    static const char second[] = { 'T', 'Z', 'i', 'f', '2', [35] = 1, [39] = 2, [43] = 4 };
    static const char data[] = "\0\0\0\0\x5E\x1E\x58\0" /* at 2020-01-15 00:08:32 */
                               "\1"                     /* to the second type:    */
                               "\0\0\0\0\0\0"           /* 0 hours                */
                               "\0\0\x46\x50\0\0"       /* 5 hours                */
                               "LMT";
    static const char rule[] = "\nAAA-12BBB,M9.5.0,M4.1.0/3\n";
    char bytes[256];
    size_t length = 0;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    const struct weir_text parts[] = { { first, sizeof first },
                                       { second, sizeof second },
                                       { data, sizeof data },
                                       { rule, sizeof rule - 1 } };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        memcpy(bytes + length, parts[i].at, parts[i].length);
        length += parts[i].length;
    }
    struct weir_text file = { bytes, length };
    assert_ok(weir_zone_read("A", file, &zone, &error), &error);
    int64_t last_s = INT64_C(0x5E1E5800);
    assert_int_equal(weir_zone_offset_s(&zone, last_s - 1), 0);
    assert_int_equal(weir_zone_offset_s(&zone, last_s), 13 * 3600);

    write_file("Rule", bytes, length);
    let_c_library_use(path_of("Rule"));
    compare_at_changes(&zone, "Rule");
    compare_anywhere(&zone, "Rule", 20000, YEAR_2200_S);
    unlink(path_of("Rule"));
    weir_zone_finish(&zone);
}

/* names */

static void refuses_names_that_no_zone_has(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "/etc/passwd",
        "../../../etc/passwd",
        "Europe/../Europe/Berlin",
        "..",
        "Europe/Berlin\n",
        "America/New York",
        ":Europe/Berlin",
        "CET-1CEST,M3.5.0,M10.5.0",
        "Europe\\Berlin",
        "Z\303\274rich",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_zone zone;
        print_message("    \"%s\"\n", names[i]);
        assert_int_equal(weir_zone_load(names[i], &zone, &error), WEIR_E_VALUE);
        assert_non_null(strstr(error.text, "is no name of a time zone"));
        assert_non_null(strstr(error.text, names[i]));
    }
}

static void says_what_to_do_about_a_zone_that_is_not_there(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *folder; /* TZDIR; NULL: none */
        enum weir_code code;
        const char *why;
    } rows[] = {
        { "Europe/Berlin", "/nonexistent", WEIR_E_FILE, "install the package tzdata" },
        { "Europe/Atlantis", NULL, WEIR_E_REFERENCE, "wanted is a name of the IANA database" },
        { "Europe/Berlin/Mitte", NULL, WEIR_E_REFERENCE, "wanted is a name of the IANA" },
        { "europe/berlin", NULL, WEIR_E_REFERENCE, "did you mean \"Europe/Berlin\"?" },
        { "america/new_york", NULL, WEIR_E_REFERENCE, "did you mean \"America/New_York\"?" },
        { "utc", NULL, WEIR_E_REFERENCE, "did you mean \"UTC\"?" },
        { "Europe", NULL, WEIR_E_FILE, "it is a folder" },
        { "zone1970.tab", NULL, WEIR_E_FILE, "does not start with \"TZif\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_zone zone;
        print_message("    %s\n", rows[i].name);
        if (rows[i].folder != NULL)
            assert_int_equal(setenv("TZDIR", rows[i].folder, 1), 0);
        assert_int_equal(weir_zone_load(rows[i].name, &zone, &error), rows[i].code);
        unsetenv("TZDIR");
        if (strstr(error.text, rows[i].why) == NULL || strstr(error.text, rows[i].name) == NULL)
            fail_msg("%s", error.text);
    }
}

static void refuses_what_is_no_plain_file_of_a_zones_size(void **state)
{
    (void)state;
    static char large[65537];
    struct weir_error error = WEIR_NO_ERROR, other = WEIR_NO_ERROR;
    struct weir_zone zone;
    assert_int_equal(setenv("TZDIR", folder, 1), 0);
    memcpy(large, berlin, berlin_length);
    write_file("Large", large, sizeof large);
    assert_int_equal(mkfifo(path_of("Pipe"), 0600), 0);

    assert_int_equal(weir_zone_load("Large", &zone, &error), WEIR_E_FILE);
    assert_non_null(strstr(error.text, "larger than 64 KiB"));
    /* Opened as a file is, a pipe would wait for somebody to write. */
    assert_int_equal(weir_zone_load("Pipe", &zone, &other), WEIR_E_FILE);
    assert_non_null(strstr(other.text, "that is no file"));

    unlink(path_of("Large"));
    unlink(path_of("Pipe"));
    unsetenv("TZDIR");
}

static void refuses_a_folder_whose_name_is_too_long(void **state)
{
    (void)state;
    char name[5000];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(setenv("TZDIR", name, 1), 0);
    assert_int_equal(weir_zone_load("Europe/Berlin", &zone, &error), WEIR_E_FILE);
    assert_non_null(strstr(error.text, "TZDIR"));
    unsetenv("TZDIR");
}

static void knows_utc_without_a_file(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZDIR", "/nonexistent", 1), 0);
    struct weir_zone zone = load("UTC");
    assert_int_equal(weir_zone_offset_s(&zone, 0), 0);
    assert_int_equal(weir_zone_offset_s(&zone, INT64_C(18446744073709)), 0);
    assert_int_equal(weir_zone_day_start_s(&zone, 365), 365 * WEIR_DAY_S);
    weir_zone_finish(&zone);
    unsetenv("TZDIR");
}

/* dates */

static void counts_days_as_the_c_library_does(void **state)
{
    (void)state;
    for (int64_t day = -1000; day < 400000; day++) {
        time_t at = (time_t)(day * WEIR_DAY_S);
        struct tm tm;
        assert_non_null(gmtime_r(&at, &tm));
        struct weir_date date = weir_date_of_day(day);
        assert_int_equal(date.year, tm.tm_year + 1900);
        assert_int_equal(date.month, tm.tm_mon + 1);
        assert_int_equal(date.day, tm.tm_mday);
        assert_int_equal(weir_day_of_date(date), day);
        assert_true(date.day <= weir_days_of_month(date.year, date.month));
    }
}

static void divides_downward(void **state)
{
    (void)state;
    assert_int_equal(weir_divide_down(7, 7), 1);
    assert_int_equal(weir_divide_down(6, 7), 0);
    assert_int_equal(weir_divide_down(0, 7), 0);
    assert_int_equal(weir_divide_down(-1, 7), -1);
    assert_int_equal(weir_divide_down(-7, 7), -1);
    assert_int_equal(weir_divide_down(-8, 7), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_the_offset_that_the_c_library_tells),
        cmocka_unit_test(reads_every_zone_that_is_installed),
        cmocka_unit_test(follows_rules_as_the_c_library_does),
        cmocka_unit_test(follows_rules_to_the_second),
        cmocka_unit_test(knows_daylight_time_all_year),
        cmocka_unit_test(refuses_what_is_no_rule),
        cmocka_unit_test(refuses_a_file_that_is_cut_anywhere),
        cmocka_unit_test(refuses_numbers_that_cannot_be),
        cmocka_unit_test(refuses_what_follows_the_rule),
        cmocka_unit_test(survives_any_byte_that_is_wrong),
        cmocka_unit_test(reads_the_first_version),
        cmocka_unit_test(stays_with_the_last_change_where_no_rule_follows),
        cmocka_unit_test(lets_the_rule_hold_from_the_last_change_on),
        cmocka_unit_test(refuses_names_that_no_zone_has),
        cmocka_unit_test(says_what_to_do_about_a_zone_that_is_not_there),
        cmocka_unit_test(refuses_what_is_no_plain_file_of_a_zones_size),
        cmocka_unit_test(refuses_a_folder_whose_name_is_too_long),
        cmocka_unit_test(knows_utc_without_a_file),
        cmocka_unit_test(counts_days_as_the_c_library_does),
        cmocka_unit_test(divides_downward),
    };
    return cmocka_run_group_tests(tests, start, end);
}
