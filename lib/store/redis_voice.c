#include "store/redis_voice.h"

#include <string.h>

bool weir_voice_init(struct weir_redis_voice *voice)
{
    memset(voice->servers, 0, sizeof voice->servers);
    voice->advice = (struct weir_advice_book){ .count = 0 };
    return pthread_mutex_init(&voice->mutex, NULL) == 0;
}

void weir_voice_finish(struct weir_redis_voice *voice)
{
    pthread_mutex_destroy(&voice->mutex);
}

uint64_t weir_voice_name(const char *server)
{
    uint64_t hash = weir_text_fnv(weir_text_from(server));
    return hash == 0 ? 1 : hash;
}

static struct weir_voice_server *find(struct weir_redis_voice *voice, uint64_t server)
{
    for (size_t i = 0; i < WEIR_VOICE_SERVERS_MAX; i++)
        if (voice->servers[i].server == server)
            return &voice->servers[i];
    return NULL;
}

/* A free place, or that of a server which has answered for longest; NULL: all are down. */
static struct weir_voice_server *make(struct weir_redis_voice *voice, uint64_t server)
{
    struct weir_voice_server *place = NULL;
    for (size_t i = 0; i < WEIR_VOICE_SERVERS_MAX; i++) {
        struct weir_voice_server *other = &voice->servers[i];
        if (other->down == 0 && other->failing == 0
            && (place == NULL || other->said_up_us < place->said_up_us))
            place = other;
    }
    if (place != NULL)
        *place = (struct weir_voice_server){ .server = server };
    return place;
}

static struct weir_voice_server *find_or_make(struct weir_redis_voice *voice, uint64_t server)
{
    struct weir_voice_server *known = find(voice, server);
    return known != NULL ? known : make(voice, server);
}

/* False: that was said already. Of many reasons the oldest is forgotten. */
static bool note_why(struct weir_voice_server *known, const char *why)
{
    uint64_t hash = weir_voice_name(why);
    size_t count = known->why_count < WEIR_VOICE_WHYS_MAX ? known->why_count : WEIR_VOICE_WHYS_MAX;
    for (size_t i = 0; i < count; i++)
        if (known->whys[i] == hash)
            return false;
    known->whys[known->why_count++ % WEIR_VOICE_WHYS_MAX] = hash;
    return true;
}

bool weir_voice_down(struct weir_redis_voice *voice, uint64_t server, const char *why,
                     uint64_t now_us)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find_or_make(voice, server);
    bool is_first = known == NULL || known->down++ == 0;
    if (known != NULL && is_first) {
        known->down_at_us = now_us;
        known->why_count = 0;
        known->said_why_us = 0;
        note_why(known, why);
    }
    pthread_mutex_unlock(&voice->mutex);
    return is_first;
}

static bool was_said_just_now(uint64_t said_us, uint64_t now_us)
{
    return said_us != 0 && now_us - said_us < WEIR_VOICE_PAUSE_US;
}

bool weir_voice_reason(struct weir_redis_voice *voice, uint64_t server, const char *why,
                       uint64_t now_us)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find(voice, server);
    bool says =
        known != NULL && !was_said_just_now(known->said_why_us, now_us) && note_why(known, why);
    if (says)
        known->said_why_us = now_us;
    pthread_mutex_unlock(&voice->mutex);
    return says;
}

static enum weir_voice_up go_up(struct weir_voice_server *known, bool lasts, uint64_t now_us,
                                uint64_t *after_us)
{
    if (known->down > 1) {
        known->down--;
        return WEIR_VOICE_QUIET;
    }
    if (was_said_just_now(known->said_up_us, now_us) && !lasts)
        return WEIR_VOICE_LATER;
    known->down = 0;
    known->said_up_us = now_us;
    *after_us = now_us - known->down_at_us;
    return WEIR_VOICE_SAY;
}

enum weir_voice_up weir_voice_up(struct weir_redis_voice *voice, uint64_t server, bool lasts,
                                 uint64_t now_us, uint64_t *after_us)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find(voice, server);
    bool is_known = known != NULL && known->down > 0;
    enum weir_voice_up up = is_known ? go_up(known, lasts, now_us, after_us) : WEIR_VOICE_QUIET;
    pthread_mutex_unlock(&voice->mutex);
    return up;
}

void weir_voice_leave(struct weir_redis_voice *voice, uint64_t server)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find(voice, server);
    if (known != NULL && known->down > 0)
        known->down--;
    pthread_mutex_unlock(&voice->mutex);
}

bool weir_voice_failing(struct weir_redis_voice *voice, uint64_t server, bool is_new,
                        const char *why, uint64_t now_us)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find_or_make(voice, server);
    bool says = true;
    if (known != NULL) {
        uint64_t hash = weir_voice_name(why);
        if (is_new)
            says = known->failing++ == 0;
        else
            says = known->failing_why != hash && !was_said_just_now(known->said_failing_us, now_us);
        if (is_new && says)
            known->failing_at_us = now_us;
        if (says) {
            known->failing_why = hash;
            known->said_failing_us = now_us;
        }
    }
    pthread_mutex_unlock(&voice->mutex);
    return says;
}

bool weir_voice_counts(struct weir_redis_voice *voice, uint64_t server, uint64_t now_us,
                       uint64_t *after_us)
{
    pthread_mutex_lock(&voice->mutex);
    struct weir_voice_server *known = find(voice, server);
    bool says = known != NULL && known->failing > 0 && --known->failing == 0;
    if (says)
        *after_us = now_us - known->failing_at_us;
    pthread_mutex_unlock(&voice->mutex);
    return says;
}

void weir_voice_leave_failing(struct weir_redis_voice *voice, uint64_t server)
{
    uint64_t unused_us;
    weir_voice_counts(voice, server, 0, &unused_us);
}

bool weir_voice_advise(struct weir_redis_voice *voice, const char *server, enum weir_advice advice,
                       enum weir_advice_finding finding)
{
    pthread_mutex_lock(&voice->mutex);
    bool says = weir_advice_note(&voice->advice, server, advice, finding);
    pthread_mutex_unlock(&voice->mutex);
    return says;
}
