/* SPDX-License-Identifier: Apache-2.0 */
#include "actor.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "check.h"
#include "ranks.h"
#include "rendezvous/address_table.h"
#include "transport/socket.h"

ring_options scene_options(const scene *scene, int rank) {
  static char token[] = "a token for actors";
  ring_options options = rank_options(rank, ACT_RANKS);
  options.token = token;
  options.token_length = sizeof token;
  options.timeout = scene->timeout;
  return options;
}

static void act_receive(int fd, void *bytes, size_t length) {
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  for (size_t have = 0; have < length;) {
    CHECK_INT(poll(&entry, 1, 10000), 1);
    ssize_t got = recv(fd, (uint8_t *)bytes + have, length - have, 0);
    CHECK(got > 0);
    have += (size_t)got;
  }
}

void act_send(int fd, ring_seal *seal, const ring_message *message) {
  uint8_t wire[MESSAGE_WIRE_BYTES];
  size_t length = seal_message(seal, message, wire);
  CHECK_INT(send(fd, wire, length, MSG_NOSIGNAL), length);
}

void act_await_end(int fd) {
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  char rest[256];
  while (poll(&entry, 1, 10000) == 1 && recv(fd, rest, sizeof rest, 0) > 0) {
  }
}

/* Knocks on a port; a descriptor, or -1 when rank 0 is not there. */
static int act_connect(actor *self, int port) {
  ring_claim claim = {
      .purpose = RING_PURPOSE_RENDEZVOUS, .rank = self->rendezvous.rank, .size = ACT_RANKS};
  ring_resolved resolved;
  ring_handshake handshake;
  CHECK_INT(ring_socket_resolve("127.0.0.1", self->rendezvous.ports[port], &resolved), 0);
  int fd = ring_socket_connect(&resolved, 0);
  if (fd < 0) return -1;
  CHECK(ring_handshake_connect(&handshake, fd, &self->keys, &claim, 0));
  if (shake_hands(&handshake) && ring_seal_begin(&self->seal, &handshake)) return fd;
  ring_socket_close(&fd);
  return -1;
}

actor act_as_client(const scene *scene) {
  ring_options options = scene_options(scene, scene->actor);
  actor self = {.root = -1};
  self.rendezvous = begin_rendezvous(&options, &self.keys);
  self.listener = ring_socket_listen("127.0.0.1", 0);
  for (int i = 0; self.root < 0; i++) {
    CHECK(i < 100 * RING_RENDEZVOUS_PORTS);
    self.root = act_connect(&self, i % RING_RENDEZVOUS_PORTS);
    if (i % RING_RENDEZVOUS_PORTS == 0) usleep(10000);
  }
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES], head[RING_MESSAGE_LENGTH_BYTES];
  uint8_t welcome[RING_MESSAGE_HEAD_BYTES + 8 + 2 + 1 + 9 + RING_SEAL_BYTES];
  uint8_t *to = bytes_put(join, (uint64_t)ring_socket_port(self.listener), 2);
  bytes_put(to, (uint64_t)(scene->timeout * 1000), 4);
  CHECK(ring_seal_close(&self.seal, NULL, 0, join, RING_JOIN_BYTES));
  CHECK_INT(send(self.root, join, sizeof join, MSG_NOSIGNAL), sizeof join);
  act_receive(self.root, head, sizeof head);
  act_receive(self.root, welcome, sizeof welcome);
  CHECK_INT(
      ring_seal_open(&self.seal, head, sizeof head, welcome, sizeof welcome - RING_SEAL_BYTES),
      RING_OK);
  const uint8_t *from = welcome + RING_MESSAGE_HEAD_BYTES;
  self.epoch = bytes_get(&from, 8);
  return self;
}

int act_accept(const actor *self, int rank, ring_claim *claim, ring_seal *seal) {
  struct pollfd entry = {.fd = self->listener, .events = POLLIN};
  ring_handshake handshake;
  int fd = -1;
  for (bool ours = false; !ours;) {
    ring_socket_close(&fd);
    CHECK_INT(poll(&entry, 1, 10000), 1);
    fd = ring_socket_accept(self->listener);
    CHECK(ring_handshake_accept(&handshake, fd, &self->keys, rank, ACT_RANKS, false));
    ours = shake_hands(&handshake);
  }
  CHECK(ring_seal_begin(seal, &handshake));
  *claim = handshake.claim;
  return fd;
}

actor act_as_rank_0(const scene *scene) {
  ring_options options = scene_options(scene, 0);
  actor self = {.listener = -1};
  int fds[ACT_RANKS];
  ring_seal seals[ACT_RANKS];
  self.rendezvous = begin_rendezvous(&options, &self.keys);
  for (int i = 0; i < RING_RENDEZVOUS_PORTS && self.listener < 0; i++)
    self.listener = ring_socket_listen("127.0.0.1", self.rendezvous.ports[i]);
  CHECK(self.listener >= 0);
  uint64_t ports[ACT_RANKS] = {(uint64_t)ring_socket_port(self.listener)};
  for (int i = 1; i < ACT_RANKS; i++) {
    uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
    const uint8_t *from = join;
    ring_claim claim;
    ring_seal seal;
    int fd = act_accept(&self, 0, &claim, &seal);
    act_receive(fd, join, sizeof join);
    CHECK_INT(ring_seal_open(&seal, NULL, 0, join, RING_JOIN_BYTES), RING_OK);
    fds[claim.rank] = fd;
    seals[claim.rank] = seal;
    ports[claim.rank] = bytes_get(&from, 2);
  }
  for (int rank = 1; rank < ACT_RANKS; rank++) {
    ring_message message = {.fault = -1};
    uint8_t *to = bytes_put(message.body, 7, 8);
    to = bytes_put(to, ports[ring_address_table_parent(rank)], 2);
    message.length = (size_t)(ring_address_pack(to, "127.0.0.1") - message.body);
    act_send(fds[rank], &seals[rank], &message);
  }
  return self;
}
