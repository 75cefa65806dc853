/* The page for operators, in one piece: its style and its script are in it, and it fetches nothing
 * but the admin API next to it. */
#ifndef WEIR_ADMIN_DASHBOARD_H
#define WEIR_ADMIN_DASHBOARD_H

#include <weir/request.h>

/* Answers with the page, which is public: it holds no data, and asks for the token itself. False:
 * memory ran out. On the request's thread. */
bool weir_dashboard_reply(struct weir_request *request);

#endif
