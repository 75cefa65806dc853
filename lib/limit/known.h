/* Devices and addresses from which somebody has logged in before, so that strangers who guess can lock
 * out strangers only. A device is known by a cookie of its own for each account: who has it shows a
 * message authentication code (keyed BLAKE2b) over the policy, the account, the device and the time up
 * to which it holds. It is no proof of who the client is, and opens nothing but a count of its own. */
#ifndef WEIR_LIMIT_KNOWN_H
#define WEIR_LIMIT_KNOWN_H

#include "limit/subject.h"

/* Whose cookie it is to be. */
struct weir_account {
    const struct weir_policy *policy;
    const struct weir_ruleset *ruleset; /* that has `known` */
    struct weir_text subject;           /* as weir_subject_write() gives it */
};

struct weir_device {
    char id[WEIR_LABEL_CHARS + 1];
    uint64_t expires_s; /* since 1970 */
};

/* Room for the value of a Set-Cookie line. */
#define WEIR_COOKIE_BYTES 512

/* Makes a device that nobody had before. */
void weir_device_new(const struct weir_account *account, uint64_t now_s,
                     struct weir_device *device);

/* Finds a cookie of the account's that holds; false: there is none. Thread-safe: pure. */
bool weir_device_find(const struct weir_account *account, const struct weir_facts *facts,
                      uint64_t now_s, struct weir_device *device);

/* Whether half of a device's time is over, so that it is worth a new cookie. Pure. */
bool weir_device_is_old(const struct weir_account *account, const struct weir_device *device,
                        uint64_t now_s);

/* A browser that many log in with keeps so many cookies beside the one of who logs in now; a browser
 * sends all of them with each request, and servers take only so much. */
#define WEIR_OTHER_COOKIES_MAX 8

/* Finds the names of cookies of other accounts that are above that, the oldest first, since browsers
 * send those first (RFC 6265, section 5.4); up to `room`. Returns how many. They point into `facts`.
 * Thread-safe: pure. */
size_t weir_device_surplus(const struct weir_account *account, const struct weir_facts *facts,
                           struct weir_text *names, size_t room);

/* Writes what makes a browser forget the cookie of that name. Pure. */
void weir_device_write_expired(const struct weir_account *account, struct weir_text name,
                               struct weir_buffer *cookie);

/* Writes "NAME=VALUE; Max-Age=…; Path=…; HttpOnly; SameSite=Lax" (RFC 6265). Pure. */
void weir_device_write(const struct weir_account *account, const struct weir_device *device,
                       uint64_t now_s, struct weir_buffer *cookie);

#endif
