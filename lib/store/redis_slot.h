/* Which of a cluster's slots a key lies in. */
#ifndef WEIR_STORE_REDIS_SLOT_H
#define WEIR_STORE_REDIS_SLOT_H

#include "base/text.h"

#define WEIR_REDIS_SLOTS 16384

/* CRC-16/XMODEM. Pure. */
uint16_t weir_crc16(struct weir_text text);

/* What decides about a key's slot: what stands between its first "{" and the first "}" after that,
 * unless that is nothing; else the whole key (Redis Cluster Specification, "Hash tags"). Pure. */
struct weir_text weir_redis_slot_text(struct weir_text key);

/* Pure. */
unsigned weir_redis_slot(struct weir_text key);

#endif
