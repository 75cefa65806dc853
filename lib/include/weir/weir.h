/* weir: middleware and rate limits for GNU libmicrohttpd.
 *
 * This header includes all others but <weir/redirect.h>. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/common.h>
#include <weir/error.h>
#include <weir/version.h>
#include <weir/request.h>
#include <weir/identity.h>
#include <weir/chain.h>
#include <weir/policy.h>
#include <weir/calendar.h>
#include <weir/store.h>
#include <weir/limiter.h>
#include <weir/decisions.h>
#include <weir/metrics.h>
#include <weir/admin.h>
#include <weir/watch.h>
#include <weir/backoff.h>
#include <weir/mhd.h>
#include <weir/serve.h>

#endif
