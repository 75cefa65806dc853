/* A Redis store of one or more threads, each with links of its own. One thread with one connection
 * takes a sixth of the CPU time that Redis takes to decide what it sends; two let Redis decide what
 * the one has sent while the other reads, and share the work that TLS or a large cluster makes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/redis_internal.h"
#include "store/redis_slot.h"
#include "store/store.h"

/* A program that starts waits so long for a name to be resolved, so that its first requests find
 * their store; after that it goes on without. */
#define START_WAIT_MS 1000

/* As in a policy file. Deadlines are kept in pointers, which may have 32 bits. */
#define TIMEOUT_MAX_MS 60000

struct lanes {
    struct weir_redis_voice voice;
    size_t count;
    struct weir_redis *at[WEIR_REDIS_LANES_MAX];
    struct weir_redis_driven driven;
};

/* FNV-1a, stirred as by MurmurHash3 (Appleby), since keys differ in few bits. */
static uint64_t hash_of(struct weir_text text)
{
    uint64_t hash = weir_text_fnv(text);
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

/* All keys of one client lie in one slot of a cluster, and in one lane. */
size_t weir_redis_lane_of(const struct weir_check *check, size_t count)
{
    if (count == 1 || check->count == 0 || check->spends == NULL || check->spends[0].key == NULL)
        return 0; /* the lane says what is wrong with it */
    const struct weir_spend *first = &check->spends[0];
    const struct weir_text key = { first->key, first->key_length };
    return (size_t)(hash_of(weir_redis_slot_text(key)) % count);
}

static struct weir_redis *lane_of(const struct lanes *lanes, const struct weir_check *check)
{
    return lanes->at[weir_redis_lane_of(check, lanes->count)];
}

/* the store's type */

static bool lanes_ready(void *self)
{
    const struct lanes *lanes = self;
    for (size_t i = 0; i < lanes->count; i++)
        if (weir_redis_type.ready(lanes->at[i]))
            return true;
    return false;
}

static void lanes_submit(void *self, struct weir_check *check)
{
    weir_redis_type.submit(lane_of(self, check), check);
}

static void lanes_cancel(void *self, struct weir_check *check)
{
    weir_redis_type.cancel(lane_of(self, check), check);
}

static bool is_worse(const struct weir_store_state *state, const struct weir_store_state *other)
{
    if (state->answering != other->answering)
        return !state->answering;
    if (state->breaker != other->breaker)
        return weir_breaker_is_worse(state->breaker, other->breaker);
    return state->why[0] != '\0' && other->why[0] == '\0';
}

/* As the worst of them is. */
static void lanes_state(void *self, struct weir_store_state *state)
{
    const struct lanes *lanes = self;
    weir_redis_type.state(lanes->at[0], state);
    for (size_t i = 1; i < lanes->count; i++) {
        struct weir_store_state other = { .answering = true };
        weir_redis_type.state(lanes->at[i], &other);
        if (is_worse(&other, state))
            *state = other;
    }
}

static void lanes_numbers(void *self, struct weir_store_numbers *numbers)
{
    const struct lanes *lanes = self;
    numbers->late_answers = atomic_load_explicit(&lanes->voice.late_answers, memory_order_relaxed);
}

static void lanes_free(void *self)
{
    struct lanes *lanes = self;
    weir_redis_driven_finish(&lanes->driven);
    for (size_t i = 0; i < lanes->count; i++)
        weir_redis_type.free(lanes->at[i]);
    weir_voice_finish(&lanes->voice);
    free(lanes);
}

static const struct weir_store_type lanes_type = {
    .size = sizeof(struct weir_store_type),
    .name = "redis",
    .ready = lanes_ready,
    .submit = lanes_submit,
    .cancel = lanes_cancel,
    .state = lanes_state,
    .free = lanes_free,
    .exchanges = true,
};

/* making */

static struct lanes *allocate(void)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (lanes == NULL)
        return NULL;
    if (!weir_voice_init(&lanes->voice)) {
        free(lanes);
        return NULL;
    }
    if (weir_redis_driven_init(&lanes->driven))
        return lanes;
    weir_voice_finish(&lanes->voice);
    free(lanes);
    return NULL;
}

static enum weir_code start_all(struct lanes *lanes, const struct weir_redis_url *url,
                                const struct weir_store_options *options,
                                const struct weir_clock *clock, struct weir_error *error)
{
    size_t wanted = options->connections == 0 ? 1 : options->connections;
    for (; lanes->count < wanted; lanes->count++) {
        enum weir_code code = weir_redis_new(url, options, clock, &lanes->voice, lanes->count > 0,
                                             &lanes->at[lanes->count], error);
        if (code != WEIR_OK)
            return code;
    }
    return WEIR_OK;
}

static void wait_for_start(const struct lanes *lanes)
{
    uint64_t start_us = weir_monotonic_us();
    for (size_t i = 0; i < lanes->count; i++) {
        uint64_t waited_ms = (weir_monotonic_us() - start_us) / 1000;
        weir_pending_wait_for_start(
            &lanes->at[i]->pending,
            waited_ms < START_WAIT_MS ? (unsigned)(START_WAIT_MS - waited_ms) : 0);
    }
}

enum weir_code weir_redis_lanes_new(const struct weir_redis_url *url,
                                    const struct weir_store_options *options,
                                    const struct weir_clock *clock, struct weir_store **store,
                                    struct weir_error *error)
{
    if (options->timeout_ms > TIMEOUT_MAX_MS)
        return weir_error_set(error, WEIR_E_VALUE, "/store/timeout",
                              "A store's timeout can be %d ms at most, not %" PRIu32 ".",
                              TIMEOUT_MAX_MS, options->timeout_ms);
    if (options->connections > WEIR_REDIS_LANES_MAX)
        return weir_error_set(error, WEIR_E_VALUE, "/store/connections",
                              "A store can have 1 to %d connections to each server, not %" PRIu32
                              ".",
                              WEIR_REDIS_LANES_MAX, options->connections);
    struct lanes *lanes = allocate();
    if (lanes == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = start_all(lanes, url, options, clock, error);
    if (code == WEIR_OK)
        code = weir_store_new(&lanes_type, lanes, store, error);
    if (code != WEIR_OK) {
        lanes_free(lanes);
        return code;
    }
    lanes->driven.own = lanes->at;
    lanes->driven.own_count = lanes->count;
    (*store)->lanes = &weir_redis_driven_type;
    (*store)->lanes_self = &lanes->driven;
    (*store)->numbers = lanes_numbers;
    wait_for_start(lanes);
    return WEIR_OK;
}
