/* SPDX-License-Identifier: Apache-2.0
 *
 * How a share forms. Descriptors travel over a local socket, whose connections begin with the
 * handshake of all links: only ranks of this job get the memory.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "shm/shm_group.h"
#include "transport/socket.h"

#define SHM_PATIENCE_MS 5000 /* for the first rank to hand out the memory */

/* What comes with the descriptor. */
typedef struct shm_invitation {
  uint64_t front, region;
} shm_invitation;

/* The ranks of this host, in order; false when this rank has none to share with. */
static bool shm_gather(ring_shm *shm, ring_peers *peers) {
  shm->size = 0;
  shm->peers = peers;
  for (int rank = 0; rank < peers->size; rank++) {
    if (peers->peer[rank].host != peers->peer[peers->rank].host) continue;
    if (shm->size == RING_SHM_RANKS) return false;
    if (rank == peers->rank) shm->index = shm->size;
    shm->ranks[shm->size++] = rank;
  }
  return shm->size > 1;
}

static size_t shm_seats(int size) {
  size_t bytes = sizeof(ring_control_block) + (size_t)size * sizeof(ring_rank_block);
  return (bytes + 4095) / 4096 * 4096;
}

/* Board and rank blocks, and a pipe for every pair and direction, which takes space once it is used. */
static size_t shm_front(int size) {
  return shm_seats(size) + (size_t)size * (size_t)size * RING_PIPE_BYTES;
}

static void *shm_pipe(const ring_shm *shm, int from, int to) {
  size_t index = (size_t)from * (size_t)shm->size + (size_t)to;
  return (uint8_t *)ring_arena_front(shm->arena) + shm_seats(shm->size) + index * RING_PIPE_BYTES;
}

/* Unguessable where the job has a token or an exchange; guessing it gets a stranger no further than the handshake. */
static bool shm_name(const ring_shm *shm, char *name, size_t size) {
  uint8_t said[13 + 8 + 4] = "shared memory";
  ring_secret mac;
  uint8_t *to = bytes_put(said + 13, shm->peers->epoch, 8);
  bytes_put(to, (uint32_t)shm->ranks[0], 4);
  if (!ring_keys_mac(&shm->peers->keys, said, sizeof said, &mac)) return false;
  int length = snprintf(name, size, "sparkring-");
  for (int i = 0; i < 16; i++)
    length += snprintf(name + length, size - (size_t)length, "%02x", mac.bytes[i]);
  return true;
}

/* Takes this rank's rank block; false when the system lacks what that needs. */
static bool shm_sit(ring_shm *shm) {
  shm->control_block = ring_arena_front(shm->arena);
  if (!ring_arena_reserve(shm->control_block, sizeof *shm->control_block) ||
      !ring_arena_reserve(ring_shm_rank_block(shm, shm->index), sizeof(ring_rank_block)) ||
      !ring_arena_take(shm->arena, shm->index))
    return false;
  if (!ring_platform_register_barrier()) atomic_store(&shm->control_block->fenced, 1);
  return true;
}

/* ---- The first rank of a host ------------------------------------------------------------- */

static ring_verdict shm_judge(void *owner, const ring_claim *claim) {
  const ring_shm *shm = owner;
  if (claim->epoch != shm->peers->epoch) return RING_VERDICT_STALE;
  bool expected = claim->purpose == RING_PURPOSE_SHM && ring_shm_index(shm, claim->rank) > 0;
  return expected ? RING_VERDICT_WELCOME : RING_VERDICT_TWICE;
}

static void shm_admit(void *owner, const ring_handshake *proven) {
  const ring_shm *shm = owner;
  int fd = proven->fd;
  shm_invitation invitation = {shm_front(shm->size), ring_arena_region(shm->arena)};
  ring_socket_pass(fd, ring_arena_descriptor(shm->arena), &invitation, sizeof invitation);
  ring_socket_close(&fd);
}

void ring_shm_invite(ring_shm *shm, ring_peers *peers) {
  char name[64];
  if (!shm_gather(shm, peers) || shm->index != 0) return;
  if (!shm_name(shm, name, sizeof name)) return;
  shm->arena = ring_arena_create(shm_front(shm->size), shm->size);
  if (shm->arena == NULL) return;
  int listener = ring_socket_listen_local(name);
  if (listener < 0 || !shm_sit(shm)) {
    ring_socket_close(&listener);
    ring_shm_fini(shm);
    return;
  }
  if (ring_acceptor_open(&peers->annex, listener, peers->rank, peers->size, &peers->keys) !=
      RING_OK) {
    ring_acceptor_close(&peers->annex);
    ring_shm_fini(shm);
    return;
  }
  peers->annex.judge = shm_judge;
  peers->annex.admit = shm_admit;
  peers->annex.owner = shm;
}

