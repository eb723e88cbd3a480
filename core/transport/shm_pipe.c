/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory transport: a ring of bytes for each direction, with one sender and one receiver.
 * Each side counts the bytes that it has moved since the beginning; it may move up to what the count
 * of the other side allows. The counts lie on lines of their own, and a side reads the other's only
 * when it has used up what it knew of. A side trusts nothing that it reads: its own count is private,
 * the shared one a copy for the other side.
 *
 * Who sleeps says so in shared memory (`waits`), looks once more, and polls the socket. Who moves
 * bytes publishes its count, looks at `waits`, and rings by a byte on the socket. All four accesses
 * are sequentially consistent, so of the two at least one sees what the other did: no wake-up is
 * lost. (Publishing with less, as a membarrier of the sleeper would allow, measured no faster.) The two
 * that write are exchanges, to x86 the same instruction as a store: emulators of Arm on x86 (QEMU 7.2
 * to 10.0) let a load pass a sequentially consistent store. A ring too many does no harm; whoever armed
 * takes all of them before it moves on.
 *
 * The sender takes the pages of a pipe as it first comes by them: most pipes carry little or nothing.
 *
 * The end of the peer shows on the socket alone, however it came. It is looked for after every sleep
 * and now and then while nothing moves.
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

/* Bytes after which the other side is told, so that both copy at the same time. 4 to 64 KiB measured
 * alike. */
#define SHM_BLOCK (16 * 1024)

/* For which pages are taken at once. */
#define SHM_STEP (4 * SHM_BLOCK)

/* So many calls in vain before the socket is looked at. */
#define SHM_TRIES 1024

/* What one side writes and the other reads. */
typedef struct shm_pipe_side {
  alignas(128) _Atomic(uint64_t) moved; /* bytes since the beginning */
  alignas(128) _Atomic(uint32_t) waits; /* to be rung for when the other side has moved some */
  _Atomic(uint32_t) finished;           /* everything there will ever be has been moved */
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
  uint64_t limit;  /* what `moved` may grow to, when last looked at */
  uint64_t backed; /* up to where `moved` may grow before pages have to be taken */
  bool lacks;      /* the pages for that */
  uint64_t slack;  /* how far it may be ahead of the other side: the capacity for a sender, or 0 */
} shm_pipe_end;

typedef struct shm_pipe_link {
  ring_link base;
  shm_pipe_end out, in;
  bool armed; /* since the socket was last looked at */
  bool ended; /* the peer */
  unsigned tries;
} shm_pipe_link;

/* ---- Sleeping ----------------------------------------------------------------------------- */

/* Takes the rings that came, and wait reports the end of the peer. */
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

/* A full socket needs no further ring, and an end of the peer is noticed elsewhere. */
static void shm_pipe_ring(const shm_pipe_link *link, shm_pipe_side *other) {
  if (atomic_load(&other->waits) == 0 || atomic_exchange(&other->waits, 0) == 0) return;
  ssize_t rung = send(link->base.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)rung;
}

/* Says that this side waits; true when it need not, because the other side has moved some. */
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

/* Looks how far the other side has come. False when that cannot be. */
static bool shm_pipe_look(shm_pipe_end *end) {
  uint64_t limit = atomic_load_explicit(&end->other->moved, memory_order_acquire) + end->slack;
  uint64_t movable = limit - end->moved;
  if (movable > SHM_CAPACITY || movable < end->limit - end->moved) return false;
  end->limit = limit;
  return true;
}

/* Takes the pages of the next block, on the first way through the ring; false when there are none. */
static bool shm_pipe_back(shm_pipe_end *end) {
  if (end->moved + SHM_BLOCK <= end->backed) return true;
  if (end->lacks || !ring_arena_reserve(end->bytes + end->backed, SHM_STEP)) {
    end->lacks = true; /* for good: part of what was to be sent may have gone */
    return false;
  }
  end->backed += SHM_STEP;
  if (end->backed == SHM_CAPACITY) end->backed = UINT64_MAX;
  return true;
}

/* Copies what lies in one piece, 0 to SHM_BLOCK bytes. */
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

/* Before each try; after it `ended` is older than what is then read. */
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

/* Both are on one host. */
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
