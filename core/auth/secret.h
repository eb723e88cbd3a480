/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's secret. The token itself is only read to derive the job's key, which also covers the
 * job's name, size and addresses: ranks that differ in any of them cannot prove anything to each
 * other. All cryptography is OpenSSL's: HMAC-SHA256 (RFC 2104), X25519 (RFC 7748), its random
 * numbers and its constant-time comparison.
 */
#ifndef RING_AUTH_SECRET_H
#define RING_AUTH_SECRET_H

#include <stdbool.h>

#include "sparkring.h"

#define RING_SECRET_BYTES 32
#define RING_PUBLIC_BYTES 32

typedef struct ring_secret {
  uint8_t bytes[RING_SECRET_BYTES];
} ring_secret;

/* Fills bytes with cryptographically secure random numbers. */
bool ring_secret_random(void *bytes, size_t length);

/* *mac = HMAC-SHA256(key, data). */
bool ring_secret_mac(const ring_secret *key, const void *data, size_t length, ring_secret *mac);

/* *key becomes HMAC-SHA256(*key, data): binds a key to one more fact. */
bool ring_secret_bind(ring_secret *key, const void *data, size_t length);

/* The first key of a job, from its token (which may be empty). */
bool ring_secret_begin(ring_secret *key, const void *token, size_t length);

/* The public half of a private key, which is random bytes; and what two ranks both get from their
 * own private and the other's public half. X25519 (RFC 7748); false for a public half that would
 * make it the same for everybody. */
bool ring_secret_public(const ring_secret *own, uint8_t public[RING_PUBLIC_BYTES]);
bool ring_secret_agree(const ring_secret *own, const uint8_t public[RING_PUBLIC_BYTES],
                       ring_secret *shared);

/* In constant time. */
bool ring_secret_equal(const void *one, const void *other, size_t length);

void ring_secret_wipe(void *bytes, size_t length);

/* Zeroed memory that no core file has (ring_platform_pages), in whole pages. NULL without memory.
 * free wipes it; NULL is allowed. */
void *ring_secret_alloc(size_t bytes);
void ring_secret_free(void *memory, size_t bytes);

#endif
