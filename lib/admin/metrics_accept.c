#include "admin/metrics_accept.h"

/* What is offered, and the version that a client may name beside it. */
struct offer {
    const char *type, *kind, *version;
};

static const struct offer open_metrics = { "application/openmetrics-text", "application/*",
                                           "1.0.0" };
static const struct offer plain = { "text/plain", "text/*", "0.0.4" };

/* One range of the field. */
struct range {
    struct weir_text type, version; /* version at NULL: it names none */
    unsigned quality;               /* in thousandths                 */
};

/* "0.75" and the like; what is no such number is as if it were not there. */
static unsigned quality_from(struct weir_text value)
{
    struct weir_text whole = { NULL, 0 };
    unsigned quality = 0, place = 100;
    weir_text_take_first(&value, '.', &whole);
    if (!weir_text_equal(whole, WEIR_TEXT("0")))
        return 1000;
    for (size_t i = 0; i < value.length && place > 0; i++, place /= 10) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return 1000;
        quality += place * (unsigned)(value.at[i] - '0');
    }
    return quality;
}

static struct weir_text unquoted(struct weir_text value)
{
    if (value.length >= 2 && value.at[0] == '"' && value.at[value.length - 1] == '"')
        return (struct weir_text){ value.at + 1, value.length - 2 };
    return value;
}

static struct range range_from(struct weir_text item)
{
    struct range range = { .quality = 1000 };
    struct weir_text parameter, name = { NULL, 0 };
    weir_text_take_first(&item, ';', &range.type);
    range.type = weir_text_trim(range.type);
    while (weir_text_take_first(&item, ';', &parameter)) {
        weir_text_take_first(&parameter, '=', &name);
        struct weir_text value = unquoted(weir_text_trim(parameter));
        if (weir_text_equal_fold(weir_text_trim(name), WEIR_TEXT("q")))
            range.quality = quality_from(value);
        else if (weir_text_equal_fold(weir_text_trim(name), WEIR_TEXT("version")))
            range.version = value;
    }
    return range;
}

/* The more, the closer; 0: the range is about something else. */
static unsigned closeness(const struct range *range, const struct offer *offer)
{
    if (weir_text_equal(range->type, WEIR_TEXT("*/*")))
        return 1;
    if (weir_text_equal_fold(range->type, weir_text_from(offer->kind)))
        return 2;
    if (!weir_text_equal_fold(range->type, weir_text_from(offer->type)))
        return 0;
    if (range->version.at == NULL)
        return 3;
    return weir_text_equal(range->version, weir_text_from(offer->version)) ? 4 : 0;
}

/* How much an offer is liked, in thousandths, by the range that is the closest to it. */
static unsigned quality_of(struct weir_text accept, const struct offer *offer, unsigned *closest)
{
    struct weir_text item;
    unsigned quality = 0;
    *closest = 0;
    while (weir_text_take_first(&accept, ',', &item)) {
        struct range range = range_from(item);
        unsigned how = closeness(&range, offer);
        if (how == 0 || how < *closest)
            continue;
        *closest = how;
        quality = range.quality;
    }
    return quality;
}

enum weir_metrics_form weir_metrics_accept(struct weir_text accept)
{
    unsigned how_open, how_plain;
    unsigned likes_open = quality_of(accept, &open_metrics, &how_open);
    unsigned likes_plain = quality_of(accept, &plain, &how_plain);
    bool is_named = how_open >= 3;
    return is_named && likes_open > 0 && likes_open >= likes_plain ? WEIR_METRICS_OPEN
                                                                   : WEIR_METRICS_PLAIN;
}
