/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings, as the tests of the rendezvous try them: one that must succeed, one that must fail with
 * a certain text, ports of this machine that somebody else holds, and the first words of a rank
 * that is played.
 */
#ifndef RING_MEETINGS_H
#define RING_MEETINGS_H

#include "auth/handshake.h"
#include "rendezvous/message.h"

/* Checks that the communicator works: the sum over all ranks of 1 << rank. */
void check_ring(ring_comm *comm);

/* Opens, checks and closes. */
void open_check_close(const ring_options *options);

/* Checks that opening fails, and that the message contains `text`. Returns the rank at fault. */
int expect_failure(const ring_options *options, ring_status status, const char *text);

/* Ports in a row of 127.0.0.1 that were all free; those of `listeners` are held now. */
typedef struct held_ports {
  uint16_t first, last;
  int listeners[8];
  int held;
} held_ports;

/* `count` ports in a row, all but the last two of them held by listeners that accept nobody. */
held_ports hold_ports(int count);
void free_ports(held_ports *ports);

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
enum { TABLE_ROOM = 8192 };

typedef struct table {
  size_t length;
  uint8_t bytes[TABLE_ROOM];
} table;
table make_table(int size, int hosts, int width);

/* Open descriptors of this process, of those below 4,096. */
int count_descriptors(void);

/* Whether this process has mapped the memory of a host. */
bool arena_is_mapped(void);

#endif
