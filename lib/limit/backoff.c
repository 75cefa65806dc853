/* Pauses for who was refused. */
#include <weir/backoff.h>
#include <weir/store.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/options.h"

#define BASE_US            UINT64_C(100000)
#define CAP_US             UINT64_C(20000000)
#define RETRY_AFTER_MAX_US (UINT64_C(6) * 3600 * 1000000) /* as curl and urllib3 have it */
#define ATTEMPTS           5
#define WITHOUT_END        UINT32_MAX

#define BACKOFF_OPTIONS_FIRST                                                                      \
    (offsetof(struct weir_backoff_options, clock) + sizeof(const struct weir_clock *))

/* SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint64_t next_random(struct weir_backoff *backoff)
{
    uint64_t mixed = backoff->random += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* Both ends included; of less than 2^50 µs, so that what the division favours does not matter. */
static uint64_t random_between(struct weir_backoff *backoff, uint64_t low_us, uint64_t high_us)
{
    return low_us + next_random(backoff) % (high_us - low_us + 1);
}

static uint64_t deadline_clock_us(const struct weir_backoff *backoff)
{
    return backoff->clock.now_us == NULL ? weir_monotonic_us() : weir_clock_now_us(&backoff->clock);
}

static uint64_t or_default(uint64_t value, uint64_t usual)
{
    return value == 0 ? usual : value;
}

static void take(struct weir_backoff *backoff, const struct weir_backoff_options *options)
{
    *backoff = (struct weir_backoff){
        .base_us = or_default(options->base_us, BASE_US),
        .cap_us = or_default(options->cap_us, CAP_US),
        .retry_after_max_us = or_default(options->retry_after_max_us, RETRY_AFTER_MAX_US),
        .random = options->seed == 0 ? weir_random64() : options->seed,
        .attempts_max = or_default(options->attempts, ATTEMPTS),
    };
    if (options->clock != NULL)
        backoff->clock = *options->clock;
    backoff->previous_us = backoff->base_us;
    backoff->ends_us = UINT64_MAX;
    if (options->deadline_us > 0)
        backoff->ends_us = deadline_clock_us(backoff) + options->deadline_us;
}

static enum weir_code check(const struct weir_backoff_options *options, struct weir_error *error)
{
    uint64_t base_us = or_default(options->base_us, BASE_US);
    uint64_t cap_us = or_default(options->cap_us, CAP_US);
    if (base_us > cap_us)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "A shortest pause of %llu us is above the longest of %llu us.",
                              (unsigned long long)base_us, (unsigned long long)cap_us);
    if (cap_us > WEIR_WINDOW_MAX_US || options->retry_after_max_us > WEIR_WINDOW_MAX_US
        || options->deadline_us > WEIR_WINDOW_MAX_US)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "A cap, a Retry-After or a deadline is above 366 days.");
    return WEIR_OK;
}

enum weir_code weir_backoff_start(struct weir_backoff *backoff,
                                  const struct weir_backoff_options *options,
                                  struct weir_error *error)
{
    struct weir_backoff_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, BACKOFF_OPTIONS_FIRST,
                                            "WEIR_BACKOFF_OPTIONS", error);
    if (code == WEIR_OK && backoff == NULL)
        code = weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no struct to begin in.");
    if (code == WEIR_OK)
        code = check(&ours, error);
    if (code != WEIR_OK)
        return code;
    if (ours.seed == 0 && !weir_hash_start())
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");
    take(backoff, &ours);
    return WEIR_OK;
}

/* What the server asks for; false: it does not. */
static bool read_wait(const struct weir_backoff *backoff, const char *retry_after,
                      uint64_t *wait_us)
{
    const struct weir_clock clock =
        weir_clock_or_system(backoff->clock.now_us == NULL ? NULL : &backoff->clock);
    if (retry_after == NULL
        || !weir_retry_after_read(retry_after, weir_clock_now_us(&clock), wait_us))
        return false;
    *wait_us = weir_earlier(*wait_us, backoff->retry_after_max_us);
    return true;
}

static uint64_t draw(struct weir_backoff *backoff, const char *retry_after)
{
    uint64_t wait_us = 0, previous_us = backoff->previous_us;
    if (!read_wait(backoff, retry_after, &wait_us) || wait_us == 0)
        return weir_earlier(random_between(backoff, backoff->base_us, 3 * previous_us),
                            backoff->cap_us);
    uint64_t longer_us = wait_us > previous_us ? wait_us : previous_us;
    return wait_us + random_between(backoff, 0, weir_earlier(3 * longer_us, backoff->cap_us));
}

bool weir_backoff_next(struct weir_backoff *backoff, const char *retry_after, uint64_t *pause_us)
{
    backoff->attempts++;
    if (backoff->attempts_max != WITHOUT_END && backoff->attempts >= backoff->attempts_max)
        return false;
    uint64_t drawn_us = draw(backoff, retry_after);
    backoff->previous_us = drawn_us;
    if (backoff->ends_us != UINT64_MAX && deadline_clock_us(backoff) + drawn_us > backoff->ends_us)
        return false;
    *pause_us = drawn_us;
    return true;
}
