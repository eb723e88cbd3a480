/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <poll.h>

#include "base/address.h"
#include "base/bytes.h"
#include "check.h"
#include "ranks.h"

ring_rendezvous begin_rendezvous(const ring_options *options, ring_keys *keys) {
  static const char *hosts[RANKS_MAX];
  for (int rank = 0; rank < options->size; rank++) hosts[rank] = "127.0.0.1";
  ring_rendezvous rendezvous = {.rank = options->rank,
                                .size = options->size,
                                .hosts = hosts,
                                .root_host = hosts[0],
                                .job = "",
                                .token = options->token,
                                .token_length = options->token_length};
  CHECK(ring_keys_init(keys, options->rank, options->size));
  CHECK(ring_rendezvous_begin(&rendezvous, keys));
  return rendezvous;
}

bool shake_hands(ring_handshake *handshake) {
  while (ring_handshake_advance(handshake) != RING_HANDSHAKE_DONE) {
    bool writes = handshake->state == RING_HANDSHAKE_WRITING;
    struct pollfd entry = {.fd = handshake->fd, .events = writes ? POLLOUT : POLLIN};
    if (handshake->state == RING_HANDSHAKE_CLAIMED)
      ring_handshake_answer(handshake, RING_ANSWER_ACCEPTED);
    else if (handshake->state > RING_HANDSHAKE_CLAIMED || poll(&entry, 1, 1000) != 1)
      return false;
  }
  return true;
}

size_t seal_message(ring_seal *seal, const ring_message *message, uint8_t *wire) {
  size_t length = RING_MESSAGE_HEAD_BYTES + message->length;
  uint8_t *sealed = bytes_put(wire, length + RING_SEAL_BYTES, RING_MESSAGE_LENGTH_BYTES);
  uint8_t *to = bytes_put(bytes_put(sealed, message->status, 1), (uint32_t)message->fault, 4);
  memcpy(to, message->body, message->length);
  CHECK(ring_seal_close(seal, wire, RING_MESSAGE_LENGTH_BYTES, sealed, length));
  return RING_MESSAGE_LENGTH_BYTES + length + RING_SEAL_BYTES;
}

table make_table(int size, int hosts, int width) {
  table made;
  char host[32];
  uint8_t *to = bytes_put(made.bytes, (uint64_t)hosts, 4);
  for (int i = 0; i < hosts; i++) {
    snprintf(host, sizeof host, "host-%d", i);
    to = ring_address_pack(to, host);
  }
  for (int rank = 0; rank < size; rank++) {
    to = bytes_put(to, (uint64_t)(rank % hosts), width);
    to = bytes_put(to, 1000 + (uint64_t)rank, 2);
  }
  made.length = (size_t)(to - made.bytes);
  CHECK(made.length <= TABLE_BYTES);
  return made;
}
