#include "limit/known.h"

#include <string.h>

#define VERSION "v1"

/* So much of an account's label tells its cookies apart. */
#define SUFFIX_CHARS 10

#define EXPIRES_MAX (UINT64_C(1) << 40)

static uint64_t lifetime_s(const struct weir_account *account)
{
    return account->ruleset->known->cookie_s;
}

/* names and codes; nothing of what is joined holds a line's end */

static void label_of(const struct weir_account *account, const char *purpose,
                     const struct weir_device *device, char label[WEIR_LABEL_CHARS + 1])
{
    char memory[WEIR_SUBJECT_MAX + 512];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_string(&text, purpose);
    weir_buffer_put_char(&text, '\n');
    weir_buffer_put_string(&text, account->ruleset->name);
    weir_buffer_put_char(&text, '\n');
    weir_buffer_put(&text, account->subject);
    if (device != NULL) {
        weir_buffer_put_char(&text, '\n');
        weir_buffer_put_string(&text, device->id);
        weir_buffer_put_char(&text, '\n');
        weir_buffer_put_number(&text, device->expires_s);
    }
    weir_label(weir_buffer_text(&text), account->policy->secret, label);
}

static void put_name(struct weir_buffer *name, const struct weir_account *account)
{
    char label[WEIR_LABEL_CHARS + 1];
    label_of(account, "weir device cookie's name", NULL, label);
    weir_buffer_put_string(name, account->ruleset->known->cookie);
    weir_buffer_put_char(name, '_');
    weir_buffer_put(name, (struct weir_text){ label, SUFFIX_CHARS });
}

/* reading */

static bool is_of_label(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = weir_fold_char(text.at[i]);
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_')
            return false;
    }
    return true;
}

static bool is_label(struct weir_text text)
{
    return text.length == WEIR_LABEL_CHARS && is_of_label(text);
}

/* "v1.DEVICE.EXPIRES.CODE" */
static bool read_value(const struct weir_account *account, struct weir_text value, uint64_t now_s,
                       struct weir_device *device)
{
    struct weir_text version, id, expires, code;
    if (!weir_text_take_first(&value, '.', &version) || !weir_text_take_first(&value, '.', &id)
        || !weir_text_take_first(&value, '.', &expires) || !weir_text_take_first(&value, '.', &code)
        || value.at != NULL || !weir_text_equal(version, WEIR_TEXT(VERSION)) || !is_label(id)
        || !is_label(code) || !weir_text_to_number(expires, &device->expires_s)
        || device->expires_s > EXPIRES_MAX)
        return false;
    memcpy(device->id, id.at, WEIR_LABEL_CHARS);
    device->id[WEIR_LABEL_CHARS] = '\0';

    char right[WEIR_LABEL_CHARS + 1];
    label_of(account, "weir device cookie", device, right);
    bool is_ours = weir_same_label(code.at, right);
    return is_ours && now_s < device->expires_s;
}

/* RFC 6265, section 4.2.1: "name=value; name=value". */
static bool find_in_line(const struct weir_account *account, struct weir_text line,
                         struct weir_text wanted, uint64_t now_s, struct weir_device *device)
{
    struct weir_text pair, name;
    while (weir_text_take_first(&line, ';', &pair)) {
        pair = weir_text_trim(pair);
        if (weir_text_take_first(&pair, '=', &name) && weir_text_equal(name, wanted)
            && read_value(account, pair, now_s, device))
            return true;
    }
    return false;
}

bool weir_device_find(const struct weir_account *account, const struct weir_facts *facts,
                      uint64_t now_s, struct weir_device *device)
{
    char memory[WEIR_COOKIE_BYTES];
    struct weir_buffer name = weir_buffer_init(memory, sizeof memory);
    put_name(&name, account);
    for (size_t i = 0; i < facts->header_count; i++)
        if (weir_text_equal_fold(facts->headers[i].name, WEIR_TEXT("Cookie"))
            && find_in_line(account, facts->headers[i].value, weir_buffer_text(&name), now_s,
                            device))
            return true;
    return false;
}

