/* SPDX-License-Identifier: Apache-2.0
 *
 * How a share forms. Descriptors travel over a local socket, whose connections begin with the
 * handshake of all links: only ranks of this job get the memory.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "error.h"
#include "platform.h"
#include "share.h"
#include "socket.h"

#define SHARE_PATIENCE_MS 5000 /* for the first rank to hand out the memory */

/* What comes with the descriptor. */
typedef struct share_invitation {
  uint64_t front, region;
} share_invitation;

/* The ranks of this host, in order; false when this rank has none to share with. */
static bool share_gather(ring_share *share, ring_peers *peers) {
  share->size = 0;
  share->peers = peers;
  for (int rank = 0; rank < peers->size; rank++) {
    if (peers->peer[rank].host != peers->peer[peers->rank].host) continue;
    if (share->size == RING_SHARE_RANKS) return false;
    if (rank == peers->rank) share->index = share->size;
    share->ranks[share->size++] = rank;
  }
  return share->size > 1;
}

static size_t share_seats(int size) {
  size_t bytes = sizeof(ring_board) + (size_t)size * sizeof(ring_seat);
  return (bytes + 4095) / 4096 * 4096;
}

/* Board and seats, and a pipe for every pair and direction, which takes space once it is used. */
static size_t share_front(int size) {
  return share_seats(size) + (size_t)size * (size_t)size * RING_PIPE_BYTES;
}

static void *share_pipe(const ring_share *share, int from, int to) {
  size_t index = (size_t)from * (size_t)share->size + (size_t)to;
  return (uint8_t *)ring_arena_front(share->arena) + share_seats(share->size) +
         index * RING_PIPE_BYTES;
}

/* Unguessable where the job has a token or an exchange; guessing it gets a stranger no further than the handshake. */
static bool share_name(const ring_share *share, char *name, size_t size) {
  uint8_t said[13 + 8 + 4] = "shared memory";
  ring_secret mac;
  uint8_t *to = bytes_put(said + 13, share->peers->epoch, 8);
  bytes_put(to, (uint32_t)share->ranks[0], 4);
  if (!ring_keys_mac(&share->peers->keys, said, sizeof said, &mac)) return false;
  int length = snprintf(name, size, "sparkring-");
  for (int i = 0; i < 16; i++)
    length += snprintf(name + length, size - (size_t)length, "%02x", mac.bytes[i]);
  return true;
}

/* Takes this rank's seat; false when the system lacks what that needs. */
static bool share_sit(ring_share *share) {
  share->board = ring_arena_front(share->arena);
  if (!ring_arena_reserve(share->board, sizeof *share->board) ||
      !ring_arena_reserve(ring_share_seat(share, share->index), sizeof(ring_seat)) ||
      !ring_arena_take(share->arena, share->index))
    return false;
  if (!ring_platform_register_barrier()) atomic_store(&share->board->fenced, 1);
  return true;
}

/* ---- The first rank of a host ------------------------------------------------------------- */

static ring_verdict share_judge(void *owner, const ring_claim *claim) {
  const ring_share *share = owner;
  if (claim->epoch != share->peers->epoch) return RING_VERDICT_STALE;
  bool expected = claim->purpose == RING_PURPOSE_SHARE && ring_share_index(share, claim->rank) > 0;
  return expected ? RING_VERDICT_WELCOME : RING_VERDICT_TWICE;
}

static void share_admit(void *owner, const ring_handshake *proven) {
  const ring_share *share = owner;
  int fd = proven->fd;
  share_invitation invitation = {share_front(share->size), ring_arena_region(share->arena)};
  ring_socket_pass(fd, ring_arena_descriptor(share->arena), &invitation, sizeof invitation);
  ring_socket_close(&fd);
}

void ring_share_invite(ring_share *share, ring_peers *peers) {
  char name[64];
  if (!share_gather(share, peers) || share->index != 0) return;
  if (!share_name(share, name, sizeof name)) return;
  share->arena = ring_arena_create(share_front(share->size), share->size);
  if (share->arena == NULL) return;
  int listener = ring_socket_listen_local(name);
  if (listener < 0 || !share_sit(share)) {
    ring_socket_close(&listener);
    ring_share_fini(share);
    return;
  }
  if (ring_porch_open(&peers->annex, listener, peers->rank, peers->size, &peers->keys) != RING_OK) {
    ring_porch_close(&peers->annex);
    ring_share_fini(share);
    return;
  }
  peers->annex.judge = share_judge;
  peers->annex.admit = share_admit;
  peers->annex.owner = share;
}

/* ---- The others --------------------------------------------------------------------------- */

