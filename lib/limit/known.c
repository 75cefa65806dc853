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

static bool is_label(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = weir_fold_char(text.at[i]);
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_')
            return false;
    }
    return text.length == WEIR_LABEL_CHARS;
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

/* writing */

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
    weir_buffer_put_string(cookie, "; Path=");
    weir_buffer_put_string(cookie, account->ruleset->known->path);
    weir_buffer_put_string(cookie, "; HttpOnly; SameSite=Lax");
    if (account->ruleset->known->is_secure)
        weir_buffer_put_string(cookie, "; Secure");
}
