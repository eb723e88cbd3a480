/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/acceptor.h"

#include <errno.h>
#include <stdlib.h>

#include "base/platform.h"
#include "transport/socket.h"

#define ACCEPTOR_TIMEOUT_NS UINT64_C(5000000000)      /* from accept to the end of the handshake */
#define ACCEPTOR_TIMEOUT_FULL_NS UINT64_C(200000000)  /* the same, while the acceptor is full */
#define ACCEPTOR_TIMEOUT_SILENT_NS UINT64_C(25000000) /* the same, before HELLO was received */

ring_status ring_acceptor_open(ring_acceptor *acceptor, int listener, int rank, int size,
                               const ring_keys *keys) {
  *acceptor = (ring_acceptor){.listener = listener, .rank = rank, .size = size, .keys = keys};
  acceptor->pending = calloc(RING_ACCEPTOR_PENDING, sizeof *acceptor->pending);
  return acceptor->pending == NULL ? RING_NO_MEMORY : RING_OK;
}

/* Removes a pending connection, and closes its descriptor unless that was handed over (-1). */
static void acceptor_remove(ring_acceptor *acceptor, int index) {
  ring_handshake *handshake = &acceptor->pending[index].handshake;
  ring_socket_close(&handshake->fd);
  acceptor->pending[index] = acceptor->pending[--acceptor->pending_count];
}

int ring_acceptor_release(ring_acceptor *acceptor) {
  int listener = acceptor->listener;
  while (acceptor->pending_count > 0) acceptor_remove(acceptor, 0);
  acceptor->listener = -1;
  free(acceptor->pending);
  acceptor->pending = NULL;
  return listener;
}

void ring_acceptor_close(ring_acceptor *acceptor) {
  int listener = ring_acceptor_release(acceptor);
  ring_socket_close(&listener);
}

/* When a pending connection times out while the acceptor is full. A rank sends HELLO as soon as it
 * is connected, so silent connections time out fast: a rank behind thousands of them waits for a
 * moment. */
static uint64_t acceptor_expires(const ring_pending_connection *pending) {
  return pending->accepted +
         (pending->handshake.turn > 0 ? ACCEPTOR_TIMEOUT_FULL_NS : ACCEPTOR_TIMEOUT_SILENT_NS);
}

/* The index of the pending connection that times out first. */
static int acceptor_next_to_expire(const ring_acceptor *acceptor) {
  int first = 0;
  for (int i = 1; i < acceptor->pending_count; i++)
    if (acceptor_expires(&acceptor->pending[i]) < acceptor_expires(&acceptor->pending[first]))
      first = i;
  return first;
}

/* Nanoseconds until a pending connection times out, when the acceptor is full; else 0. When the
 * system has no further descriptors, the pending connections fill the acceptor, however few they
 * are. */
static uint64_t acceptor_full_for(const ring_acceptor *acceptor) {
  bool full = acceptor->pending_count == RING_ACCEPTOR_PENDING ||
              (acceptor->exhausted != 0 && acceptor->pending_count > 0);
  if (!full) return 0;
  uint64_t now = ring_platform_now();
  uint64_t ends = acceptor_expires(&acceptor->pending[acceptor_next_to_expire(acceptor)]);
  return now > ends ? 0 : ends - now + 1;
}

bool ring_acceptor_drop(ring_acceptor *acceptor) {
  if (acceptor->pending_count == 0) return false;
  acceptor_remove(acceptor, acceptor_next_to_expire(acceptor));
  return true;
}

void ring_acceptor_watch(ring_acceptor *acceptor, ring_poll_set *poll_set) {
  uint64_t full_for = acceptor_full_for(acceptor);
  bool opens = acceptor->exhausted == 0 && full_for == 0;
  acceptor->slot = ring_poll_set_add(poll_set, acceptor->listener, opens ? POLLIN : 0);
  if (full_for > 0) ring_poll_set_hurry(poll_set, (int)(full_for / 1000000) + 1);
  for (int i = 0; i < acceptor->pending_count; i++) {
    ring_pending_connection *pending = &acceptor->pending[i];
    bool writing = pending->handshake.state == RING_HANDSHAKE_WRITING;
    pending->slot = ring_poll_set_add(poll_set, pending->handshake.fd, writing ? POLLOUT : POLLIN);
  }
}

/* Advances the handshake of a pending connection. True while it stays pending. */
static bool acceptor_advance(ring_acceptor *acceptor, ring_pending_connection *pending) {
  ring_handshake *handshake = &pending->handshake;
  ring_handshake_state state = ring_handshake_advance(handshake);
  if (state == RING_HANDSHAKE_CLAIMED) {
    ring_handshake_answer(handshake, acceptor->judge(acceptor->owner, &handshake->claim));
    state = ring_handshake_advance(handshake);
  }
  if (state == RING_HANDSHAKE_LOST && handshake->system_errno == ENOMEM) acceptor->lacked = ENOMEM;
  if (state == RING_HANDSHAKE_DONE) {
    acceptor->admit(acceptor->owner, handshake);
    acceptor->lacked = 0;
    handshake->fd = -1;
    return false;
  }
  return state == RING_HANDSHAKE_READING || state == RING_HANDSHAKE_WRITING;
}

static void acceptor_accept(ring_acceptor *acceptor) {
  for (int i = 0; i < RING_ACCEPTOR_PENDING && acceptor_full_for(acceptor) == 0; i++) {
    int fd = ring_socket_accept(acceptor->listener);
    bool exhausted = ring_socket_lacks(-fd) || fd == -EPERM || fd == -ENOSYS;
    acceptor->exhausted = exhausted ? -fd : 0;
    if (exhausted) acceptor->lacked = -fd;
    if (exhausted && acceptor->pending_count > 0 && acceptor_full_for(acceptor) == 0) {
      acceptor_remove(acceptor, acceptor_next_to_expire(acceptor));
      continue;
    }
    if (fd < 0) return;
    if (acceptor->pending_count == RING_ACCEPTOR_PENDING)
      acceptor_remove(acceptor, acceptor_next_to_expire(acceptor));
    ring_pending_connection *pending = &acceptor->pending[acceptor->pending_count];
    *pending = (ring_pending_connection){.accepted = ring_platform_now()};
    acceptor->pending_count++;
    bool ready = ring_handshake_accept(&pending->handshake, fd, acceptor->keys, acceptor->rank,
                                       acceptor->size, acceptor->encrypted);
    acceptor->starved = !ready;
    if (!ready || !acceptor_advance(acceptor, pending))
      acceptor_remove(acceptor, acceptor->pending_count - 1);
  }
}

void ring_acceptor_serve(ring_acceptor *acceptor, const ring_poll_set *poll_set) {
  uint64_t now = ring_platform_now();
  for (int i = acceptor->pending_count - 1; i >= 0; i--) {
    ring_pending_connection *pending = &acceptor->pending[i];
    bool stays =
        !ring_poll_set_ready(poll_set, pending->slot) || acceptor_advance(acceptor, pending);
    if (!stays || now - pending->accepted > ACCEPTOR_TIMEOUT_NS) acceptor_remove(acceptor, i);
  }
  if (acceptor->exhausted != 0 || ring_poll_set_ready(poll_set, acceptor->slot))
    acceptor_accept(acceptor);
}
