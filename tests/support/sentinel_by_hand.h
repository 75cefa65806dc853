/* A Sentinel that says what a test wants it to say, over TCP and in a thread of its own. It knows
 * what a client of Sentinels asks for, and like a real one answers no question to a subscriber.
 * Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_SENTINEL_BY_HAND_H
#define TESTS_SUPPORT_SENTINEL_BY_HAND_H

#include "test.h"

struct sentinel_by_hand;

struct sentinel_by_hand *sentinel_by_hand_new(void);
void sentinel_by_hand_free(struct sentinel_by_hand *sentinel);

unsigned sentinel_by_hand_port(const struct sentinel_by_hand *sentinel);

/* What it says when it is asked for the master: 127.0.0.1 and a port, or bytes as they are; "": it
 * says nothing more at all to whom has asked. */
void sentinel_by_hand_name(struct sentinel_by_hand *sentinel, unsigned port);
void sentinel_by_hand_say(struct sentinel_by_hand *sentinel, const char *resp);

/* Sends bytes to all subscribers, or that its master "mymaster" is at another port now. */
void sentinel_by_hand_publish(struct sentinel_by_hand *sentinel, const char *resp);
void sentinel_by_hand_switch(struct sentinel_by_hand *sentinel, unsigned port);

/* Silent, it takes connections and commands, but replies to none. */
void sentinel_by_hand_hush(struct sentinel_by_hand *sentinel, bool is_silent);

/* Closes all connections, and takes none as long as it is away. */
void sentinel_by_hand_leave(struct sentinel_by_hand *sentinel, bool is_away);

/* How often it was asked for the master; how many are connected right now, and how many of these
 * subscribe to +switch-master. */
size_t sentinel_by_hand_asked(struct sentinel_by_hand *sentinel);
size_t sentinel_by_hand_guests(struct sentinel_by_hand *sentinel);
size_t sentinel_by_hand_subscribers(struct sentinel_by_hand *sentinel);

#endif
