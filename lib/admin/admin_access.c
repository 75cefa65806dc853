/* Who may send requests to the admin API: who shows the token, or without one, who is on this machine
 * and was not sent there by a page or a proxy. */
#include "admin/admin.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "limit/limiter_internal.h"
#include "store/memory.h"

#define TOKEN_MAX 512

/* Wrong tokens that an address may send: so many at once, and one more in each six seconds. */
#define GUESSES_AT_ONCE 10
#define GUESSES_WINDOW  UINT64_C(60000000)

/* Attempts are told in one line so often. */
#define PAUSE_US UINT64_C(10000000)

/* the token */

static enum weir_code check_token(const char *token, struct weir_error *error)
{
    size_t length = strlen(token);
    if (length < WEIR_ADMIN_TOKEN_MIN || length > TOKEN_MAX)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "The admin token has %zu characters; wanted are %d to %d, such as "
                              "\"openssl rand -hex 24\" prints.",
                              length, WEIR_ADMIN_TOKEN_MIN, TOKEN_MAX);
    for (const char *at = token; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~')
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "The admin token has a blank in it, or what is no ASCII, at "
                                  "character %zu; wanted are letters, digits and marks, such as "
                                  "\"openssl rand -hex 24\" prints.",
                                  (size_t)(at - token) + 1);
    return WEIR_OK;
}

enum weir_code weir_admin_take_token(struct weir_admin *admin, const char *token,
                                     struct weir_error *error)
{
    if (token == NULL)
        return WEIR_OK;
    enum weir_code code = check_token(token, error);
    if (code == WEIR_OK && !weir_hash_start())
        code = weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");
    if (code == WEIR_OK)
        code = weir_store_open(
            "memory:", WEIR_STORE_OPTIONS(.memory_bytes = 2 * WEIR_MEMORY_BYTES_MIN),
            &admin->guesses, error);
    if (code != WEIR_OK)
        return code;
    char random[WEIR_LABEL_CHARS + 1];
    weir_random_label(random);
    weir_secret_from(weir_text_from(random), admin->secret);
    explicit_bzero(random, sizeof random);
    weir_label(weir_text_from(token), admin->secret, admin->token);
    admin->attempts.pause_us = PAUSE_US;
    admin->has_token = true;
    return WEIR_OK;
}

/* The credentials of "Authorization: Bearer …" (RFC 6750, section 2.1); at NULL: there are none. */
static struct weir_text bearer_of(const struct weir_request *request)
{
    static const struct weir_text none = { NULL, 0 };
    struct weir_text value = weir_facts_header(&request->facts, WEIR_TEXT("Authorization")), scheme;
    if (value.at == NULL)
        return none;
    value = weir_text_trim(value);
    if (!weir_text_take_first(&value, ' ', &scheme) || value.at == NULL
        || !weir_text_equal_fold(scheme, WEIR_TEXT("Bearer")))
        return none;
    return weir_text_trim(value);
}

/* By keyed hashes of both, in a time that tells nothing about the token, nor of its length. */
static bool is_token(const struct weir_admin *admin, struct weir_text shown)
{
    char label[WEIR_LABEL_CHARS + 1];
    weir_label(shown, admin->secret, label);
    bool is_same = weir_same_label(label, admin->token);
    explicit_bzero(label, sizeof label);
    return is_same;
}

/* wrong tokens */

static void on_done(struct weir_check *check)
{
    (void)check; /* a memory store answers inline */
}

/* For how long an address has to wait, after `cost` wrong tokens more; 0: not at all. */
static uint64_t count_guess_us(struct weir_admin *admin, const char *network, uint64_t cost)
{
    struct weir_answer answer = { .allowed = true };
    struct weir_spend spend = {
        .algorithm = WEIR_GCRA, .cost = cost, .key = network, .key_length = strlen(network)
    };
    weir_rate_make(GUESSES_AT_ONCE, GUESSES_WINDOW, GUESSES_AT_ONCE, &spend.rate, NULL);
    struct weir_check check = {
        .operation = WEIR_SPEND, .spends = &spend, .answers = &answer, .count = 1, .done = on_done
    };
    admin->guesses->type->submit(admin->guesses->self, &check);
    if (check.result != WEIR_STORE_ANSWERED || answer.remaining > 0 || cost > 0)
        return 0;
    return GUESSES_WINDOW / GUESSES_AT_ONCE;
}

