/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory transport: a ring of bytes for each direction, with one sender and one
 * receiver. Each side counts the bytes that it has moved since the beginning, and may move as many
 * as the count of the other side allows. The counts lie on cache lines of their own. A side reads
 * the other side's count only when it has reached the last known limit. A side trusts no count that
 * it reads: its own count is private, and the shared one is a copy for the other side.
 *
 * To sleep, a side sets `waits` in shared memory, checks the other count once more, and polls the
 * socket. After moving bytes, a side publishes its count, checks the other side's `waits`, and
 * wakes it by a byte on the socket. All four accesses are sequentially consistent, so at least one
 * of the two sides sees the write of the other: no wake-up is lost. (Weaker publishing with a
 * membarrier of the sleeper measured no faster.) The two writes are exchanges, on x86 the same
 * instruction as a store: emulators of Arm on x86 (QEMU 7.2 to 10.0) let a load pass a sequentially
 * consistent store. A needless wake-up does no harm; the side that armed reads all of them before
 * it moves on.
 *
 * The sender takes the pages of a pipe when it first reaches them, because most pipes carry little
 * or nothing.
 *
 * The end of the peer shows on the socket alone, whatever its cause. A side checks the socket after
 * every sleep, and once in SHM_TRIES calls while nothing moves.
 */
#include <errno.h>
#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/arena.h"
#include "transport/link.h"
#include "transport/socket.h"

#define SHM_CONTROL_BYTES 4096
#define SHM_CAPACITY (RING_PIPE_BYTES - SHM_CONTROL_BYTES)

/* Bytes after which the count is published, so that both sides copy at the same time. 4 to 64 KiB
 * measured alike. */
#define SHM_BLOCK (16 * 1024)

/* Bytes whose pages are taken at once. */
#define SHM_STEP (4 * SHM_BLOCK)

/* Calls without progress until the socket is checked. */
#define SHM_TRIES 1024

/* Written by one side, read by the other. */
typedef struct shm_pipe_side {
  alignas(128) _Atomic(uint64_t) moved; /* bytes since the beginning */
  alignas(128) _Atomic(uint32_t) waits; /* wake this side when the other side has moved bytes */
  _Atomic(uint32_t) finished;           /* no further bytes will be moved */
} shm_pipe_side;

typedef struct shm_pipe_memory {
  shm_pipe_side sender, receiver;
  alignas(SHM_CONTROL_BYTES) uint8_t bytes[SHM_CAPACITY];
} shm_pipe_memory;

_Static_assert(sizeof(shm_pipe_memory) == RING_PIPE_BYTES,
               "the pipe and its length in link.h differ");
_Static_assert(SHM_CAPACITY % SHM_STEP == 0, "the pages of a pipe are taken in whole steps");
_Static_assert((SHM_CAPACITY & (SHM_CAPACITY - 1)) == 0, "the capacity is no power of two");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counts that processes share need lock-free atomics");

/* This side's view of one direction. */
typedef struct shm_pipe_end {
  shm_pipe_side *own, *other;
  uint8_t *bytes;
  uint64_t moved;  /* by this side */
  uint64_t limit;  /* last known limit of `moved` */
  uint64_t backed; /* limit of `moved` until further pages have to be taken */
  bool lacks;      /* those pages: the system has none */
  uint64_t slack;  /* how far it may be ahead of the other side: a sender the capacity, else 0 */
} shm_pipe_end;

typedef struct shm_pipe_link {
  ring_link base;
  shm_pipe_end out, in;
  bool armed; /* since the socket was last checked */
  bool ended; /* by the peer */
  unsigned tries;
} shm_pipe_link;

/* ---- Sleeping ----------------------------------------------------------------------------- */

