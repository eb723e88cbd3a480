/* SPDX-License-Identifier: Apache-2.0
 *
 * The rendezvous on the wire, as the tests play it: handshakes, messages and address tables.
 */
#ifndef RING_WIRE_H
#define RING_WIRE_H

#include "auth/handshake.h"
#include "rendezvous/message.h"

/* The key and the ports of a job on 127.0.0.1, as its ranks derive them. */
ring_rendezvous begin_rendezvous(const ring_options *options, ring_keys *keys);

/* Takes a handshake that was begun to its end, with a welcome for whoever claims to be a rank.
 * False when the other side does not. */
bool shake_hands(ring_handshake *handshake);

/* A message as it travels; its length. `message` has MESSAGE_WIRE_BYTES. */
enum {
  MESSAGE_WIRE_BYTES = RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES +
  RING_MESSAGE_TEXT_BYTES + RING_SEAL_BYTES
};
size_t seal_message(ring_seal *seal, const ring_message *message, uint8_t *wire);

/* A table of places (see address_table.h) without its length and its HMAC: rank r on host r % hosts, port 1000 + r.
 * width is that of a host's index. */
enum { TABLE_BYTES = 8192 };

typedef struct table {
  size_t length;
  uint8_t bytes[TABLE_BYTES];
} table;
table make_table(int size, int hosts, int width);

#endif
