/* Time zone files: whatever stands in one, it is refused with a text, or its days follow each other.
 * The first byte chooses between a whole file, what follows its headers, and the rule of one that
 * has nothing else. */
#include <stdlib.h>
#include <string.h>

#include "policy/date.h"
#include "policy/zone.h"

#define HEADER_BYTES 44

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int64_t local_day(const struct weir_zone *zone, int64_t at_s)
{
    int32_t offset_s = weir_zone_offset_s(zone, at_s);
    require(offset_s > -WEIR_ZONE_OFFSET_MAX_S && offset_s < WEIR_ZONE_OFFSET_MAX_S);
    return weir_divide_down(at_s + offset_s, WEIR_DAY_S);
}

/* A day starts when it is first there, and the next one not earlier. */
static void check_day(const struct weir_zone *zone, int64_t day)
{
    int64_t start_s = weir_zone_day_start_s(zone, day);
    require(local_day(zone, start_s) >= day);
    require(local_day(zone, start_s - 1) < day);
    require(weir_zone_day_start_s(zone, day + 1) >= start_s);
    require(llabs(start_s - day * WEIR_DAY_S) <= WEIR_ZONE_OFFSET_MAX_S);
}

static void check_zone(const struct weir_zone *zone)
{
    require(zone->count >= 1 && zone->changes[0].since_s == INT64_MIN);
    for (size_t i = 1; i < zone->count; i++) {
        int64_t since_s = zone->changes[i].since_s;
        require(since_s > zone->changes[i - 1].since_s);
        int64_t day = weir_divide_down(since_s, WEIR_DAY_S);
        for (int64_t near = day > 2 ? day - 2 : 0; near <= day + 2; near++) {
            check_day(zone, near);
            check_day(zone, near + 3 * WEIR_DAYS_OF_400_YEARS);
        }
    }
    check_day(zone, 0);
    check_day(zone, INT64_C(213503982)); /* the last that 64 bits of microseconds reach */
}

static void check_file(struct weir_text bytes)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_zone zone;
    if (weir_zone_read("A/B", bytes, &zone, &error) != WEIR_OK) {
        require(error.code == WEIR_E_FILE && error.text[0] != '\0');
        require(memchr(error.text, '\0', sizeof error.text) != NULL);
        return;
    }
    check_zone(&zone);
    weir_zone_finish(&zone);
}

/* A first block of one type. */
static const char first[] = { 'T', 'Z', 'i', 'f', '3', [39] = 1, [43] = 4, [53] = 0 };

/* A second block with these counts of changes, types and characters, and what follows it. */
static void check_block(const uint8_t counts[3], const uint8_t *rest, size_t length)
{
    char bytes[4096] = { 0 };
    char *second = bytes + sizeof first;
    size_t start = sizeof first + HEADER_BYTES;
    if (length > sizeof bytes - start)
        return;
    memcpy(bytes, first, sizeof first);
    memcpy(second, first, HEADER_BYTES);
    second[35] = (char)counts[0];
    second[39] = (char)counts[1];
    second[43] = (char)counts[2];
    memcpy(bytes + start, rest, length);
    check_file((struct weir_text){ bytes, start + length });
}

/* The same block twice, and the rule. */
static void check_rule(const uint8_t *rule, size_t length)
{
    char bytes[512];
    size_t end = 2 * sizeof first;
    if (length > sizeof bytes - end - 2)
        return;
    memcpy(bytes, first, sizeof first);
    memcpy(bytes + sizeof first, first, sizeof first);
    bytes[end++] = '\n';
    memcpy(bytes + end, rule, length);
    end += length;
    bytes[end++] = '\n';
    check_file((struct weir_text){ bytes, end });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    if (data[0] % 3 == 0)
        check_file((struct weir_text){ (const char *)data + 1, size - 1 });
    else if (data[0] % 3 == 1)
        check_rule(data + 1, size - 1);
    else
        check_block(data + 1, data + 4, size - 4);
    return 0;
}
