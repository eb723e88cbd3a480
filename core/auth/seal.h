/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed messages: the control messages of a rendezvous after the handshake, encrypted and
 * authenticated with AES-256-GCM (NIST SP 800-38D). The keys, one for each direction, are derived
 * from the handshake, and messages are numbered. An attacker on the path cannot read a message, nor
 * change, repeat, reorder or drop one unnoticed. TLS would do the same, with two more round trips
 * and some 40 KB of memory at rank 0 for each of perhaps thousands of ranks, for a few hundred
 * bytes.
 */
#ifndef RING_AUTH_SEAL_H
#define RING_AUTH_SEAL_H

#include "auth/handshake.h"

#define RING_SEAL_BYTES 16 /* the tag behind a message */

typedef struct ring_seal {
  ring_secret send_key, receive_key;
  uint64_t sent, received; /* messages */
} ring_seal;

/* After a handshake that is DONE. */
bool ring_seal_begin(ring_seal *seal, const ring_handshake *handshake);

/* Seals a message in place. RING_SEAL_BYTES behind it must be writable, for the tag. `head` travels
 * before it in the clear and is authenticated, too. False without memory: the message must not be
 * sent, and the next message gets its number. */
bool ring_seal_close(ring_seal *seal, const void *head, size_t head_length, void *message,
                     size_t length);

/* Opens a message of `length` bytes and its tag in place. RING_AUTH: it is not the message that
 * the other end sent next. RING_NO_MEMORY: it could not be verified. The message must not be
 * used then. */
ring_status ring_seal_open(ring_seal *seal, const void *head, size_t head_length, void *message,
                           size_t length);

void ring_seal_wipe(ring_seal *seal);

#endif
