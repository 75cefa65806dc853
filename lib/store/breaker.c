#include "store/breaker.h"

/* xorshift64 (Marsaglia 2003): jitter needs no better. */
static uint64_t next_random(struct weir_breaker *breaker)
{
    breaker->random ^= breaker->random << 13;
    breaker->random ^= breaker->random >> 7;
    breaker->random ^= breaker->random << 17;
    return breaker->random;
}

void weir_breaker_init(struct weir_breaker *breaker, uint64_t seed)
{
    *breaker = (struct weir_breaker){ .state = WEIR_BREAKER_STARTING, .random = seed | 1 };
}

void weir_breaker_start_anew(struct weir_breaker *breaker)
{
    breaker->state = WEIR_BREAKER_STARTING;
    breaker->timeouts = 0;
}

bool weir_breaker_lets_through(const struct weir_breaker *breaker)
{
    return breaker->state == WEIR_BREAKER_STARTING || breaker->state == WEIR_BREAKER_CLOSED;
}

/* The more, the worse. */
static int badness(enum weir_breaker_state state)
{
    switch (state) {
    case WEIR_BREAKER_CLOSED:
        return 0;
    case WEIR_BREAKER_STARTING:
        return 1;
    case WEIR_BREAKER_PROBING:
        return 2;
    case WEIR_BREAKER_OPEN:
        return 3;
    }
    return 0;
}

bool weir_breaker_is_worse(enum weir_breaker_state state, enum weir_breaker_state other)
{
    return badness(state) > badness(other);
}

bool weir_breaker_is_due(const struct weir_breaker *breaker, uint64_t now_us)
{
    return breaker->state == WEIR_BREAKER_OPEN && now_us >= breaker->try_at_us;
}

void weir_breaker_try(struct weir_breaker *breaker)
{
    if (breaker->state == WEIR_BREAKER_OPEN)
        breaker->state = WEIR_BREAKER_PROBING;
}

void weir_breaker_succeeded(struct weir_breaker *breaker, uint64_t now_us)
{
    breaker->state = WEIR_BREAKER_CLOSED;
    breaker->timeouts = 0;
    breaker->has_answered = false;
    breaker->closed_at_us = now_us;
}

bool weir_breaker_lasts(const struct weir_breaker *breaker, uint64_t now_us)
{
    return breaker->state == WEIR_BREAKER_CLOSED
           && now_us - breaker->closed_at_us >= WEIR_BREAKER_LASTING_US;
}

static uint64_t longer_pause_us(uint64_t pause_us)
{
    if (pause_us == 0)
        return WEIR_BREAKER_PAUSE_MIN_US;
    return pause_us < WEIR_BREAKER_PAUSE_MAX_US / 2 ? pause_us * 2 : WEIR_BREAKER_PAUSE_MAX_US;
}

void weir_breaker_failed(struct weir_breaker *breaker, uint64_t now_us)
{
    bool was_good = breaker->has_answered && weir_breaker_lasts(breaker, now_us);
    breaker->state = WEIR_BREAKER_OPEN;
    breaker->timeouts = 0;
    breaker->has_answered = false;
    breaker->try_at_us = now_us;
    if (was_good) {
        breaker->pause_us = 0;
        return;
    }
    breaker->pause_us = longer_pause_us(breaker->pause_us);
    breaker->try_at_us += breaker->pause_us - next_random(breaker) % (breaker->pause_us / 2 + 1);
}

void weir_breaker_answered(struct weir_breaker *breaker)
{
    breaker->timeouts = 0;
    breaker->has_answered = true;
}

bool weir_breaker_timed_out(struct weir_breaker *breaker, uint64_t now_us, uint64_t least_us)
{
    if (breaker->timeouts == 0)
        breaker->timeout_us = now_us;
    if (++breaker->timeouts < WEIR_BREAKER_TIMEOUTS || now_us - breaker->timeout_us < least_us)
        return false;
    breaker->timeouts = 0;
    if (breaker->state == WEIR_BREAKER_STARTING)
        breaker->state = WEIR_BREAKER_PROBING;
    return true;
}
