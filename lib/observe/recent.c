#include "observe/recent.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "observe/decision_text.h"

/* The decision of sequence n is at n % WEIR_RECENT_MAX. */
struct weir_recent {
    pthread_mutex_t mutex; /* guards the rest */
    uint64_t last;         /* 0: there is none */
    struct weir_recent_decision decisions[WEIR_RECENT_MAX];
};

struct weir_recent *weir_recent_new(void)
{
    struct weir_recent *recent = malloc(sizeof *recent);
    if (recent == NULL)
        return NULL;
    pthread_mutex_init(&recent->mutex, NULL); /* does not fail for a default one (glibc) */
    recent->last = 0;
    return recent;
}

struct weir_recent *weir_recent_free(struct weir_recent *recent)
{
    if (recent != NULL)
        pthread_mutex_destroy(&recent->mutex);
    free(recent);
    return NULL;
}

static struct weir_recent_decision *at(struct weir_recent *recent, uint64_t sequence)
{
    return &recent->decisions[sequence % WEIR_RECENT_MAX];
}

void weir_recent_add(struct weir_recent *recent, const struct weir_decision *decision)
{
    pthread_mutex_lock(&recent->mutex);
    struct weir_recent_decision *kept = at(recent, ++recent->last);
    kept->sequence = recent->last;
    weir_decision_copy(kept, decision);
    pthread_mutex_unlock(&recent->mutex);
}

static void copy_out(struct weir_recent_decision *copy, const struct weir_recent_decision *kept)
{
    copy->sequence = kept->sequence;
    weir_decision_copy(copy, &kept->decision);
}

static uint64_t oldest(const struct weir_recent *recent)
{
    return recent->last < WEIR_RECENT_MAX ? 1 : recent->last - WEIR_RECENT_MAX + 1;
}

size_t weir_recent_list(struct weir_recent *recent, uint64_t after,
                        struct weir_recent_decision *decisions, size_t size)
{
    size_t count = 0;
    pthread_mutex_lock(&recent->mutex);
    /* One that is yet to come is of a process that ran before. */
    bool is_known = after >= oldest(recent) && after <= recent->last;
    uint64_t sequence = is_known ? after + 1 : oldest(recent);
    for (; sequence <= recent->last && count < size; sequence++)
        copy_out(&decisions[count++], at(recent, sequence));
    pthread_mutex_unlock(&recent->mutex);
    return count;
}

bool weir_recent_find(struct weir_recent *recent, const char *request_id,
                      struct weir_recent_decision *decision)
{
    bool is_found = false;
    pthread_mutex_lock(&recent->mutex);
    for (uint64_t i = recent->last; !is_found && i >= oldest(recent); i--) {
        const struct weir_recent_decision *kept = at(recent, i);
        const char *id = kept->decision.request_id;
        is_found = id != NULL && strcmp(id, request_id) == 0;
        if (is_found)
            copy_out(decision, kept);
    }
    pthread_mutex_unlock(&recent->mutex);
    return is_found;
}
