/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator as the core sees it: the peers, an engine that runs schedules over them, and the
 * state of its life. It is open until close, abort or a failure; a failure is kept, and every later
 * call returns it.
 */
#ifndef RING_COMM_H
#define RING_COMM_H

#include <stdatomic.h>
#include <sys/types.h>

#include "api/reserved_port.h"
#include "engine/engine.h"
#include "shm/control_block.h"
#include "tuner/plan.h"

typedef enum ring_comm_state { RING_COMM_OPEN, RING_COMM_BROKEN, RING_COMM_CLOSED } ring_comm_state;

/* What a call copies of its arguments. Calls that wait share the communicator's, every request has
 * its own; they only grow. */
typedef struct ring_store {
  uint64_t *offsets; /* of the parts of a call with counts: 2 (size + 1), or NULL */
  ring_buffer *buffers;
  size_t buffer_capacity;
  char description[RING_DESCRIPTION_BYTES];
} ring_store;

/* `error` is the calling thread's; the thread that runs a request only writes `failure`, once, and
 * then `state`. */
struct ring_comm {
  unsigned process; /* a forked child has another one */
  atomic_flag busy;
  _Atomic(ring_comm_state) state;
  atomic_bool ending; /* aborted in a hook of a request, and open until that returns */
  ring_error error;   /* of the last call that failed */
  ring_error failure; /* what broke it */
  ring_peers peers;
  ring_engine engine;
  ring_plans plans;
  ring_topology topology;
  ring_shm shm;
  ring_poll_set wait_polls; /* of the listener, which is served while shm waits */
  bool shares; /* memory with the ranks of its host, unless the user does not want it */
  ring_store store;
  uint64_t
      described; /* the digest of what ring_comm_describe() said of the next call; 0: nothing */
  char description[RING_DESCRIPTION_BYTES];
  struct ring_queue *queue;  /* of requests; NULL before the first one */
  atomic_size_t outstanding; /* requests that are not done */
  uint8_t *bundle;           /* where a group's short buffers travel together */
  size_t bundle_capacity;
  int local_rank, local_size;
  uint32_t sequence; /* of the last collective call */
  uint64_t calls;
  uint16_t port_first, port_last; /* for the listeners of its children, too */
  ring_reserved_ports ports;      /* held for servers of others */
  double call_timeout;
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_alarm alarm;
  bool watch_parent;
};

/* Prepares a wait (wait.h) that heeds and tells what the communicator's user wants. */
static inline void comm_prepare_wait(const ring_comm *comm, double seconds, ring_wait *wait) {
  ring_wait_prepare(wait, seconds, comm->interrupt, comm->interrupt_arg);
  wait->alarm = &comm->alarm;
  wait->watch_parent = comm->watch_parent;
}

/* A communicator without peers, or NULL. */
ring_comm *ring_comm_alloc(int rank, int size, double call_timeout);

/* The end of every opening, once it is known where the peers are: a barrier proves that the ranks
 * can reach each other. Whatever all ranks set up together before their first call belongs here. */
ring_status ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error);

/* Every call on a communicator is between enter and leave. enter waits for the requests that are
 * outstanding, enter_beside does not. They return RING_OK, or why there can be no call now; only
 * after RING_OK is leave called. */
ring_status ring_comm_enter(ring_comm *comm);
ring_status ring_comm_enter_beside(ring_comm *comm);
void ring_comm_leave(ring_comm *comm);

/* Keeps `error` as what broke the communicator, and tells the other ranks. */
void ring_comm_break(ring_comm *comm, const ring_task *task, const ring_error *error);

void ring_store_free(ring_store *store);

#endif
