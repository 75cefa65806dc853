/* URLs of Redis servers: whatever stands in one, it is refused with a text, or read into what a
 * connection can be made of and a log may show. */
#include <stdlib.h>
#include <string.h>

#include "store/redis_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool is_string(const char *memory, size_t size)
{
    return memchr(memory, '\0', size) != NULL;
}

static void check_place(const struct weir_redis_place *place)
{
    require(is_string(place->host, sizeof place->host));
    require(place->port >= 1 && place->port <= 65535);
    for (const char *c = place->host; *c != '\0'; c++)
        require(*c > ' ' && *c < 0x7f && *c != ',' && *c != '/' && *c != '@');
}

static void check_login(const struct weir_redis_login *login)
{
    require(is_string(login->user, sizeof login->user));
    require(is_string(login->password, sizeof login->password));
    require(login->user[0] == '\0' || login->password[0] != '\0');
}

static void check_kind(const struct weir_redis_url *url)
{
    bool is_unix = url->path[0] != '\0';
    require(!is_unix || (url->topology == WEIR_REDIS_SINGLE && !url->tls && url->path[0] == '/'));
    require((url->places[0].host[0] == '\0') == is_unix);
    require(url->topology != WEIR_REDIS_SINGLE || url->place_count == 1);
    require(url->topology != WEIR_REDIS_CLUSTER || url->database == 0);
    require((url->topology == WEIR_REDIS_SENTINEL) == (url->master[0] != '\0'));
    require(url->topology == WEIR_REDIS_SENTINEL || url->sentinel_login.password[0] == '\0');
}

static void check_shown(const struct weir_redis_url *url)
{
    require(is_string(url->shown, sizeof url->shown) && url->shown[0] != '\0');
    for (const char *c = url->shown; *c != '\0'; c++)
        require((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void check_url(const struct weir_redis_url *url)
{
    require(url->place_count >= 1 && url->place_count <= WEIR_REDIS_PLACES_MAX);
    for (size_t i = 0; i < url->place_count; i++)
        check_place(&url->places[i]);
    require(is_string(url->path, sizeof url->path) && is_string(url->master, sizeof url->master));
    check_shown(url);
    check_login(&url->login);
    check_login(&url->sentinel_login);
    check_kind(url);
}

static void check_error(const struct weir_error *error)
{
    require(error->code == WEIR_E_VALUE);
    require(strcmp(error->path, "/store/url") == 0);
    require(is_string(error->text, sizeof error->text) && error->text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct weir_redis_url url;
    struct weir_error error = WEIR_NO_ERROR;
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    enum weir_code code = weir_redis_url_read(text, &url, &error);
    require(code == error.code);
    if (code == WEIR_OK)
        check_url(&url);
    else
        check_error(&error);
    free(text);
    return 0;
}
