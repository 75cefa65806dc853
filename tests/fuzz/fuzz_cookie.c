/* Cookies of known devices: none that a client makes up is taken, and one of ours is found between
 * whatever stands around it. */
#include <stdlib.h>
#include <string.h>

#include "limit/known.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW UINT64_C(1800000000)

static struct weir_policy policy = { .secret = "nobody knows it" };
static const struct weir_known rules = { .cookie = "k", .cookie_s = 1000, .path = "/" };
static const struct weir_ruleset ruleset = { .name = "login", .known = &rules };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool finds(const struct weir_account *account, struct weir_text value,
                  struct weir_device *device)
{
    const struct weir_line line = { WEIR_TEXT("Cookie"), value };
    const struct weir_facts facts = { .headers = &line, .header_count = 1 };
    return weir_device_find(account, &facts, NOW, device);
}

/* "NAME=", and what a fuzzer would hardly find behind it. */
static void check_made_up(const struct weir_account *account, struct weir_text ours,
                          struct weir_text theirs)
{
    char memory[8192];
    struct weir_device device;
    struct weir_buffer value = weir_buffer_init(memory, sizeof memory);
    size_t name = (size_t)((const char *)memchr(ours.at, '=', ours.length) - ours.at) + 1;
    weir_buffer_put(&value, (struct weir_text){ ours.at, name });
    weir_buffer_put(&value, theirs);
    require(!finds(account, weir_buffer_text(&value), &device));
}

/* What is written into a reply again is a name and nothing else. */
static void check_surplus(const struct weir_account *account, struct weir_text theirs)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    char many[16384];
    struct weir_buffer value = weir_buffer_init(many, sizeof many);
    struct weir_text names[4];
    for (char last = 'a'; last <= 'h'; last++) {
        weir_buffer_put_string(&value, "k_012345678");
        weir_buffer_put_char(&value, last);
        weir_buffer_put_string(&value, "=v;");
    }
    weir_buffer_put(&value, theirs);
    const struct weir_line line = { WEIR_TEXT("Cookie"), weir_buffer_text(&value) };
    const struct weir_facts facts = { .headers = &line, .header_count = 1 };
    size_t count = weir_device_surplus(account, &facts, names, 4);
    require(count <= 4);
    for (size_t i = 0; i < count; i++) {
        require(names[i].length == 12 && memcmp(names[i].at, "k_", 2) == 0);
        for (size_t j = 0; j < names[i].length; j++)
            require(names[i].at[j] != '\0' && strchr(allowed, names[i].at[j]) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char memory[WEIR_COOKIE_BYTES], joined[8192];
    const struct weir_account account = { &policy, &ruleset, WEIR_TEXT("field:name=ann") };
    struct weir_text theirs = { (const char *)data, size };
    struct weir_buffer cookie = weir_buffer_init(memory, sizeof memory);
    struct weir_device device, found;
    if (size > 3000)
        return 0;
    require(!finds(&account, theirs, &device));
    check_surplus(&account, theirs);

    weir_device_new(&account, NOW, &device);
    weir_device_write(&account, &device, NOW, &cookie);
    struct weir_text whole = weir_buffer_text(&cookie), ours;
    require(weir_text_take_first(&whole, ';', &ours));
    check_made_up(&account, ours, theirs);

    struct weir_buffer value = weir_buffer_init(joined, sizeof joined);
    weir_buffer_put(&value, theirs);
    weir_buffer_put_string(&value, "; ");
    weir_buffer_put(&value, ours);
    weir_buffer_put_char(&value, ';');
    weir_buffer_put(&value, theirs);
    require(finds(&account, weir_buffer_text(&value), &found));
    require(strcmp(found.id, device.id) == 0 && found.expires_s == device.expires_s);
    return 0;
}
