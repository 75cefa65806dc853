/* Retry-After lines of a server that is not trusted: whatever stands in one, it is refused, or its wait
 * is within bounds and a pause made of it is never shorter. The first eight bytes are the time. */
#include <stdlib.h>
#include <string.h>

#include <weir/backoff.h>

#define LONGEST_US (UINT64_C(1) << 51)
#define MAX_US     UINT64_C(60000000)
#define CAP_US     UINT64_C(5000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static uint64_t fixed_now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return fixed_now_us;
}

static void check_pause(const char *value, bool is_wait, uint64_t wait_us)
{
    const struct weir_clock clock = { .now_us = read_clock };
    struct weir_backoff backoff;
    uint64_t pause_us;
    require(weir_backoff_start(&backoff,
                               WEIR_BACKOFF_OPTIONS(.seed = 1, .cap_us = CAP_US,
                                                    .retry_after_max_us = MAX_US, .clock = &clock),
                               NULL)
            == WEIR_OK);
    require(weir_backoff_next(&backoff, value, &pause_us));
    uint64_t least_us = is_wait && wait_us < MAX_US ? wait_us : MAX_US;
    require(!is_wait || pause_us >= least_us);
    require(pause_us <= MAX_US + CAP_US);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < sizeof fixed_now_us)
        return 0;
    memcpy(&fixed_now_us, data, sizeof fixed_now_us);
    fixed_now_us %= UINT64_C(1) << 57; /* past the year 6000 */
    size_t length = size - sizeof fixed_now_us;
    char *value = malloc(length + 1);
    if (value == NULL)
        return 0;
    memcpy(value, data + sizeof fixed_now_us, length);
    value[length] = '\0';

    uint64_t wait_us = UINT64_MAX;
    bool is_wait = weir_retry_after_read(value, fixed_now_us, &wait_us);
    require(is_wait ? wait_us <= LONGEST_US : wait_us == UINT64_MAX);
    check_pause(value, is_wait, wait_us);
    free(value);
    return 0;
}