/* Who asks, found as the limiter finds it; only addresses outlive the call. */
static struct weir_identity identify(const struct weir_admin *admin,
                                     const struct weir_request *request)
{
    struct weir_identity identity = { .found = false };
    const struct weir_edition *edition = weir_edition_take(&admin->limiter->editions);
    weir_identity_find(&edition->policy->identity, &request->facts, &identity);
    weir_edition_leave(edition);
    return identity;
}

void weir_admin_name_client(const struct weir_admin *admin, const struct weir_request *request,
                            char address[WEIR_ADDRESS_CHARS])
{
    const struct weir_identity identity = identify(admin, request);
    weir_address_print(&identity.client, address);
    if (address[0] == '\0')
        strcpy(address, "a local socket");
}

/* The network that the client is counted in. */
static void name_network(const struct weir_admin *admin, const struct weir_request *request,
                         char network[WEIR_NETWORK_CHARS])
{
    const struct weir_identity identity = identify(admin, request);
    weir_network_print(&identity.network, network);
    if (network[0] == '\0')
        strcpy(network, "no address");
}

static void tell(struct weir_admin *admin, const char *network, uint64_t count)
{
    weir_log_line(&admin->log, WEIR_WARNING,
                  "The admin API was asked with a wrong token, %llu time%s since the last such "
                  "line, and last from %s.",
                  (unsigned long long)count, count == 1 ? "" : "s", network);
}

uint64_t weir_admin_attempts_due_us(struct weir_admin *admin)
{
    struct weir_admin_attempts *attempts = &admin->attempts;
    pthread_mutex_lock(&attempts->mutex);
    uint64_t due_us = attempts->untold == 0 ? 0 : attempts->told_us + attempts->pause_us;
    pthread_mutex_unlock(&attempts->mutex);
    return due_us;
}

void weir_admin_tell_attempts(struct weir_admin *admin)
{
    struct weir_admin_attempts *attempts = &admin->attempts;
    char last[WEIR_NETWORK_CHARS];
    pthread_mutex_lock(&attempts->mutex);
    uint64_t now_us = weir_monotonic_us(), count = attempts->untold;
    bool is_due =
        count > 0 && (attempts->told_us == 0 || now_us - attempts->told_us >= attempts->pause_us);
    if (is_due) {
        attempts->untold = 0;
        attempts->told_us = now_us;
        strcpy(last, attempts->last);
    }
    pthread_mutex_unlock(&attempts->mutex);
    if (is_due)
        tell(admin, last, count);
}

/* What is not told at once the thread tells later, even if nobody tries again: the last try may have
 * been the right one. */
static void note_attempt(struct weir_admin *admin, const char *network)
{
    struct weir_admin_attempts *attempts = &admin->attempts;
    pthread_mutex_lock(&attempts->mutex);
    attempts->untold++;
    strcpy(attempts->last, network);
    pthread_mutex_unlock(&attempts->mutex);
    weir_admin_tell_attempts(admin);
    weir_admin_rouse(admin);
}

void weir_admin_forget_token(struct weir_admin *admin)
{
    if (admin->attempts.untold > 0)
        tell(admin, admin->attempts.last, admin->attempts.untold);
    weir_store_free(admin->guesses);
    explicit_bzero(admin->secret, sizeof admin->secret);
    explicit_bzero(admin->token, sizeof admin->token);
}

static void reply_slow(struct weir_request *request, uint64_t wait_us)
{
    char seconds[24];
    struct weir_buffer text = weir_buffer_init(seconds, sizeof seconds);
    weir_buffer_put_number(&text, (wait_us + 999999) / 1000000);
    weir_reply_problem(request, 429, NULL, "This address has sent too many wrong tokens.");
    weir_reply_line(request, "Retry-After", weir_buffer_string(&text));
}