/* Sleeps until something happens to a descriptor; false when it is too late for that. */
static bool share_sleep_on(int fd, short events, ring_wait *wait, uint64_t give_up) {
  struct pollfd entry = {.fd = fd, .events = events};
  if (ring_platform_now() > give_up || ring_wait_check(wait) != RING_OK) return false;
  poll(&entry, 1, ring_wait_slice(wait));
  return true;
}

static bool share_prove(ring_handshake *handshake, ring_wait *wait, uint64_t give_up) {
  for (;;) {
    ring_handshake_state state = ring_handshake_advance(handshake);
    if (state == RING_HANDSHAKE_DONE) return true;
    if (state != RING_HANDSHAKE_READING && state != RING_HANDSHAKE_WRITING) return false;
    short events = state == RING_HANDSHAKE_WRITING ? POLLOUT : POLLIN;
    if (!share_sleep_on(handshake->fd, events, wait, give_up)) return false;
  }
}

/* Until when the first rank of the host may hand out the memory. Who waits for that says nothing to others,
 * who wait for it: it has to come and say for whom while there is time for them to hear it. */
static uint64_t share_give_up(const ring_wait *wait) {
  uint32_t patience = ring_wait_left(wait) / 4;
  if (patience > SHARE_PATIENCE_MS) patience = SHARE_PATIENCE_MS;
  return ring_platform_now() + patience * UINT64_C(1000000);
}

/* The descriptor of the host's memory, or what is less than 0. */
static int share_receive(const ring_share *share, int fd, share_invitation *invitation,
                         ring_wait *wait) {
  const ring_peers *peers = share->peers;
  uint64_t give_up = share_give_up(wait);
  ring_handshake handshake;
  ring_claim claim = {.purpose = RING_PURPOSE_SHARE,
                      .rank = peers->rank,
                      .size = peers->size,
                      .epoch = peers->epoch};
  int descriptor = -EAGAIN;
  bool proved = ring_handshake_dial(&handshake, fd, &peers->keys, &claim, share->ranks[0]) &&
                share_prove(&handshake, wait, give_up);
  if (!proved) return -EPROTO;
  while (descriptor == -EAGAIN) {
    descriptor = ring_socket_take(fd, invitation, sizeof *invitation);
    if (descriptor == -EAGAIN && !share_sleep_on(fd, POLLIN, wait, give_up)) break;
  }
  return descriptor;
}

bool ring_share_fetch(ring_share *share, ring_peers *peers, ring_wait *wait) {
  char name[64];
  share_invitation invitation;
  if (share->arena != NULL) return true;
  if (!share_gather(share, peers) || share->index == 0) return false;
  if (!share_name(share, name, sizeof name)) return false;
  int fd = ring_socket_dial_local(name);
  if (fd < 0) return false;
  int descriptor = share_receive(share, fd, &invitation, wait);
  ring_socket_close(&fd);
  if (descriptor < 0) return false;
  if (invitation.front == share_front(share->size))
    share->arena = ring_arena_map(descriptor, invitation.front, share->size, invitation.region);
  if (share->arena == NULL) {
    ring_socket_close(&descriptor);
    return false;
  }
  if (share_sit(share)) return true;
  ring_share_fini(share);
  return false;
}

/* ---- All ---------------------------------------------------------------------------------- */

ring_status ring_share_settle(ring_share *share, ring_peers *peers, const uint8_t *has,
                              const ring_wait *wait, ring_error *error) {
  static const ring_call open = {.collective = RING_COLLECTIVE_OPEN};
  ring_share_call call;
  bool all = share->size > 1;
  ring_porch_close(&peers->annex);
  for (int i = 0; i < share->size; i++) all = all && has[share->ranks[i]] != 0;
  if (!all || share->arena == NULL) {
    ring_share_fini(share);
    return RING_OK;
  }
  share->cores = peers->cores;
  share->cache = ring_platform_cache();
  share->fenced = atomic_load(&share->board->fenced) != 0;
  ring_status status = ring_share_begin(share, &open, RING_SLOTS, wait, error, &call);
  if (status == RING_OK) ring_share_publish(&call);
  for (int i = 0; i < share->size && status == RING_OK; i++)
    if (i != share->index) status = ring_share_await(&call, i);
  for (int i = 0; i < share->size && status == RING_OK; i++)
    if (i != share->index)
      status = ring_peers_pipe(peers, share->ranks[i], share_pipe(share, share->index, i),
                               share_pipe(share, i, share->index));
  if (status == RING_NO_MEMORY) ring_error_no_memory(error, peers->rank);
  ring_peers_answer(peers, &share->poller); /* so that later waits allocate nothing */
  share->formed = status == RING_OK;
  return status;
}
