/* SPDX-License-Identifier: Apache-2.0 */
#include "porch.h"

#include <errno.h>
#include <stdlib.h>

#include "platform.h"
#include "socket.h"

#define PORCH_PATIENCE_NS UINT64_C(5000000000) /* for a guest to prove itself */
#define PORCH_COURTESY_NS UINT64_C(200000000)  /* the same, when others wait for the place */
#define PORCH_SILENCE_NS UINT64_C(25000000)    /* the same, for one who has not said HELLO yet */

ring_status ring_porch_open(ring_porch *porch, int listener, int rank, int size,
                            const ring_keys *keys) {
  *porch = (ring_porch){.listener = listener, .rank = rank, .size = size, .keys = keys};
  porch->guests = calloc(RING_PORCH_GUESTS, sizeof *porch->guests);
  return porch->guests == NULL ? RING_NO_MEMORY : RING_OK;
}

/* Takes a guest off the porch; its descriptor is closed unless somebody took it over. */
static void porch_remove(ring_porch *porch, int index) {
  ring_handshake *handshake = &porch->guests[index].handshake;
  ring_socket_close(&handshake->fd);
  porch->guests[index] = porch->guests[--porch->guest_count];
}

void ring_porch_close(ring_porch *porch) {
  while (porch->guest_count > 0) porch_remove(porch, 0);
  ring_socket_close(&porch->listener);
  free(porch->guests);
  porch->guests = NULL;
}

/* Until when a guest may stay although others wait. A rank says HELLO as soon as it is connected, so
 * those who do not are passed through fast: of thousands, ranks wait among them for a moment. */
static uint64_t porch_welcome_ends(const ring_guest *guest) {
  return guest->came + (guest->handshake.turn > 0 ? PORCH_COURTESY_NS : PORCH_SILENCE_NS);
}

/* The guest who has to go first. */
static int porch_first(const ring_porch *porch) {
  int first = 0;
  for (int i = 1; i < porch->guest_count; i++)
    if (porch_welcome_ends(&porch->guests[i]) < porch_welcome_ends(&porch->guests[first]))
      first = i;
  return first;
}

/* Nanoseconds until there is a place, or a guest who has had the time to prove itself and did not. Where
 * descriptors ran out, those of the guests are all the places there are. */
static uint64_t porch_full_for(const ring_porch *porch) {
  bool full =
      porch->guest_count == RING_PORCH_GUESTS || (porch->exhausted != 0 && porch->guest_count > 0);
  if (!full) return 0;
  uint64_t now = ring_platform_now();
  uint64_t ends = porch_welcome_ends(&porch->guests[porch_first(porch)]);
  return now > ends ? 0 : ends - now + 1;
}

bool ring_porch_spare(ring_porch *porch) {
  if (porch->guest_count == 0) return false;
  porch_remove(porch, porch_first(porch));
  return true;
}

void ring_porch_watch(ring_porch *porch, ring_poller *poller) {
  uint64_t full_for = porch_full_for(porch);
  bool opens = porch->exhausted == 0 && full_for == 0;
  porch->slot = ring_poller_add(poller, porch->listener, opens ? POLLIN : 0);
  if (full_for > 0) ring_poller_hurry(poller, (int)(full_for / 1000000) + 1);
  for (int i = 0; i < porch->guest_count; i++) {
    ring_guest *guest = &porch->guests[i];
    bool writing = guest->handshake.state == RING_HANDSHAKE_WRITING;
    guest->slot = ring_poller_add(poller, guest->handshake.fd, writing ? POLLOUT : POLLIN);
  }
}

/* Hears one guest; true while it stays. */
static bool porch_hear(ring_porch *porch, ring_guest *guest) {
  ring_handshake *handshake = &guest->handshake;
  ring_handshake_state state = ring_handshake_advance(handshake);
  if (state == RING_HANDSHAKE_CLAIMED) {
    ring_handshake_answer(handshake, porch->judge(porch->owner, &handshake->claim));
    state = ring_handshake_advance(handshake);
  }
  if (state == RING_HANDSHAKE_LOST && handshake->system_errno == ENOMEM) porch->lacked = ENOMEM;
  if (state == RING_HANDSHAKE_DONE) {
    porch->admit(porch->owner, handshake);
    porch->lacked = 0;
    handshake->fd = -1;
    return false;
  }
  return state == RING_HANDSHAKE_READING || state == RING_HANDSHAKE_WRITING;
}

static void porch_let_in(ring_porch *porch) {
  for (int i = 0; i < RING_PORCH_GUESTS && porch_full_for(porch) == 0; i++) {
    int fd = ring_socket_accept(porch->listener);
    bool exhausted = ring_socket_lacks(-fd) || fd == -EPERM || fd == -ENOSYS;
    porch->exhausted = exhausted ? -fd : 0;
    if (exhausted) porch->lacked = -fd;
    if (exhausted && porch->guest_count > 0 && porch_full_for(porch) == 0) {
      porch_remove(porch, porch_first(porch));
      continue;
    }
    if (fd < 0) return;
    if (porch->guest_count == RING_PORCH_GUESTS) porch_remove(porch, porch_first(porch));
    ring_guest *guest = &porch->guests[porch->guest_count];
    *guest = (ring_guest){.came = ring_platform_now()};
    porch->guest_count++;
    bool ready = ring_handshake_accept(&guest->handshake, fd, porch->keys, porch->rank, porch->size,
                                       porch->encrypted);
    porch->starved = !ready;
    if (!ready || !porch_hear(porch, guest)) porch_remove(porch, porch->guest_count - 1);
  }
}

void ring_porch_serve(ring_porch *porch, const ring_poller *poller) {
  uint64_t now = ring_platform_now();
  for (int i = porch->guest_count - 1; i >= 0; i--) {
    ring_guest *guest = &porch->guests[i];
    bool stays = !ring_poller_ready(poller, guest->slot) || porch_hear(porch, guest);
    if (!stays || now - guest->came > PORCH_PATIENCE_NS) porch_remove(porch, i);
  }
  if (porch->exhausted != 0 || ring_poller_ready(poller, porch->slot)) porch_let_in(porch);
}
