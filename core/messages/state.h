/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of messages: the channels to all ranks, the matching, and the threads that use them.
 *
 * Invariants. The mutex of `progress` guards everything. The thread that moves the messages, the mover, alone touches
 * links, connections under way and the poll set, and releases the mutex only while it sleeps or calls hooks. Another
 * thread that has something to send appends it to a queue and wakes the mover.
 *
 * Wake-ups, beside those of progress/README.md. tests/core/messages/test_messages_wakeups.c runs all orders.
 *
 *   waits            on        until                            woken by
 *   the mover        bell      its goal, or something to send   `news`: the call that made them ends with notice, or
 *                              or to open                       waits and rings before; a failure; a waiter while the
 *                                                               progress thread moves; the end
 *   another waiter   changed   its goal, or nobody moves        a completion, a message that has come, a failure; a
 *                                                               mover that leaves
 *   close            changed   nobody moves                     the same; it rings again each millisecond
 *   the thread       work      something is in flight and       notice, also of a waiter that leaves; the end
 *                              nobody waits
 */
#ifndef RING_MESSAGES_STATE_H
#define RING_MESSAGES_STATE_H

#include "api/comm_state.h"
#include "messages/channel.h"
#include "progress/progress.h"

struct ring_messages {
  ring_progress progress;
  size_t references; /* one of the user, one of each transfer that was not freed */
  ring_comm *comm;   /* NULL when it was freed */
  int rank, size;
  ring_channel *channels;
  ring_matching matching;
  ring_poll_set poll_set;
  int bell[2]; /* a pipe that wakes the mover */
  size_t bell_slot;
  int completions; /* a descriptor that a byte is written to with each completion; -1: none */
  ring_transfer *newest;
  size_t in_flight; /* transfers that are not done */
  size_t queued;    /* packets that are not sent */
  bool wants;       /* some channel wants a link */
  ring_transfer *spare;
  uint64_t moved;       /* frames and pieces of frames, of all channels */
  atomic_uint entering; /* threads that wait for the mutex while the mover spins */
  bool polling;         /* the mover sleeps, and the bell wakes it */
  bool news;            /* since the mover fell asleep: a completion, a packet, a wanted link */
  bool closing, closed, broken;
  ring_error failure; /* once `broken` */
};

static inline void messages_lock(ring_messages *messages) {
  atomic_fetch_add_explicit(&messages->entering, 1, memory_order_relaxed);
  pthread_mutex_lock(&messages->progress.mutex);
  atomic_fetch_sub_explicit(&messages->entering, 1, memory_order_relaxed);
}

static inline void messages_unlock(ring_messages *messages) {
  pthread_mutex_unlock(&messages->progress.mutex);
}

static inline ring_peer *messages_peer(const ring_messages *messages, int rank) {
  return &messages->comm->peers.peer[rank];
}

/* Why the last call of this thread on messages has failed. */
ring_error *ring_messages_reason(void);

/* Sets it to RING_INVALID, and returns that. */
ring_status ring_messages_invalid(const char *problem);

/* False in a forked child. */
bool ring_messages_are_mine(const ring_messages *messages);

/* RING_OK where this process may use the messages. */
ring_status ring_messages_check(const ring_messages *messages);

/* Copies the failure that has ended the messages. False where none has. Called without the mutex. */
bool ring_messages_failure(ring_messages *messages, ring_error *failure);

/* From now on each completion of a transfer writes a byte to `fd`, which does not block. -1: no more. */
void ring_messages_announce_completions(ring_messages *messages, int fd);

/* Frees all memory and descriptors. */
void ring_messages_release(ring_messages *messages);

/* Releases the messages with the last reference. Called with the mutex, which is released. */
void ring_messages_drop(ring_messages *messages);

#endif
