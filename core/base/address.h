/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses as people and schedulers write them: text in, host and port out, nothing looked up.
 *
 *   host   host:port   [v6]:port   [v6]   v6 (two or more colons)
 */
#ifndef RING_BASE_ADDRESS_H
#define RING_BASE_ADDRESS_H

#include <stdbool.h>

#include "sparkring.h"

/* Bytes that hold the longest host name (253, RFC 1035 section 2.3.4) and its end. */
#define RING_HOST_BYTES 254

/* Splits text into host (without brackets) and port, -1 where there is none. On RING_INVALID
 * *error (which may be NULL) quotes the text, and host and port are not to be used. */
ring_status ring_address_parse(const char *text, char *host, size_t host_size, int *port,
                               ring_error *error);

/* A host on the wire: length u8, text. pack returns the position behind it; unpack moves *from
 * there, and is false when what lies before `end` is no host. */
uint8_t *ring_address_pack(uint8_t *to, const char *host);
bool ring_address_unpack(const uint8_t **from, const uint8_t *end, char host[RING_HOST_BYTES]);

/* Untrusted text made fit for a message: in quotes, at most 64 characters ("..." marks a cut),
 * with '?' for every byte that is not printable ASCII. */
typedef struct ring_quoted {
  char text[72];
} ring_quoted;

ring_quoted ring_quote(const char *text);

#endif
