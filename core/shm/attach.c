/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "base/platform_memory.h"
#include "shm/sync.h"
#include "transport/socket.h"

#define ATTACH_PATIENCE_MS 5000 /* for the first rank to pass the memory */

/* The message that passes the descriptor. */
typedef struct attach_invitation {
  uint64_t front, region;
} attach_invitation;

/* Lists the ranks of this host; false if this rank is alone, or there are too many. */
static bool attach_gather(ring_shm *shm, const ring_peers *peers) {
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

static size_t attach_blocks_bytes(int size) {
  size_t bytes = sizeof(ring_control_block) + (size_t)size * sizeof(ring_rank_block);
  return (bytes + 4095) / 4096 * 4096;
}

/* Control block, rank blocks, and a pipe for every pair and direction; a pipe takes space once it
 * is used. */
static size_t attach_front_bytes(int size) {
  return attach_blocks_bytes(size) + (size_t)size * (size_t)size * RING_PIPE_BYTES;
}

static void *attach_pipe(const ring_shm *shm, int from, int to) {
  size_t index = (size_t)from * (size_t)shm->size + (size_t)to;
  return (uint8_t *)ring_arena_front(shm->arena) + attach_blocks_bytes(shm->size) +
         index * RING_PIPE_BYTES;
}

/* The name of the local socket. Unguessable if the job has a token or an exchange; an outsider that
 * guesses it still fails the handshake. */
static bool attach_name(const ring_shm *shm, char *name, size_t size) {
  uint8_t message[13 + 8 + 4] = "shared memory";
  ring_secret mac;
  uint8_t *to = bytes_put(message + 13, shm->peers->epoch, 8);
  bytes_put(to, (uint32_t)shm->ranks[0], 4);
  if (!ring_keys_mac(&shm->peers->keys, message, sizeof message, &mac)) return false;
  int length = snprintf(name, size, "sparkring-");
  for (int i = 0; i < 16; i++)
    length += snprintf(name + length, size - (size_t)length, "%02x", mac.bytes[i]);
  return true;
}

/* Reserves this rank's block and takes its place in the arena; false if the system cannot. */
static bool attach_take_place(ring_shm *shm) {
  shm->control_block = ring_arena_front(shm->arena);
  if (!ring_arena_reserve(shm->control_block, sizeof *shm->control_block) ||
      !ring_arena_reserve(ring_shm_rank_block(shm, shm->index), sizeof(ring_rank_block)) ||
      !ring_arena_take(shm->arena, shm->index))
    return false;
  if (!ring_platform_register_barrier()) atomic_store(&shm->control_block->fenced, 1);
  return true;
}

/* ---- The first rank of a host ------------------------------------------------------------- */

static ring_answer attach_judge(void *owner, const ring_claim *claim) {
  const ring_shm *shm = owner;
  if (claim->epoch != shm->peers->epoch) return RING_ANSWER_STALE;
  bool expected = claim->purpose == RING_PURPOSE_SHM && ring_shm_index(shm, claim->rank) > 0;
  return expected ? RING_ANSWER_ACCEPTED : RING_ANSWER_TWICE;
}

static void attach_admit(void *owner, const ring_handshake *proven) {
  const ring_shm *shm = owner;
  int fd = proven->fd;
  attach_invitation invitation = {attach_front_bytes(shm->size), ring_arena_region(shm->arena)};
  ring_socket_send_fd(fd, ring_arena_descriptor(shm->arena), &invitation, sizeof invitation);
  ring_socket_close(&fd);
}

void ring_shm_invite(ring_shm *shm, ring_peers *peers) {
  char name[64];
  if (!attach_gather(shm, peers) || shm->index != 0) return;
  if (!attach_name(shm, name, sizeof name)) return;
  shm->arena = ring_arena_create(attach_front_bytes(shm->size), shm->size);
  if (shm->arena == NULL) return;
  int listener = ring_socket_listen_local(name);
  if (listener < 0 || !attach_take_place(shm)) {
    ring_socket_close(&listener);
    ring_shm_fini(shm);
    return;
  }
  if (ring_acceptor_open(&peers->shm_acceptor, listener, peers->rank, peers->size, &peers->keys) !=
      RING_OK) {
    ring_acceptor_close(&peers->shm_acceptor);
    ring_shm_fini(shm);
    return;
  }
  peers->shm_acceptor.judge = attach_judge;
  peers->shm_acceptor.admit = attach_admit;
  peers->shm_acceptor.owner = shm;
}

/* ---- The other ranks ---------------------------------------------------------------------- */

/* Sleeps until a descriptor is ready or a slice is over; false if the time is up. */
static bool attach_sleep(int fd, short events, ring_wait *wait, uint64_t give_up) {
  struct pollfd entry = {.fd = fd, .events = events};
  if (ring_platform_now() > give_up || ring_wait_check(wait) != RING_OK) return false;
  poll(&entry, 1, ring_wait_slice(wait));
  return true;
}

static bool attach_prove(ring_handshake *handshake, ring_wait *wait, uint64_t give_up) {
  for (;;) {
    ring_handshake_state state = ring_handshake_advance(handshake);
    if (state == RING_HANDSHAKE_DONE) return true;
    if (state != RING_HANDSHAKE_READING && state != RING_HANDSHAKE_WRITING) return false;
    short events = state == RING_HANDSHAKE_WRITING ? POLLOUT : POLLIN;
    if (!attach_sleep(handshake->fd, events, wait, give_up)) return false;
  }
}

/* The time until which to wait for the first rank of the host. This wait reports nothing to the
 * ranks that wait for this rank. It leaves them three quarters of the time, in which this rank
 * reports the cause. */
static uint64_t attach_give_up(const ring_wait *wait) {
  uint32_t patience = ring_wait_left(wait) / 4;
  if (patience > ATTACH_PATIENCE_MS) patience = ATTACH_PATIENCE_MS;
  return ring_platform_now() + patience * UINT64_C(1000000);
}

/* Receives the descriptor of the host's memory; below 0 if it does not come. */
static int attach_receive(const ring_shm *shm, int fd, attach_invitation *invitation,
                          ring_wait *wait) {
  const ring_peers *peers = shm->peers;
  uint64_t give_up = attach_give_up(wait);
  ring_handshake handshake;
  ring_claim claim = {
      .purpose = RING_PURPOSE_SHM, .rank = peers->rank, .size = peers->size, .epoch = peers->epoch};
  int descriptor = -EAGAIN;
  bool proved = ring_handshake_connect(&handshake, fd, &peers->keys, &claim, shm->ranks[0]) &&
                attach_prove(&handshake, wait, give_up);
  if (!proved) return -EPROTO;
  while (descriptor == -EAGAIN) {
    descriptor = ring_socket_receive_fd(fd, invitation, sizeof *invitation);
    if (descriptor == -EAGAIN && !attach_sleep(fd, POLLIN, wait, give_up)) break;
  }
  return descriptor;
}

bool ring_shm_fetch(ring_shm *shm, ring_peers *peers, ring_wait *wait) {
  char name[64];
  attach_invitation invitation;
  if (shm->arena != NULL) return true;
  if (!attach_gather(shm, peers) || shm->index == 0) return false;
  if (!attach_name(shm, name, sizeof name)) return false;
  int fd = ring_socket_connect_local(name);
  if (fd < 0) return false;
  int descriptor = attach_receive(shm, fd, &invitation, wait);
  ring_socket_close(&fd);
  if (descriptor < 0) return false;
  if (invitation.front == attach_front_bytes(shm->size))
    shm->arena = ring_arena_map(descriptor, invitation.front, shm->size, invitation.region);
  if (shm->arena == NULL) {
    ring_socket_close(&descriptor);
    return false;
  }
  if (attach_take_place(shm)) return true;
  ring_shm_fini(shm);
  return false;
}

/* ---- All ranks ---------------------------------------------------------------------------- */

ring_status ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                            const ring_wait_service *service, const ring_wait *wait,
                            ring_error *error) {
  static const ring_call open = {.collective = RING_COLLECTIVE_OPEN};
  ring_shm_call call;
  bool all = shm->size > 1;
  ring_acceptor_close(&peers->shm_acceptor);
  for (int i = 0; i < shm->size; i++) all = all && has[shm->ranks[i]] != 0;
  if (!all || shm->arena == NULL) {
    ring_shm_fini(shm);
    return RING_OK;
  }
  shm->service = *service;
  shm->cores = peers->cores;
  shm->cache = ring_platform_cache();
  shm->fenced = atomic_load(&shm->control_block->fenced) != 0;
  ring_status status = ring_shm_begin(shm, &open, RING_SLOTS, wait, error, &call);
  if (status == RING_OK) ring_shm_publish(&call);
  for (int i = 0; i < shm->size && status == RING_OK; i++)
    if (i != shm->index) status = ring_shm_await(&call, i);
  for (int i = 0; i < shm->size && status == RING_OK; i++)
    if (i != shm->index)
      status = ring_peers_set_pipe(peers, shm->ranks[i], attach_pipe(shm, shm->index, i),
                                   attach_pipe(shm, i, shm->index));
  if (status == RING_NO_MEMORY) ring_error_no_memory(error, peers->rank);
  service->serve(service->context); /* grows its poll set, so that later waits allocate nothing */
  shm->formed = status == RING_OK;
  return status;
}

void ring_shm_fini(ring_shm *shm) {
  ring_free(shm->bounce);
  ring_arena_release(shm->arena);
  *shm = (ring_shm){0};
}
