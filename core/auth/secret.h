/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets, and the functions of OpenSSL that the core uses: HMAC-SHA256 (RFC 2104), X25519 (RFC
 * 7748), random numbers and constant-time comparison. The token is read only to derive the job's
 * key, which also covers the job's name, size and addresses: ranks that differ in any of them fail
 * each other's proof.
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

/* False where another library of the process, loaded before, took the place of OpenSSL's functions
 * because its functions have the same names. *found becomes what that library calls itself. */
bool ring_secret_has_openssl(const char **found);

/* Fills bytes with cryptographically secure random numbers. */
bool ring_secret_random(void *bytes, size_t length);

/* *mac = HMAC-SHA256(key, data). */
bool ring_secret_mac(const ring_secret *key, const void *data, size_t length, ring_secret *mac);

/* *key becomes HMAC-SHA256(*key, data): binds the key to one more fact. */
bool ring_secret_bind(ring_secret *key, const void *data, size_t length);

/* The first key of a job, from its token (which may be empty). */
bool ring_secret_begin(ring_secret *key, const void *token, size_t length);

/* X25519: the public key of a private key, which is random bytes; and the secret that two ranks
 * share, from one's private and the other's public key. False for a public key that would make the
 * secret guessable. */
bool ring_secret_public(const ring_secret *own, uint8_t public[RING_PUBLIC_BYTES]);
bool ring_secret_agree(const ring_secret *own, const uint8_t public[RING_PUBLIC_BYTES],
                       ring_secret *shared);

/* In constant time. */
bool ring_secret_equal(const void *one, const void *other, size_t length);

void ring_secret_wipe(void *bytes, size_t length);

/* Zeroed memory that is in no core file (ring_platform_pages), in whole pages. NULL without memory.
 * free wipes it; NULL is allowed. */
void *ring_secret_alloc(size_t bytes);
void ring_secret_free(void *memory, size_t bytes);

#endif