static void reply_unauthorized(struct weir_request *request, bool has_shown)
{
    weir_reply_problem(request, 401, NULL, has_shown ? "The token is wrong." : NULL);
    weir_reply_line(request, "WWW-Authenticate",
                    has_shown ? "Bearer realm=\"weir admin\", error=\"invalid_token\""
                              : "Bearer realm=\"weir admin\"");
}

/* Who has sent too many wrong ones waits, whatever he sends: else he could go on trying. */
static bool shows_token(struct weir_admin *admin, struct weir_request *request)
{
    char network[WEIR_NETWORK_CHARS];
    name_network(admin, request, network);
    uint64_t wait_us = count_guess_us(admin, network, 0);
    struct weir_text shown = bearer_of(request);
    if (wait_us > 0) {
        reply_slow(request, wait_us);
        return false;
    }
    if (shown.at != NULL && is_token(admin, shown))
        return true;
    if (shown.at != NULL) {
        count_guess_us(admin, network, 1);
        note_attempt(admin, network);
    }
    reply_unauthorized(request, shown.at != NULL);
    return false;
}

/* without a token */

static bool is_loopback(const struct weir_address *address)
{
    static const unsigned char one[16] = { [15] = 1 };
    return (address->family == WEIR_IPV4 && address->bytes[0] == 127)
           || (address->family == WEIR_IPV6 && memcmp(address->bytes, one, sizeof one) == 0);
}

/* "localhost", "127.0.0.1:8080", "[::1]:8080": any other name may be one that a page from elsewhere has
 * made to mean this machine. */
static bool names_this_machine(struct weir_text host)
{
    struct weir_address address;
    struct weir_text name;
    if (weir_address_parse_node(host, &address))
        return is_loopback(&address);
    uint64_t port;
    return weir_text_take_first(&host, ':', &name)
           && weir_text_equal_fold(name, WEIR_TEXT("localhost"))
           && (host.at == NULL || weir_text_to_number(host, &port));
}

/* A proxy need not say in each request that it is one, and a stock nginx never does: but the policy
 * trusts it to say who asks. */
static bool is_trusted(const struct weir_admin *admin, const struct weir_address *peer)
{
    const struct weir_edition *edition = weir_edition_take(&admin->limiter->editions);
    bool is_so = weir_trust_covers_peer(&edition->policy->identity.trust, peer);
    weir_edition_leave(edition);
    return is_so;
}

/* Who has set up a proxy learns it from the log, and not from the first 403. */
static void on_policy(void *self, const struct weir_policy *policy)
{
    struct weir_admin *admin = self;
    struct weir_address one;
    bool is_shut = weir_address_parse(WEIR_TEXT("127.0.0.1"), &one)
                   && weir_trust_covers_peer(&policy->identity.trust, &one);
    if (is_shut && !admin->is_shut)
        weir_log_line(
            &admin->log, WEIR_WARNING,
            "The admin API answers nobody without a token now, since "
            "\"client_ip\".\"trust\" names this machine as a proxy: give it one, such as "
            "\"openssl rand -hex 24\" prints (weir-demo takes it from WEIR_ADMIN_TOKEN).");
    admin->is_shut = is_shut;
}

void weir_admin_heed_policy(struct weir_admin *admin)
{
    if (!admin->has_token)
        weir_limiter_tell_policy(admin->limiter, on_policy, admin);
}

void weir_admin_leave_policy(struct weir_admin *admin)
{
    if (!admin->has_token)
        weir_limiter_tell_policy(admin->limiter, NULL, NULL);
}

static bool was_forwarded(const struct weir_admin *admin, const struct weir_facts *facts)
{
    static const char *const names[] = { "Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                         "X-Forwarded-Proto", "X-Real-IP",       "Via",
                                         "True-Client-IP",    "CF-Connecting-IP" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (weir_facts_header(facts, weir_text_from(names[i])).at != NULL)
            return true;
    const struct weir_edition *edition = weir_edition_take(&admin->limiter->editions);
    struct weir_text own = edition->policy->identity.forwarded_header;
    bool has_own = own.at != NULL && weir_facts_header(facts, own).at != NULL;
    weir_edition_leave(edition);
    return has_own;
}

/* "http://127.0.0.1:8080" is the origin of what came from the host "127.0.0.1:8080". */
static bool is_own_origin(struct weir_text origin, struct weir_text host)
{
    static const struct weir_text schemes[] = { { "http://", 7 }, { "https://", 8 } };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        struct weir_text rest = { origin.at + schemes[i].length,
                                  origin.length - schemes[i].length };
        if (weir_text_starts_with(origin, schemes[i]) && weir_text_equal_fold(rest, host))
            return true;
    }
    return false;
}