/* Reads the wake-ups from the socket, and detects the end of the peer. */
static void shm_pipe_check_socket(shm_pipe_link *link) {
  char rings[64];
  if (link->armed) {
    atomic_store_explicit(&link->in.own->waits, 0, memory_order_relaxed);
    atomic_store_explicit(&link->out.own->waits, 0, memory_order_relaxed);
  }
  link->armed = false;
  link->tries = 0;
  ssize_t got;
  do got = recv(link->base.fd, rings, sizeof rings, MSG_DONTWAIT);
  while (got == (ssize_t)sizeof rings);
  bool empty = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (got == 0 || (got < 0 && !empty)) link->ended = true;
}

/* Wakes the other side if it waits. A full socket needs no further byte. */
static void shm_pipe_ring(const shm_pipe_link *link, shm_pipe_side *other) {
  if (atomic_load(&other->waits) == 0 || atomic_exchange(&other->waits, 0) == 0) return;
  ssize_t rung = send(link->base.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)rung;
}

/* Sets `waits`. True when the side need not wait, because the other side has moved bytes. */
static bool shm_pipe_wait(shm_pipe_end *end) {
  (void)atomic_exchange(&end->own->waits, 1);
  return atomic_load(&end->other->moved) + end->slack != end->moved;
}

static short shm_pipe_arm(ring_link *base, short events) {
  shm_pipe_link *link = (shm_pipe_link *)base;
  bool ready = false;
  if (events == 0) return atomic_load(&link->in.other->finished) ? 0 : POLLERR;
  if (events & POLLIN) ready = shm_pipe_wait(&link->in);
  if (events & POLLOUT) ready = shm_pipe_wait(&link->out) || ready;
  link->armed = true;
  return ready ? POLLIN | POLLOUT : POLLIN;
}

/* ---- Moving ------------------------------------------------------------------------------- */

static void shm_pipe_publish(const shm_pipe_link *link, const shm_pipe_end *end) {
  (void)atomic_exchange(&end->own->moved, end->moved);
  shm_pipe_ring(link, end->other);
}

/* Reads the count of the other side. False for an impossible count. */
static bool shm_pipe_look(shm_pipe_end *end) {
  uint64_t limit = atomic_load_explicit(&end->other->moved, memory_order_acquire) + end->slack;
  uint64_t movable = limit - end->moved;
  if (movable > SHM_CAPACITY || movable < end->limit - end->moved) return false;
  end->limit = limit;
  return true;
}

/* Takes the pages of the next block, on the first pass through the ring. False when there are
 * none. */
static bool shm_pipe_back(shm_pipe_end *end) {
  if (end->moved + SHM_BLOCK <= end->backed) return true;
  if (end->lacks || !ring_arena_reserve(end->bytes + end->backed, SHM_STEP)) {
    end->lacks = true; /* for good: part of a frame may have been sent */
    return false;
  }
  end->backed += SHM_STEP;
  if (end->backed == SHM_CAPACITY) end->backed = UINT64_MAX;
  return true;
}

/* Copies contiguous bytes, 0 to SHM_BLOCK. */
static size_t shm_pipe_copy(shm_pipe_end *end, uint8_t *bytes, size_t length) {
  size_t offset = (size_t)end->moved & (SHM_CAPACITY - 1);
  size_t movable = (size_t)(end->limit - end->moved);
  if (length > movable) length = movable;
  if (length > SHM_CAPACITY - offset) length = SHM_CAPACITY - offset;
  if (length > SHM_BLOCK) length = SHM_BLOCK;
  if (end->slack != 0)
    memcpy(end->bytes + offset, bytes, length);
  else
    memcpy(bytes, end->bytes + offset, length);
  end->moved += length;
  return length;
}

static ssize_t shm_pipe_move(shm_pipe_link *link, shm_pipe_end *end, const struct iovec *pieces,
                             int count) {
  uint64_t begun = end->moved, published = begun;
  bool stuck = false;
  for (int i = 0; i < count && !stuck; i++) {
    for (size_t done = 0; done < pieces[i].iov_len && !stuck;) {
      if (end->moved == end->limit && !shm_pipe_look(end)) return -EPROTO;
      if (!shm_pipe_back(end)) return -ENOMEM;
      size_t moved =
          shm_pipe_copy(end, (uint8_t *)pieces[i].iov_base + done, pieces[i].iov_len - done);
      done += moved;
      stuck = moved == 0;
      if (end->moved - published < SHM_BLOCK) continue;
      shm_pipe_publish(link, end);
      published = end->moved;
    }
  }
  if (end->moved != published) shm_pipe_publish(link, end);
  if (end->moved != begun) link->tries = 0;
  return (ssize_t)(end->moved - begun);
}

