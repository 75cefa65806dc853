/* weir: lets a file's responses get quota headers without a change to its lines.
 *
 * Include it after <microhttpd.h>, in each file that queues responses. */
#ifndef WEIR_REDIRECT_H
#define WEIR_REDIRECT_H

#include <weir/mhd.h>

#define MHD_queue_response   weir_redirect_queue_response
#define MHD_destroy_response weir_redirect_destroy_response

#endif
