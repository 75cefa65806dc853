/* Decisions in words: as JSON, and in memory of their own. */
#ifndef WEIR_OBSERVE_DECISION_TEXT_H
#define WEIR_OBSERVE_DECISION_TEXT_H

#include <weir/decisions.h>

#include "base/buffer.h"

/* Failures of the store are warnings, all else is information. Pure. */
enum weir_level weir_decision_level(const struct weir_decision *decision);

/* "2026-03-04T05:06:07.008Z", with quotes. */
void weir_put_time(struct weir_buffer *json, uint64_t time_us);

/* Writes `,"name":"text"`, and nothing for NULL; cut after `most` bytes, which "..." then says. `name`
 * needs no escape. */
void weir_put_member(struct weir_buffer *json, const char *name, const char *text, size_t most);

/* Writes what a line of the log holds, without braces. */
void weir_decision_put(struct weir_buffer *json, const struct weir_decision *decision);

/* Copies a decision with its texts, each cut as in a line. The sequence stays as it is. */
void weir_decision_copy(struct weir_recent_decision *copy, const struct weir_decision *decision);

#endif
