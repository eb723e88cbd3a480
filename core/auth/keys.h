/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a communicator, all in one place: memory that no core file has, which is wiped when
 * the communicator ends. Everybody else points here.
 *
 * All ranks have the job's key, which comes from the token and from what they know of each other. Ranks
 * that meet through an exchange have more: each makes a pair of keys for this communicator alone
 * (X25519, RFC 7748) and tells the others the public one, and the key of two ranks is then what those
 * two alone can compute. So the channel of the exchange may be read by others, and Spark's is, unless
 * it is told to encrypt: they learn nothing from it. Whoever can change what it carries can still be
 * taken for a rank.
 *
 * The key of ranks a < b, with HKDF (RFC 5869) over HMAC-SHA256, the job's key as salt:
 *   Expand(Extract(job, X25519(a, b)), "sparkring pair 1", a u32, b u32, public a, public b)
 * It is made when it is first needed, and kept.
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
  ring_pair *pairs;  /* by rank, secret as well; NULL: the job's key is theirs */
  uint8_t (*publics)[RING_PUBLIC_BYTES]; /* by rank; NULL, as pairs */
} ring_keys;

/* Makes room for the job's key, which is 0 then. False without memory. */
bool ring_keys_init(ring_keys *keys, int rank, int size);

/* Makes this rank's pair, and room for those of all. False without memory, or when OpenSSL has no
 * X25519; *public is what to tell the others. */
bool ring_keys_generate(ring_keys *keys, uint8_t public[RING_PUBLIC_BYTES]);

/* What another rank has told. */
void ring_keys_set_public(ring_keys *keys, int rank, const uint8_t public[RING_PUBLIC_BYTES]);

/* The keys of a communicator of `members`, ranks of `parent`, made out of its parent's, and of
 * `facts` that no other has. `child` has been initialised for it. */
bool ring_keys_split(ring_keys *child, const ring_keys *parent, const int *members,
                     const void *facts, size_t length);

/* The key for what this rank and another one say to each other; NULL when there is none. */
const ring_secret *ring_keys_pair(const ring_keys *keys, int rank);

/* *mac = HMAC-SHA256(job's key, data). */
bool ring_keys_mac(const ring_keys *keys, const void *data, size_t length, ring_secret *mac);

/* Wipes and frees them. May be called twice. */
void ring_keys_wipe(ring_keys *keys);

#endif
