#include "routes.h"

#include <string.h>

#include "json.h"

static const struct {
    const char *id;
    const char *name;
    int price_cents;
} items[] = {
    { "gate-1", "Sluice gate, oak", 184000 },
    { "gate-2", "Sluice gate, steel", 265000 },
    { "board-1", "Stop log", 4200 },
    { "gauge-1", "Staff gauge, enamelled", 6900 },
    { "gauge-2", "Flow meter", 78500 },
    { "screen-1", "Trash screen", 31000 },
    { "ladder-1", "Fish ladder, per step", 52000 },
};

static const char *breaker_name(enum weir_breaker_state breaker)
{
    switch (breaker) {
    case WEIR_BREAKER_CLOSED:
        return "closed";
    case WEIR_BREAKER_STARTING:
        return "starting";
    case WEIR_BREAKER_OPEN:
        return "open";
    case WEIR_BREAKER_PROBING:
        break;
    }
    return "probing";
}

/* A store may answer with nothing but errors, such as a Redis whose memory is full. */
static bool is_well(const struct weir_store_state *state)
{
    return state->answering && state->why[0] == '\0';
}

/* Of a store in this process there is no more to tell. */
static void add_server(json_t *health, const struct weir_store_state *state)
{
    const char *server = state->server[0] == '\0' ? NULL : state->server;
    json_object_set_new(health, "server", demo_json_text(server));
    json_object_set_new(health, "answering", json_boolean(state->answering));
    json_object_set_new(health, "breaker", json_string(breaker_name(state->breaker)));
    if (!is_well(state))
        json_object_set_new(health, "why", demo_json_text(state->why));
    if (!state->answering)
        json_object_set_new(health, "down_s", json_integer((json_int_t)(state->down_us / 1000000)));
}

/* GET /healthz. A store that does not answer, or not as it should, is no reason to take this server out of service: each
 * policy says what happens meanwhile. So the status stays 200, and the text tells. */
static enum weir_step get_health(void *self, struct weir_request *request)
{
    struct weir_store_state state = { .name = "" };
    weir_limiter_state(self, &state);
    json_t *health =
        json_pack("{s:s, s:s}", "status", is_well(&state) ? "ok" : "degraded", "store", state.name);
    if (health != NULL && strcmp(state.name, "memory") != 0)
        add_server(health, &state);
    return demo_reply_object(request, 200, health);
}

/* GET /ip: what to look at when a proxy is put in front. */
static enum weir_step get_ip(void *self, struct weir_request *request)
{
    (void)self;
    return demo_reply_object(request, 200,
                             json_pack("{s:o, s:o, s:o, s:o}", "ip",
                                       demo_json_text(weir_request_ip(request)), "counted_as",
                                       demo_json_text(weir_request_network(request)), "peer",
                                       demo_json_text(weir_request_peer_ip(request)), "from",
                                       demo_json_text(weir_request_ip_source(request))));
}

/* The items whose names hold `words`, letter case aside. */
static json_t *find_items(const char *words)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        if (strcasestr(items[i].name, words) != NULL)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:i}", "id", items[i].id, "name",
                                            items[i].name, "price_cents", items[i].price_cents));
    return list;
}

/* GET /v1/catalog */
static enum weir_step get_catalog(void *self, struct weir_request *request)
{
    (void)self;
    return demo_reply_object(request, 200, json_pack("{s:o}", "items", find_items("")));
}

/* GET /v1/search?q=gate. The policy file reserves 5 units before the search; afterwards it is known
 * that looking cost 1 and each item found 1 more, and the rest is given back or charged. */
static enum weir_step get_search(void *self, struct weir_request *request)
{
    (void)self;
    const char *words = weir_request_query(request, "q");
    if (words == NULL || words[0] == '\0') {
        weir_settle(request, 1);
        weir_reply_problem(request, 400, NULL, "Say what to search for: /v1/search?q=gate");
        return WEIR_DONE;
    }
    json_t *found = find_items(words);
    weir_settle(request, 1 + json_array_size(found));
    return demo_reply_object(request, 200, json_pack("{s:o}", "items", found));
}

static json_t *list_quotas(struct weir_limiter *limiter, struct weir_request *request)
{
    struct weir_quota quotas[WEIR_CHECK_LIMITS];
    size_t count = weir_request_quotas(request, limiter, quotas, WEIR_CHECK_LIMITS);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "policy",
                                              quotas[i].policy, "name", quotas[i].limit, "limit",
                                              (json_int_t)quotas[i].quota, "remaining",
                                              (json_int_t)quotas[i].remaining, "reset",
                                              (json_int_t)quotas[i].reset_s));
    return list;
}

/* GET /v1/quota: who the client is and what it has left. The policy file gives it cost 0, so
 * that looking spends nothing. */
static enum weir_step get_quota(void *self, struct weir_request *request)
{
    const char *client = weir_request_api_key(request);
    if (client == NULL)
        client = weir_request_user(request);
    return demo_reply_object(request, 200,
                             json_pack("{s:o, s:o, s:o, s:o}", "client", demo_json_text(client),
                                       "tenant", demo_json_text(weir_request_tenant(request)),
                                       "plan", demo_json_text(weir_request_plan(request)), "limits",
                                       list_quotas(self, request)));
}

enum weir_code demo_routes_add(struct weir_chain *chain, struct weir_limiter *limiter,
                               struct demo_otp *otp)
{
    const struct {
        const char *method;
        const char *pattern;
        enum weir_step (*handler)(void *self, struct weir_request *request);
        void *self;
    } routes[] = {
        { "GET", "/healthz", get_health, limiter },
        { "GET", "/ip", get_ip, NULL },
        { "GET", "/v1/catalog", get_catalog, NULL },
        { "GET", "/v1/search", get_search, NULL },
        { "GET", "/v1/quota", get_quota, limiter },
        { "POST", "/v1/export", demo_export, NULL },
        { "POST", "/login", demo_login, NULL },
        { "POST", "/otp/send", demo_otp_send, otp },
        { "POST", "/otp/verify", demo_otp_verify, otp },
    };
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0] && code == WEIR_OK; i++)
        code = weir_chain_on(chain, routes[i].method, routes[i].pattern, routes[i].handler,
                             routes[i].self);
    return code;
}
