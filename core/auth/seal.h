/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed messages: what the two ends of a connection say after the handshake while the ranks meet,
 * encrypted and authenticated with AES-256-GCM (NIST SP 800-38D). The keys, one for each direction,
 * come from that handshake, and messages are numbered: whoever stands between the two can read none
 * of them, nor change, repeat, swap or leave out one without that being seen. TLS would do the same,
 * with two more round trips and some 40 KB for each of perhaps thousands of ranks at rank 0, for a few
 * hundred bytes.
 */
#ifndef RING_AUTH_SEAL_H
#define RING_AUTH_SEAL_H

#include "auth/handshake.h"

#define RING_SEAL_BYTES 16 /* a message is longer by that: its tag */

typedef struct ring_seal {
  ring_secret send_key, receive_key;
  uint64_t sent, received; /* messages */
} ring_seal;

/* After a handshake that is DONE. */
bool ring_seal_begin(ring_seal *seal, const ring_handshake *handshake);

/* Seals a message where it lies, with room for the tag behind it; `head` travels openly before it
 * and is protected, too. False without memory: then nothing may be sent of it, and the next
 * message has its number. */
bool ring_seal_close(ring_seal *seal, const void *head, size_t head_length, void *message,
                     size_t length);

/* Opens a message of `length` bytes and its tag where it lies. RING_AUTH when it is not what the
 * other end sent now, RING_NO_MEMORY when that cannot be told: then it holds nothing to be used. */
ring_status ring_seal_open(ring_seal *seal, const void *head, size_t head_length, void *message,
                           size_t length);

void ring_seal_wipe(ring_seal *seal);

#endif
