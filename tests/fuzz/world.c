/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "transport/resolver.h"

enum { WORLD_CONNECTIONS = 64, WORLD_PORT = 4242, WORLD_MOST_BYTES = 65536 };

/* The other end of a connection. */
typedef struct world_other {
  int fd;
  input later; /* at NULL: it has sent everything */
} world_other;

typedef struct world_guest {
  int connection;
  ring_claim claim;
} world_guest;

static struct {
  uint64_t now;
  bool real_handshakes;
  world_other others[WORLD_CONNECTIONS];
  int other_count;
  world_guest pending[WORLD_CONNECTIONS];
  int pending_count, guests_taken;
  int dials[WORLD_CONNECTIONS], dial_count, dials_taken;
  bool stays;
} world = {.now = 1000000000};

static world_other *world_pair(int *end) {
  int ends[2];
  FUZZ_PROMISE(world.other_count < WORLD_CONNECTIONS);
  FUZZ_PROMISE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  *end = ends[0];
  world.others[world.other_count] = (world_other){.fd = ends[1]};
  return &world.others[world.other_count++];
}

static void world_send(const world_other *other, input first) {
  input most = input_cut(&first, WORLD_MOST_BYTES);
  if (most.left > 0) send(other->fd, most.at, most.left, MSG_NOSIGNAL);
}

int world_connection(input first, input later) {
  int end;
  world_other *other = world_pair(&end);
  world_send(other, first);
  if (later.left > 0)
    other->later = later;
  else if (!world.stays)
    shutdown(other->fd, SHUT_WR);
  return end;
}

/* Everybody waits: each other end sends what it has left. */
static bool world_go_on(void) {
  bool sent = false;
  for (int i = 0; i < world.other_count; i++) {
    world_other *other = &world.others[i];
    if (other->later.at == NULL) continue;
    world_send(other, other->later);
    if (!world.stays) shutdown(other->fd, SHUT_WR);
    other->later = (input){0};
    sent = true;
  }
  return sent;
}

void world_accepts(int connection, ring_claim claim) {
  FUZZ_PROMISE(world.pending_count < WORLD_CONNECTIONS);
  world.pending[world.pending_count++] = (world_guest){connection, claim};
}

void world_dials(int connection) {
  FUZZ_PROMISE(world.dial_count < WORLD_CONNECTIONS);
  world.dials[world.dial_count++] = connection;
}

void world_stays(void) {
  world.stays = true;
}

void world_shakes_hands(bool really) {
  world.real_handshakes = really;
}

void world_end(void) {
  while (world.other_count > 0) close(world.others[--world.other_count].fd);
  for (; world.guests_taken < world.pending_count; world.guests_taken++)
    close(world.pending[world.guests_taken].connection);
  for (; world.dials_taken < world.dial_count; world.dials_taken++)
    close(world.dials[world.dials_taken]);
  world.stays = false;
  world.pending_count = world.guests_taken = world.dial_count = world.dials_taken = 0;
}

/* ---- The clock ---------------------------------------------------------------------------- */

int __real_poll(struct pollfd *entries, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds);
uint64_t __wrap_ring_platform_now(void);

/* Takes a millisecond even when something is there. */
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds) {
  int ready = __real_poll(entries, count, 0);
  if (ready == 0 && world_go_on()) ready = __real_poll(entries, count, 0);
  int slept = ready == 0 && milliseconds > 1 ? milliseconds : 1;
  world.now += (uint64_t)slept * UINT64_C(1000000);
  return ready;
}

uint64_t __wrap_ring_platform_now(void) {
  return world.now += 1000;
}

/* ---- Sockets ------------------------------------------------------------------------------ */

ring_resolver_answer __wrap_ring_resolver_ask(ring_resolver **resolver, const char *host,
                                              uint16_t port, ring_resolved *resolved,
                                              const char **reason);
int __wrap_ring_socket_listen(const char *host, uint16_t port);
int __wrap_ring_socket_port(int fd);
int __wrap_ring_socket_accept(int listener);
int __wrap_ring_socket_connect(const ring_resolved *resolved, int index);
int __wrap_ring_socket_failure(int fd);
bool __wrap_ring_socket_peer_host(int fd, char *text, size_t size);

ring_resolver_answer __wrap_ring_resolver_ask(ring_resolver **resolver, const char *host,
                                              uint16_t port, ring_resolved *resolved,
                                              const char **reason) {
  (void)resolver, (void)port;
  *resolved = (ring_resolved){.count = 1};
  *reason = "there is no such host";
  return host[0] == 'x' ? RING_RESOLVER_FAILED : RING_RESOLVER_FOUND;
}

int __wrap_ring_socket_listen(const char *host, uint16_t port) {
  int end;
  (void)host, (void)port;
  world_other *other = world_pair(&end);
  if (world.guests_taken < world.pending_count) world_send(other, (input){(const uint8_t *)"", 1});
  return end;
}

int __wrap_ring_socket_port(int fd) {
  (void)fd;
  return WORLD_PORT;
}

int __wrap_ring_socket_accept(int listener) {
  char knock;
  if (world.guests_taken < world.pending_count)
    return world.pending[world.guests_taken++].connection;
  recv(listener, &knock, 1, 0); /* nobody is left */
  return -EAGAIN;
}

int __wrap_ring_socket_connect(const ring_resolved *resolved, int index) {
  (void)resolved, (void)index;
  return world.dials_taken < world.dial_count ? world.dials[world.dials_taken++] : -ECONNREFUSED;
}

int __wrap_ring_socket_failure(int fd) {
  (void)fd;
  return 0;
}

bool __wrap_ring_socket_peer_host(int fd, char *text, size_t size) {
  snprintf(text, size, "10.0.0.%d", fd % 4);
  return true;
}

/* ---- Handshakes --------------------------------------------------------------------------- */

bool __wrap_ring_secret_random(void *bytes, size_t length);
ring_handshake_state __real_ring_handshake_advance(ring_handshake *handshake);
ring_handshake_state __wrap_ring_handshake_advance(ring_handshake *handshake);

bool __wrap_ring_secret_random(void *bytes, size_t length) {
  memset(bytes, 0x11, length);
  return true;
}

static const ring_claim *world_claim(int fd) {
  for (int i = world.guests_taken; i-- > 0;)
    if (world.pending[i].connection == fd) return &world.pending[i].claim;
  return NULL;
}

ring_handshake_state __wrap_ring_handshake_advance(ring_handshake *handshake) {
  if (world.real_handshakes) return __real_ring_handshake_advance(handshake);
  const ring_claim *claim = handshake->accepting ? world_claim(handshake->fd) : NULL;
  if (handshake->accepting && claim == NULL) return handshake->state = RING_HANDSHAKE_LOST;
  if (handshake->accepting && handshake->state != RING_HANDSHAKE_WRITING) {
    handshake->claim = *claim;
    return handshake->state = RING_HANDSHAKE_CLAIMED;
  }
  bool welcome = handshake->answer == RING_ANSWER_ACCEPTED;
  return handshake->state = welcome ? RING_HANDSHAKE_DONE : RING_HANDSHAKE_REFUSED;
}
