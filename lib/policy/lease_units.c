#include "policy/lease_units.h"

#define PPM UINT64_C(1000000)

uint64_t weir_lease_most_units(const struct weir_lease *lease, uint64_t capacity,
                               unsigned instances)
{
    uint64_t units = lease->batch;
    if (units == 0)
        units = lease->share_ppm > 0 ? capacity * lease->share_ppm / PPM
                                     : capacity / (UINT64_C(4) * instances);
    if (units > capacity)
        units = capacity;
    return units == 0 ? 1 : units;
}

uint64_t weir_lease_low_water(const struct weir_lease *lease, uint64_t units)
{
    return units * lease->low_water_ppm / PPM;
}

uint64_t weir_lease_bound(const struct weir_lease *lease, uint64_t capacity, unsigned instances)
{
    uint64_t units = weir_lease_most_units(lease, capacity, instances);
    uint64_t bound = (units + weir_lease_low_water(lease, units)) * instances;
    return bound < capacity ? bound : capacity;
}