/* Before each call. `ended` is then older than the count that is read next, so no byte is
 * missed. */
static void shm_pipe_begin(shm_pipe_link *link) {
  if (link->armed || ++link->tries >= SHM_TRIES) shm_pipe_check_socket(link);
}

static ssize_t shm_pipe_send(ring_link *base, const struct iovec *pieces, int count) {
  shm_pipe_link *link = (shm_pipe_link *)base;
  shm_pipe_begin(link);
  return link->ended ? -EPIPE : shm_pipe_move(link, &link->out, pieces, count);
}

static ssize_t shm_pipe_receive(ring_link *base, const struct iovec *pieces, int count) {
  shm_pipe_link *link = (shm_pipe_link *)base;
  shm_pipe_begin(link);
  ssize_t moved = shm_pipe_move(link, &link->in, pieces, count);
  return moved == 0 && link->ended ? -EPIPE : moved;
}

static ssize_t shm_pipe_peek(ring_link *base, void *bytes, size_t length) {
  shm_pipe_link *link = (shm_pipe_link *)base;
  shm_pipe_begin(link);
  shm_pipe_end ahead = link->in;
  if (!shm_pipe_look(&ahead)) return -EPROTO;
  size_t seen = 0, moved = 1;
  while (moved > 0) {
    moved = shm_pipe_copy(&ahead, (uint8_t *)bytes + seen, length - seen);
    seen += moved;
  }
  return seen == 0 && link->ended ? -EPIPE : (ssize_t)seen;
}

/* ---- Ending ------------------------------------------------------------------------------- */

static void shm_pipe_finish(ring_link *base) {
  const shm_pipe_link *link = (const shm_pipe_link *)base;
  atomic_store(&link->out.own->finished, 1);
  shutdown(base->fd, SHUT_WR);
}

static void shm_pipe_close(ring_link *base) {
  const shm_pipe_link *link = (const shm_pipe_link *)base;
  atomic_store(&link->out.own->finished, 1);
  ring_socket_close(&base->fd);
  free(base);
}

/* Both ranks are on one host. */
static uint32_t shm_pipe_silence(ring_link *link) {
  (void)link;
  return 0;
}

static bool shm_pipe_arrived(ring_link *link) {
  (void)link;
  return true;
}

static const ring_link_ops shm_pipe_ops = {
    "shm",           shm_pipe_send,  shm_pipe_receive, shm_pipe_peek,    shm_pipe_arm,
    shm_pipe_finish, shm_pipe_close, shm_pipe_silence, shm_pipe_arrived, false};

ring_link *ring_link_shm_pipe(int fd, void *out, void *in) {
  shm_pipe_memory *outward = out, *inward = in;
  bool backed = ring_arena_reserve(outward, SHM_CONTROL_BYTES) &&
                ring_arena_reserve(inward, SHM_CONTROL_BYTES);
  shm_pipe_link *link = backed ? malloc(sizeof *link) : NULL;
  if (link == NULL) return NULL;
  *link = (shm_pipe_link){
      .base = {.ops = &shm_pipe_ops, .fd = fd},
      .out = {.own = &outward->sender,
              .other = &outward->receiver,
              .bytes = outward->bytes,
              .limit = SHM_CAPACITY,
              .slack = SHM_CAPACITY},
      .in = {.own = &inward->receiver,
             .other = &inward->sender,
             .bytes = inward->bytes,
             .backed = UINT64_MAX},
  };
  ring_socket_tune(fd);
  return &link->base;
}
