/* How many units leases may hold of a limit: arithmetic for warnings, the log, and leases themselves. */
#ifndef WEIR_POLICY_LEASE_UNITS_H
#define WEIR_POLICY_LEASE_UNITS_H

#include "policy/policy.h"

/* The most in a block of a limit that holds so much. Pure. */
uint64_t weir_lease_most_units(const struct weir_lease *lease, uint64_t capacity,
                               unsigned instances);

/* Of a block of so many, with fewer units left the next is asked for. Pure. */
uint64_t weir_lease_low_water(const struct weir_lease *lease, uint64_t units);

/* The most that so many instances hold at once, unspent, of a limit that holds so much: each a block
 * that has just come, and what was left of the one before. Pure. */
uint64_t weir_lease_bound(const struct weir_lease *lease, uint64_t capacity, unsigned instances);

#endif
