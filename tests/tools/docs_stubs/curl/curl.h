/* As much of libcurl as the docs' examples use, in its own words, for machines that lack its headers:
 * check_docs looks here last. */
#ifndef CURL_CURL_H
#define CURL_CURL_H

#include <stddef.h>

typedef void CURL;

typedef enum { CURLE_OK = 0, CURLE_FAILED_INIT = 2, CURLE_COULDNT_CONNECT = 7 } CURLcode;
typedef enum { CURLINFO_RESPONSE_CODE = 0x200000 + 2 } CURLINFO;
typedef enum { CURLHE_OK } CURLHcode;

#define CURLH_HEADER (1 << 0)

struct curl_header {
    char *name;
    char *value;
    size_t amount;
    size_t index;
    unsigned int origin;
    void *anchor;
};

CURLcode curl_easy_perform(CURL *curl);
CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...);
CURLHcode curl_easy_header(CURL *easy, const char *name, size_t index, unsigned int origin,
                           int request, struct curl_header **hout);

#endif