bool weir_device_is_old(const struct weir_account *account, const struct weir_device *device,
                        uint64_t now_s)
{
    return device->expires_s < now_s + lifetime_s(account) / 2;
}

/* cookies of others */

struct walk {
    const struct weir_facts *facts;
    size_t next_header;
    struct weir_text line; /* what is left of it; at NULL: nothing */
};

/* The next name of a cookie; false: there is none. */
static bool next_name(struct walk *walk, struct weir_text *name)
{
    struct weir_text pair;
    while (walk->line.at == NULL) {
        if (walk->next_header == walk->facts->header_count)
            return false;
        const struct weir_line *header = &walk->facts->headers[walk->next_header++];
        if (weir_text_equal_fold(header->name, WEIR_TEXT("Cookie")))
            walk->line = header->value;
    }
    weir_text_take_first(&walk->line, ';', &pair);
    pair = weir_text_trim(pair);
    weir_text_take_first(&pair, '=', name);
    return true;
}

/* What is written into a reply again is of a form that is known: "weir_known_" and ten characters. */
static bool is_of_other(const struct weir_account *account, struct weir_text name,
                        struct weir_text own)
{
    const struct weir_text begin = weir_text_from(account->ruleset->known->cookie);
    if (name.length != own.length || !weir_text_starts_with(name, begin)
        || name.at[begin.length] != '_' || weir_text_equal(name, own))
        return false;
    return is_of_label((struct weir_text){ name.at + begin.length + 1, SUFFIX_CHARS });
}

size_t weir_device_surplus(const struct weir_account *account, const struct weir_facts *facts,
                           struct weir_text *names, size_t room)
{
    char memory[WEIR_COOKIE_BYTES];
    struct weir_buffer own = weir_buffer_init(memory, sizeof memory);
    struct weir_text name;
    struct walk walk = { .facts = facts };
    size_t others = 0, found = 0;
    put_name(&own, account);
    while (next_name(&walk, &name))
        others += is_of_other(account, name, weir_buffer_text(&own));

    walk = (struct walk){ .facts = facts };
    while (found < room && found + WEIR_OTHER_COOKIES_MAX < others && next_name(&walk, &name))
        if (is_of_other(account, name, weir_buffer_text(&own)))
            names[found++] = name;
    return found;
}

/* writing */

static void put_place(struct weir_buffer *cookie, const struct weir_account *account)
{
    weir_buffer_put_string(cookie, "; Path=");
    weir_buffer_put_string(cookie, account->ruleset->known->path);
    weir_buffer_put_string(cookie, "; HttpOnly; SameSite=Lax");
    if (account->ruleset->known->is_secure)
        weir_buffer_put_string(cookie, "; Secure");
}

void weir_device_write_expired(const struct weir_account *account, struct weir_text name,
                               struct weir_buffer *cookie)
{
    weir_buffer_put(cookie, name);
    weir_buffer_put_string(cookie, "=; Max-Age=0");
    put_place(cookie, account);
}

void weir_device_new(const struct weir_account *account, uint64_t now_s, struct weir_device *device)
{
    weir_random_label(device->id);
    device->expires_s = now_s + lifetime_s(account);
}

void weir_device_write(const struct weir_account *account, const struct weir_device *device,
                       uint64_t now_s, struct weir_buffer *cookie)
{
    char code[WEIR_LABEL_CHARS + 1];
    label_of(account, "weir device cookie", device, code);
    put_name(cookie, account);
    weir_buffer_put_string(cookie, "=" VERSION ".");
    weir_buffer_put_string(cookie, device->id);
    weir_buffer_put_char(cookie, '.');
    weir_buffer_put_number(cookie, device->expires_s);
    weir_buffer_put_char(cookie, '.');
    weir_buffer_put_string(cookie, code);
    weir_buffer_put_string(cookie, "; Max-Age=");
    weir_buffer_put_number(cookie, device->expires_s - now_s);
    put_place(cookie, account);
}