static bool is_from_elsewhere(const struct weir_facts *facts, struct weir_text host)
{
    struct weir_text origin = weir_facts_header(facts, WEIR_TEXT("Origin"));
    struct weir_text site = weir_facts_header(facts, WEIR_TEXT("Sec-Fetch-Site"));
    bool is_foreign_site = site.at != NULL && !weir_text_equal_fold(site, WEIR_TEXT("same-origin"))
                           && !weir_text_equal_fold(site, WEIR_TEXT("none"));
    return is_foreign_site || (origin.at != NULL && !is_own_origin(origin, host));
}

/* What keeps a request out where there is no token, with what to do about it; NULL: nothing. */
static const char *fault_of(const struct weir_admin *admin, const struct weir_facts *facts)
{
    struct weir_address peer = weir_address_from(facts->peer);
    struct weir_text host = weir_facts_header(facts, WEIR_TEXT("Host"));
    if (!is_loopback(&peer))
        return "Without a token only this machine is answered: give the admin API a token.";
    if (host.at == NULL || !names_this_machine(weir_text_trim(host)))
        return "Without a token the Host has to be localhost, 127.0.0.1 or [::1]: give the admin "
               "API a token.";
    if (was_forwarded(admin, facts))
        return "Without a token what a proxy forwards is not answered: give the admin API a token.";
    if (is_trusted(admin, &peer))
        return "\"client_ip\".\"trust\" names this machine as a proxy, through which anybody may "
               "ask: "
               "give the admin API a token.";
    if (facts->is_http_1_0)
        return "Without a token HTTP/1.0 is not answered, which is what proxies speak: give the "
               "admin "
               "API a token.";
    if (is_from_elsewhere(facts, weir_text_trim(host)))
        return "Without a token a page from elsewhere is not answered.";
    return NULL;
}

/* Of two such lines one program on the way may take the first, and another the second (RFC 9112,
 * section 3.2, for the Host). NULL: there is none. */
static const char *find_twice(const struct weir_facts *facts)
{
    static const char *const names[] = { "Host", "Origin", "Sec-Fetch-Site", "Authorization" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t count = 0;
        for (size_t at = 0; at < facts->header_count; at++)
            count += weir_text_equal_fold(facts->headers[at].name, weir_text_from(names[i]));
        if (count > 1)
            return names[i];
    }
    return NULL;
}

static bool is_unambiguous(struct weir_request *request)
{
    const char *name = find_twice(&request->facts);
    if (name == NULL)
        return true;
    char detail[64];
    snprintf(detail, sizeof detail, "The request has more than one %s.", name);
    weir_reply_problem(request, 400, NULL, detail);
    return false;
}

bool weir_admin_lets_in(struct weir_admin *admin, struct weir_request *request)
{
    if (!is_unambiguous(request))
        return false;
    if (admin->has_token)
        return shows_token(admin, request);
    const char *fault = fault_of(admin, &request->facts);
    if (fault != NULL)
        weir_reply_problem(request, 403, NULL, fault);
    return fault == NULL;
}

enum weir_code weir_admin_may_listen(void *self, const struct sockaddr *address,
                                     struct weir_error *error)
{
    const struct weir_admin *admin = self;
    struct weir_address listened = weir_address_from(address);
    if (admin->has_token || address == NULL || is_loopback(&listened))
        return WEIR_OK;
    char text[WEIR_ADDRESS_CHARS];
    weir_address_print(&listened, text);
    return weir_error_set(error, WEIR_E_VALUE, NULL,
                          "The admin API has no token, and would be open to whoever reaches %s: "
                          "give it one, such as \"openssl rand -hex 24\" prints, or listen on "
                          "127.0.0.1.",
                          text[0] == '\0' ? "this socket" : text);
}
