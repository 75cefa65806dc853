#include "admin/dashboard.h"

#include "admin/dashboard_page.h"

#define PAGE_TYPE "text/html; charset=utf-8"

/* "no-cache": a page of one version does not know the API of another. The rest keeps the page from
 * being framed by, or opened from, another that waits for a click on "Block". */
static const char *const page_lines[][2] = {
    { "Content-Security-Policy", weir_dashboard_csp },
    { "Cache-Control", "no-cache" },
    { "X-Content-Type-Options", "nosniff" },
    { "X-Frame-Options", "DENY" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
};

bool weir_dashboard_reply(struct weir_request *request)
{
    if (!weir_reply_bytes(request, 200, PAGE_TYPE, weir_dashboard_page,
                          sizeof weir_dashboard_page - 1))
        return false;
    for (size_t i = 0; i < sizeof page_lines / sizeof page_lines[0]; i++)
        if (!weir_reply_line(request, page_lines[i][0], page_lines[i][1]))
            return false;
    return true;
}
