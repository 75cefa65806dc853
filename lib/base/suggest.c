#include "base/suggest.h"

#define LONGEST 64

/* Distances from the first letters of a word, one for each length, to those of a name. */
struct row {
    size_t to[LONGEST + 1];
};

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

static bool same(char one, char other)
{
    return weir_fold_char(one) == weir_fold_char(other);
}

/* The row for the first `i` letters of `name` (i ≥ 1), from the rows for i - 1 and i - 2. */
static void next_row(struct weir_text word, struct weir_text name, size_t i, const struct row *last,
                     const struct row *before_last, struct row *row)
{
    row->to[0] = i;
    for (size_t j = 1; j <= word.length; j++) {
        bool equal = same(name.at[i - 1], word.at[j - 1]);
        size_t best = last->to[j - 1] + (equal ? 0 : 1);
        best = least(best, least(last->to[j], row->to[j - 1]) + 1);
        if (i > 1 && j > 1 && same(name.at[i - 1], word.at[j - 2])
            && same(name.at[i - 2], word.at[j - 1]))
            best = least(best, before_last->to[j - 2] + 1);
        row->to[j] = best;
    }
}

/* Neither is longer than LONGEST. */
static size_t distance(struct weir_text word, struct weir_text name)
{
    struct row rows[3];
    for (size_t j = 0; j <= word.length; j++)
        rows[0].to[j] = j;
    for (size_t i = 1; i <= name.length; i++)
        next_row(word, name, i, &rows[(i - 1) % 3], &rows[(i + 1) % 3], &rows[i % 3]);
    return rows[name.length % 3].to[word.length];
}

static size_t farthest(struct weir_text name)
{
    return name.length < 3 ? 1 : name.length / 3;
}

const char *weir_suggest(struct weir_text word, const char *const *known, size_t count)
{
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    if (word.length == 0 || word.length > LONGEST)
        return NULL;

    for (size_t i = 0; i < count; i++) {
        struct weir_text name = weir_text_from(known[i]);
        if (name.length == 0 || name.length > LONGEST)
            continue;
        size_t away = distance(word, name);
        if (away <= farthest(name) && away < nearest_distance) {
            nearest = known[i];
            nearest_distance = away;
        }
    }
    return nearest;
}
