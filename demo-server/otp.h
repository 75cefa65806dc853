/* One-time codes: sent to a destination, and given back by who reads it. */
#ifndef DEMO_OTP_H
#define DEMO_OTP_H

#include <weir/chain.h>

struct demo_otp;

/* `shows_codes` writes each code to the log, where there is nobody to send it to. NULL: memory ran
 * out. */
struct demo_otp *demo_otp_new(bool shows_codes);

/* Accepts NULL. */
void demo_otp_free(struct demo_otp *otp);

/* POST /otp/send and POST /otp/verify; `self` is a struct demo_otp. */
enum weir_step demo_otp_send(void *self, struct weir_request *request);
enum weir_step demo_otp_verify(void *self, struct weir_request *request);

#endif