/* ---- The others --------------------------------------------------------------------------- */

/* Sleeps until something happens to a descriptor; false when it is too late for that. */
static bool shm_sleep_on(int fd, short events, ring_wait *wait, uint64_t give_up) {
  struct pollfd entry = {.fd = fd, .events = events};
  if (ring_platform_now() > give_up || ring_wait_check(wait) != RING_OK) return false;
  poll(&entry, 1, ring_wait_slice(wait));
  return true;
}

static bool shm_prove(ring_handshake *handshake, ring_wait *wait, uint64_t give_up) {
  for (;;) {
    ring_handshake_state state = ring_handshake_advance(handshake);
    if (state == RING_HANDSHAKE_DONE) return true;
    if (state != RING_HANDSHAKE_READING && state != RING_HANDSHAKE_WRITING) return false;
    short events = state == RING_HANDSHAKE_WRITING ? POLLOUT : POLLIN;
    if (!shm_sleep_on(handshake->fd, events, wait, give_up)) return false;
  }
}

/* Until when the first rank of the host may hand out the memory. Who waits for that says nothing to others,
 * who wait for it: it has to come and say for whom while there is time for them to hear it. */
static uint64_t shm_give_up(const ring_wait *wait) {
  uint32_t patience = ring_wait_left(wait) / 4;
  if (patience > SHM_PATIENCE_MS) patience = SHM_PATIENCE_MS;
  return ring_platform_now() + patience * UINT64_C(1000000);
}

/* The descriptor of the host's memory, or what is less than 0. */
static int shm_receive(const ring_shm *shm, int fd, shm_invitation *invitation, ring_wait *wait) {
  const ring_peers *peers = shm->peers;
  uint64_t give_up = shm_give_up(wait);
  ring_handshake handshake;
  ring_claim claim = {
      .purpose = RING_PURPOSE_SHM, .rank = peers->rank, .size = peers->size, .epoch = peers->epoch};
  int descriptor = -EAGAIN;
  bool proved = ring_handshake_connect(&handshake, fd, &peers->keys, &claim, shm->ranks[0]) &&
                shm_prove(&handshake, wait, give_up);
  if (!proved) return -EPROTO;
  while (descriptor == -EAGAIN) {
    descriptor = ring_socket_take(fd, invitation, sizeof *invitation);
    if (descriptor == -EAGAIN && !shm_sleep_on(fd, POLLIN, wait, give_up)) break;
  }
  return descriptor;
}

bool ring_shm_fetch(ring_shm *shm, ring_peers *peers, ring_wait *wait) {
  char name[64];
  shm_invitation invitation;
  if (shm->arena != NULL) return true;
  if (!shm_gather(shm, peers) || shm->index == 0) return false;
  if (!shm_name(shm, name, sizeof name)) return false;
  int fd = ring_socket_connect_local(name);
  if (fd < 0) return false;
  int descriptor = shm_receive(shm, fd, &invitation, wait);
  ring_socket_close(&fd);
  if (descriptor < 0) return false;
  if (invitation.front == shm_front(shm->size))
    shm->arena = ring_arena_map(descriptor, invitation.front, shm->size, invitation.region);
  if (shm->arena == NULL) {
    ring_socket_close(&descriptor);
    return false;
  }
  if (shm_sit(shm)) return true;
  ring_shm_fini(shm);
  return false;
}

/* ---- All ---------------------------------------------------------------------------------- */

ring_status ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                            const ring_wait *wait, ring_error *error) {
  static const ring_call open = {.collective = RING_COLLECTIVE_OPEN};
  ring_shm_call call;
  bool all = shm->size > 1;
  ring_acceptor_close(&peers->annex);
  for (int i = 0; i < shm->size; i++) all = all && has[shm->ranks[i]] != 0;
  if (!all || shm->arena == NULL) {
    ring_shm_fini(shm);
    return RING_OK;
  }
  shm->cores = peers->cores;
  shm->cache = ring_platform_cache();
  shm->fenced = atomic_load(&shm->control_block->fenced) != 0;
  ring_status status = ring_shm_begin(shm, &open, RING_SLOTS, wait, error, &call);
  if (status == RING_OK) ring_shm_publish(&call);
  for (int i = 0; i < shm->size && status == RING_OK; i++)
    if (i != shm->index) status = ring_shm_await(&call, i);
  for (int i = 0; i < shm->size && status == RING_OK; i++)
    if (i != shm->index)
      status = ring_peers_pipe(peers, shm->ranks[i], shm_pipe(shm, shm->index, i),
                               shm_pipe(shm, i, shm->index));
  if (status == RING_NO_MEMORY) ring_error_no_memory(error, peers->rank);
  ring_peers_answer(peers, &shm->poll_set); /* so that later waits allocate nothing */
  shm->formed = status == RING_OK;
  return status;
}
