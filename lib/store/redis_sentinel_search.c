#include "store/redis_sentinel_search.h"

#include <string.h>

void weir_sentinel_search_init(struct weir_sentinel_search *search, size_t count)
{
    *search = (struct weir_sentinel_search){ .count = count };
    for (size_t i = 0; i < count; i++)
        search->order[i] = i;
}

void weir_sentinel_search_begin(struct weir_sentinel_search *search, uint64_t now_us)
{
    if (search->is_under_way)
        return;
    search->is_under_way = true;
    search->next_us = now_us;
    memset(search->was_asked, 0, sizeof search->was_asked);
    memset(search->is_asked, 0, sizeof search->is_asked);
}

static size_t first_not_asked(const struct weir_sentinel_search *search)
{
    for (size_t i = 0; i < search->count; i++)
        if (!search->was_asked[search->order[i]])
            return search->order[i];
    return WEIR_SENTINEL_NOBODY;
}

size_t weir_sentinel_search_next(struct weir_sentinel_search *search, uint64_t now_us)
{
    if (!search->is_under_way || now_us < search->next_us)
        return WEIR_SENTINEL_NOBODY;
    size_t index = first_not_asked(search);
    if (index == WEIR_SENTINEL_NOBODY)
        return WEIR_SENTINEL_NOBODY;
    search->was_asked[index] = true;
    search->is_asked[index] = true;
    search->asked_us[index] = now_us;
    search->next_us = now_us + WEIR_SENTINEL_PATIENCE_US;
    return index;
}

size_t weir_sentinel_search_late(const struct weir_sentinel_search *search, uint64_t now_us)
{
    for (size_t i = 0; search->is_under_way && i < search->count; i++)
        if (search->is_asked[i] && now_us >= search->asked_us[i] + WEIR_SENTINEL_ANSWER_US)
            return i;
    return WEIR_SENTINEL_NOBODY;
}

uint64_t weir_sentinel_search_until(const struct weir_sentinel_search *search)
{
    uint64_t until_us = UINT64_MAX;
    if (!search->is_under_way)
        return until_us;
    if (first_not_asked(search) != WEIR_SENTINEL_NOBODY)
        until_us = search->next_us;
    for (size_t i = 0; i < search->count; i++)
        if (search->is_asked[i] && search->asked_us[i] + WEIR_SENTINEL_ANSWER_US < until_us)
            until_us = search->asked_us[i] + WEIR_SENTINEL_ANSWER_US;
    return until_us;
}

static bool awaits_somebody(const struct weir_sentinel_search *search)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->is_asked[i])
            return true;
    return false;
}

bool weir_sentinel_search_failed(struct weir_sentinel_search *search, size_t index, uint64_t now_us)
{
    if (!search->is_under_way || !search->is_asked[index])
        return false;
    search->is_asked[index] = false;
    search->next_us = now_us;
    search->is_under_way =
        awaits_somebody(search) || first_not_asked(search) != WEIR_SENTINEL_NOBODY;
    return !search->is_under_way;
}

/* Moves one of the order to another place; those between move up or down. */
static void move(struct weir_sentinel_search *search, size_t from, size_t to)
{
    size_t index = search->order[from];
    for (; from > to; from--)
        search->order[from] = search->order[from - 1];
    for (; from < to; from++)
        search->order[from] = search->order[from + 1];
    search->order[to] = index;
}

void weir_sentinel_search_found(struct weir_sentinel_search *search, size_t index)
{
    search->is_under_way = false;
    for (size_t i = 0; i < search->count; i++)
        if (search->order[i] == index)
            move(search, i, 0);
}

void weir_sentinel_search_doubt(struct weir_sentinel_search *search)
{
    move(search, 0, search->count - 1);
}
