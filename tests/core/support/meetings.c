/* SPDX-License-Identifier: Apache-2.0 */
#include "meetings.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "check.h"
#include "ranks.h"
#include "transport/socket.h"

void check_ring(ring_comm *comm) {
  int64_t x = INT64_C(1) << ring_comm_rank(comm);
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(x, (INT64_C(1) << ring_comm_size(comm)) - 1);
}

void open_check_close(const ring_options *options) {
  ring_comm *comm = open_with(options);
  check_ring(comm);
  close_rank(comm);
}

int expect_failure(const ring_options *options, ring_status status, const char *text) {
  ring_comm *comm;
  ring_error error;
  ring_status got = ring_comm_open(options, &comm, &error);
  if (got != status) fprintf(stderr, "rank %d: %s\n", options->rank, error.message);
  CHECK_INT(got, status);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
  return error.rank;
}

/* Ranks that are forked later would give up a listener of the core's. */
static int listen_for_children(uint16_t port) {
  int given_up = ring_socket_listen("127.0.0.1", port), fd = -1;
  if (given_up >= 0) fd = fcntl(given_up, F_DUPFD_CLOEXEC, 0);
  ring_socket_close(&given_up);
  return fd;
}

/* Below the ports that systems hand out by themselves, and below those of the rendezvous. Tests that run at
 * the same time look in different places, as some let go of their ports before their ranks take them. */
held_ports hold_ports(int count) {
  enum { FIRST = 12000, BLOCK = 8, BLOCKS = 1000 };
  CHECK(count <= BLOCK);
  for (int tries = 0; tries < BLOCKS; tries++) {
    uint16_t first = (uint16_t)(FIRST + BLOCK * ((getpid() + tries) % BLOCKS));
    held_ports ports = {.first = first, .last = (uint16_t)(first + count - 1)};
    int fd = 0;
    for (int i = 0; i < count && fd >= 0; i++) {
      fd = listen_for_children((uint16_t)(first + i));
      if (fd >= 0) ports.listeners[ports.held++] = fd;
    }
    bool all = fd >= 0;
    while (ports.held > (all ? count - 2 : 0)) close(ports.listeners[--ports.held]);
    if (all) return ports;
  }
  CHECK(!"no free ports");
  return (held_ports){0};
}

void free_ports(held_ports *ports) {
  while (ports->held > 0) close(ports->listeners[--ports->held]);
}

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
  CHECK(made.length <= TABLE_ROOM);
  return made;
}

int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 4096; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

bool arena_is_mapped(void) {
  char line[512];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, "memfd:sparkring") != NULL;
  fclose(maps);
  return found;
}
