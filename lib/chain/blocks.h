/* Memory for requests, of which each thread keeps what it has used for its next ones. */
#ifndef WEIR_CHAIN_BLOCKS_H
#define WEIR_CHAIN_BLOCKS_H

#include <stddef.h>

/* A block of `size` bytes or a little more, aligned for anything, with whatever was left in it; NULL:
 * memory ran out. `size` becomes what it has. Any thread. */
void *weir_block_take(size_t *size);

/* Gives a block back, which may have been taken by another thread. `size` is what it has. */
void weir_block_give(void *block, size_t size);

/* Frees what the calling thread keeps, for tests in which memory runs out. */
void weir_blocks_drop(void);

#endif
