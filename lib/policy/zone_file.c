/* The bytes of a TZif file (RFC 9636), which nobody promises are one. */
#include "policy/zone.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/date.h"

/* The tz database has at most some 500 changes in a zone, and its compiler stops at 2000. */
#define CHANGES_MAX 4096
#define TYPES_MAX   256
#define CHARS_MAX   4096

/* Nothing that is older is asked for: 1969-01-01. */
#define FIRST_S (INT64_C(-365) * WEIR_DAY_S)

/* Changes that are known by name lie far before this, 10000-01-01. */
#define LAST_S INT64_C(253402300800)

/* RFC 9636 section 3.2: more than 25 hours behind, less than 26 hours ahead. */
#define OFFSET_LEAST_S (-89999)
#define OFFSET_MOST_S  93599

#define HEADER_BYTES 44
#define TYPE_BYTES   6

/* Years for which the rule is written out: two that may reach into the first, two until every year
 * is the rule's alone, 400 until they repeat, and some to look ahead into. */
#define RULE_YEARS 407

struct source {
    const char *name;
    struct weir_text rest; /* of the file */
    struct weir_error *error;
};

/* Counts of RFC 9636 section 3.1, in its order. */
struct counts {
    uint32_t ut_marks, standard_marks, leap_seconds, changes, types, chars;
};

/* Where the parts of a data block are that matter here. */
struct block {
    struct counts counts;
    size_t time_bytes; /* 4 or 8 */
    const char *times;
    const unsigned char *indexes;
    const char *types;
};

__attribute__((format(printf, 2, 3))) static enum weir_code broken(const struct source *source,
                                                                   const char *format, ...)
{
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return weir_error_set(source->error, WEIR_E_FILE, NULL,
                          "The file of the time zone \"%s\" is broken: %s. Install the package "
                          "tzdata again.",
                          source->name, why);
}

static bool take(struct source *source, uint64_t length, const char **part)
{
    if (length > source->rest.length)
        return false;
    *part = source->rest.at;
    source->rest.at += length;
    source->rest.length -= (size_t)length;
    return true;
}

/* Big-endian, two's complement. */
static int64_t number_at(const char *at, size_t bytes)
{
    const unsigned char *digits = (const unsigned char *)at;
    uint64_t number = digits[0] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | digits[i];
    return (int64_t)number;
}

static enum weir_code ends_early(const struct source *source)
{
    return broken(source, "it ends before its data does");
}

/* headers and counts */

static enum weir_code take_header(struct source *source, unsigned *version, struct counts *counts)
{
    const char *header;
    if (source->rest.length < 4 || memcmp(source->rest.at, "TZif", 4) != 0)
        return broken(source, "it does not start with \"TZif\" (RFC 9636)");
    if (!take(source, HEADER_BYTES, &header))
        return ends_early(source);

    /* Version 1 has a NUL there, the others their digit. */
    unsigned char mark = (unsigned char)header[4];
    if (mark != 0 && (mark < '2' || mark > '4'))
        return broken(source, "its version is the byte %u; known are the versions 1 to 4", mark);
    *version = mark == 0 ? 1 : (unsigned)(mark - '0');
    *counts = (struct counts){
        .ut_marks = (uint32_t)number_at(header + 20, 4),
        .standard_marks = (uint32_t)number_at(header + 24, 4),
        .leap_seconds = (uint32_t)number_at(header + 28, 4),
        .changes = (uint32_t)number_at(header + 32, 4),
        .types = (uint32_t)number_at(header + 36, 4),
        .chars = (uint32_t)number_at(header + 40, 4),
    };
    return WEIR_OK;
}

static enum weir_code check_counts(const struct source *source, const struct counts *counts)
{
    if (counts->changes > CHANGES_MAX)
        return broken(source, "it counts %u changes; at most are %d", counts->changes, CHANGES_MAX);
    if (counts->types < 1 || counts->types > TYPES_MAX)
        return broken(source, "it counts %u types of local time; wanted are 1 to %d", counts->types,
                      TYPES_MAX);
    if (counts->chars < 1 || counts->chars > CHARS_MAX)
        return broken(source, "it counts %u characters of names; wanted are 1 to %d", counts->chars,
                      CHARS_MAX);
    if (counts->ut_marks != 0 && counts->ut_marks != counts->types)
        return broken(source, "it has %u UT marks for %u types", counts->ut_marks, counts->types);
    if (counts->standard_marks != 0 && counts->standard_marks != counts->types)
        return broken(source, "it has %u standard time marks for %u types", counts->standard_marks,
                      counts->types);
    return WEIR_OK;
}

