/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a communicator, in memory that is in no core file and is wiped when the communicator
 * ends. All other code holds pointers to them.
 *
 * All ranks have the job's key, derived from the token and from what they know of each other. With
 * an exchange, each rank also makes a key pair for this communicator alone (X25519, RFC 7748) and
 * publishes its public key. So two ranks share a key that no other rank can compute. The channel
 * of the exchange need not be secret; Spark's is not, unless it is configured to encrypt. An
 * attacker that can change the strings of the exchange can still pass for a rank.
 *
 * The key of ranks a < b, with HKDF (RFC 5869) over HMAC-SHA256, the job's key as salt:
 *   Expand(Extract(job, X25519(a, b)), "sparkring pair 1", a u32, b u32, public a, public b)
 * It is computed when it is first needed, and kept.
 */
#ifndef RING_AUTH_KEYS_H
#define RING_AUTH_KEYS_H

#include "auth/secret.h"

/* In memory of ring_secret_alloc. */
typedef struct ring_vault {
  ring_secret job;
  ring_secret own; /* the private half of this rank's pair */
} ring_vault;

typedef struct ring_pair {
  bool known;
  ring_secret key;
} ring_pair;

typedef struct ring_keys {
  int rank, size;
  ring_vault *vault; /* NULL: wiped */
  ring_pair
      *pairs; /* by rank, in memory of ring_secret_alloc; NULL: every pair uses the job's key */
  uint8_t (*publics)[RING_PUBLIC_BYTES]; /* by rank; NULL if pairs is */
} ring_keys;

/* Allocates the job's key, as zeros. False without memory. */
bool ring_keys_init(ring_keys *keys, int rank, int size);

/* Makes this rank's key pair, and allocates the keys of all pairs. `public` is the key to publish.
 * False without memory, or when OpenSSL has no X25519. */
bool ring_keys_generate(ring_keys *keys, uint8_t public[RING_PUBLIC_BYTES]);

/* Sets the public key of another rank. */
void ring_keys_set_public(ring_keys *keys, int rank, const uint8_t public[RING_PUBLIC_BYTES]);

/* Derives the keys of a communicator of `members`, ranks of `parent`, from the parent's keys and
 * from `facts` that are unique to it. `child` has been initialised. */
bool ring_keys_split(ring_keys *child, const ring_keys *parent, const int *members,
                     const void *facts, size_t length);

/* The key that this rank shares with another rank; NULL when there is none. */
const ring_secret *ring_keys_pair(const ring_keys *keys, int rank);

/* *mac = HMAC-SHA256(job's key, data). */
bool ring_keys_mac(const ring_keys *keys, const void *data, size_t length, ring_secret *mac);

/* Wipes and frees them. May be called twice. */
void ring_keys_wipe(ring_keys *keys);

#endif