static enum weir_code refuse_leap_seconds(const struct source *source)
{
    return weir_error_set(source->error, WEIR_E_FILE, NULL,
                          "The file of the time zone \"%s\" counts leap seconds, which the "
                          "system's clock does not; wanted is the zone without \"right/\".",
                          source->name);
}

static bool skip_block(struct source *source, const struct counts *counts)
{
    const char *skipped;
    uint64_t length = (uint64_t)counts->changes * 5 + (uint64_t)counts->types * TYPE_BYTES
                      + counts->chars + (uint64_t)counts->leap_seconds * 8 + counts->standard_marks
                      + counts->ut_marks;
    return take(source, length, &skipped);
}

static bool take_block(struct source *source, struct block *block)
{
    const struct counts *counts = &block->counts;
    const char *indexes, *skipped;
    if (!take(source, (uint64_t)counts->changes * block->time_bytes, &block->times)
        || !take(source, counts->changes, &indexes)
        || !take(source, (uint64_t)counts->types * TYPE_BYTES, &block->types)
        || !take(source, (uint64_t)counts->chars + counts->standard_marks + counts->ut_marks,
                 &skipped))
        return false;
    block->indexes = (const unsigned char *)indexes;
    return true;
}

/* Brings the source to the block that counts: the first of version 1, else the second, in 64 bits. */
static enum weir_code find_block(struct source *source, unsigned *version, struct block *block)
{
    enum weir_code code = take_header(source, version, &block->counts);
    if (code != WEIR_OK)
        return code;
    block->time_bytes = *version == 1 ? 4 : 8;
    if (*version > 1) {
        unsigned version_again;
        if (!skip_block(source, &block->counts))
            return ends_early(source);
        code = take_header(source, &version_again, &block->counts);
        if (code == WEIR_OK && version_again != *version)
            code =
                broken(source, "it has version %u first, then version %u", *version, version_again);
        if (code != WEIR_OK)
            return code;
    }
    code = check_counts(source, &block->counts);
    if (code == WEIR_OK && block->counts.leap_seconds > 0)
        code = refuse_leap_seconds(source);
    if (code == WEIR_OK && !take_block(source, block))
        code = ends_early(source);
    return code;
}

/* what stands in a block */

static int32_t type_offset_s(const struct block *block, size_t index)
{
    return (int32_t)number_at(block->types + index * TYPE_BYTES, 4);
}

static int64_t change_time_s(const struct block *block, size_t index)
{
    return number_at(block->times + index * block->time_bytes, block->time_bytes);
}

static enum weir_code check_types(const struct source *source, const struct block *block)
{
    for (size_t i = 0; i < block->counts.types; i++) {
        const unsigned char *rest = (const unsigned char *)block->types + i * TYPE_BYTES + 4;
        int32_t offset_s = type_offset_s(block, i);
        if (offset_s < OFFSET_LEAST_S || offset_s > OFFSET_MOST_S)
            return broken(source, "type %zu is %d s ahead of UTC; wanted are %d to %d", i, offset_s,
                          OFFSET_LEAST_S, OFFSET_MOST_S);
        if (rest[0] > 1)
            return broken(source, "type %zu has %u where 0 or 1 says whether it is daylight time",
                          i, rest[0]);
        if (rest[1] >= block->counts.chars)
            return broken(source, "the name of type %zu is at character %u of %u", i, rest[1],
                          block->counts.chars);
    }
    return WEIR_OK;
}

static enum weir_code check_changes(const struct source *source, const struct block *block)
{
    for (size_t i = 0; i < block->counts.changes; i++) {
        if (block->indexes[i] >= block->counts.types)
            return broken(source, "change %zu is to type %u of %u", i, block->indexes[i],
                          block->counts.types);
        if (i > 0 && change_time_s(block, i) <= change_time_s(block, i - 1))
            return broken(source, "change %zu does not come after the one before it", i);
        if (change_time_s(block, i) >= LAST_S)
            return broken(source, "change %zu comes after the year 9999", i);
    }
    return WEIR_OK;
}

/* "\n" rule "\n"; nothing between them says that there is no rule. */
static enum weir_code take_rule(struct source *source, struct weir_zone_rule *rule, bool *has_rule)
{
    struct weir_text footer = source->rest, line;
    if (footer.length < 2 || footer.at[0] != '\n')
        return broken(source, "it has no line with a rule at its end");
    footer.at++;
    footer.length--;
    weir_text_take_first(&footer, '\n', &line);
    if (footer.at == NULL || footer.length > 0)
        return broken(source, "the line with its rule does not end the file");
    *has_rule = line.length > 0;
    if (*has_rule && !weir_zone_rule_parse(line, rule))
        return broken(source, "\"%.*s\" is no rule, such as \"CET-1CEST,M3.5.0,M10.5.0/3\"",
                      line.length < 60 ? (int)line.length : 60, line.at);
    return WEIR_OK;
}

/* making the zone */

/* Of changes that come at one time or in the wrong order the one that is added later holds. Rules
 * may ask for that: daylight time all year is one that ends when the next year's starts (RFC 9636
 * section 3.3.1). */
static void append(struct weir_zone *zone, struct weir_zone_change change)
{
    if (change.since_s < FIRST_S)
        change.since_s = FIRST_S;
    while (zone->count > 1 && zone->changes[zone->count - 1].since_s >= change.since_s)
        zone->count--;
    if (zone->changes[zone->count - 1].offset_s != change.offset_s)
        zone->changes[zone->count++] = change;
}

/* From the last change on the rule holds; what it says about before is pushed to there. */
static void append_rule(struct weir_zone *zone, const struct weir_zone_rule *rule, int64_t last_s)
{
    if (!rule->has_daylight) {
        append(zone, (struct weir_zone_change){ last_s, rule->standard_s });
        return;
    }
    int64_t first_year = weir_date_of_day(weir_divide_down(last_s, WEIR_DAY_S)).year - 2;
    for (int64_t year = first_year; year < first_year + RULE_YEARS; year++) {
        struct weir_zone_change changes[2];
        weir_zone_rule_year(rule, year, changes);
        for (size_t i = 0; i < 2; i++) {
            if (changes[i].since_s < last_s)
                changes[i].since_s = last_s;
            append(zone, changes[i]);
        }
    }
}

static int64_t repeats_from_s(int64_t last_s)
{
    int64_t year = weir_date_of_day(weir_divide_down(last_s, WEIR_DAY_S)).year;
    return weir_day_of_date((struct weir_date){ year + 2, 1, 1 }) * WEIR_DAY_S;
}

static enum weir_code make_zone(const struct source *source, const struct block *block,
                                const struct weir_zone_rule *rule, struct weir_zone *zone)
{
    size_t count = block->counts.changes;
    size_t by_rule = rule == NULL ? 0 : rule->has_daylight ? 2 * RULE_YEARS : 1;
    size_t room = 1 + count + by_rule;
    struct weir_zone made = { .changes = calloc(room, sizeof made.changes[0]), .count = 1 };
    if (made.changes == NULL)
        return weir_error_set(source->error, WEIR_E_MEMORY, NULL, "Out of memory.");

    /* Before the first change the first type holds (RFC 9636 section 3.2). */
    made.changes[0] = (struct weir_zone_change){ INT64_MIN, type_offset_s(block, 0) };
    int64_t last_s = FIRST_S;
    for (size_t i = 0; i < count; i++) {
        int64_t since_s = change_time_s(block, i);
        append(&made,
               (struct weir_zone_change){ since_s, type_offset_s(block, block->indexes[i]) });
        last_s = since_s > last_s ? since_s : last_s;
    }
    if (rule != NULL)
        append_rule(&made, rule, last_s);
    made.repeats_from_s = repeats_from_s(last_s);
    *zone = made;
    return WEIR_OK;
}

enum weir_code weir_zone_read(const char *name, struct weir_text bytes, struct weir_zone *zone,
                              struct weir_error *error)
{
    struct source source = { .name = name, .rest = bytes, .error = error };
    struct block block = { .time_bytes = 0 };
    struct weir_zone_rule rule;
    unsigned version;
    bool has_rule = false;
    enum weir_code code = find_block(&source, &version, &block);
    if (code == WEIR_OK)
        code = check_types(&source, &block);
    if (code == WEIR_OK)
        code = check_changes(&source, &block);
    if (code == WEIR_OK && version > 1)
        code = take_rule(&source, &rule, &has_rule);
    return code == WEIR_OK ? make_zone(&source, &block, has_rule ? &rule : NULL, zone) : code;
}
