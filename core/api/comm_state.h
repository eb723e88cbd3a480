/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a communicator: its ranks, the backend that carries its calls out, and how far its
 * life has come. It is open until close, abort or a failure. A failure is kept, and every later call
 * returns it. comm_lifecycle.h opens and ends communicators.
 */
#ifndef RING_API_COMM_STATE_H
#define RING_API_COMM_STATE_H

#include <stdatomic.h>

#include "api/world.h"
#include "backend/native.h"
#include "peers/peers.h"
#include "schedule/topology.h"
#include "shm/control_block.h"
#include "shrink/generation.h"

typedef enum ring_comm_state { RING_COMM_OPEN, RING_COMM_BROKEN, RING_COMM_CLOSED } ring_comm_state;

/* Copies of the arguments of a call. Blocking calls use the communicator's store, each request has its
 * own. A store only grows. */
typedef struct ring_store {
  uint64_t *offsets;      /* of the parts of a call with counts: 2 (size + 1), or NULL */
  ring_group_item *items; /* of a group */
  size_t item_capacity;
  char description[RING_DESCRIPTION_BYTES];
} ring_store;

struct collective_args;

/* Memory of a GPU, on which a call works (device/placed.c). `run` NULL: memory of the host. */
typedef struct ring_place {
  ring_status (*run)(ring_device *device, const struct collective_args *args, void *stream,
                     ring_error *error);
  ring_device *device;
  void *stream;
} ring_place;

/* Ports that are held for servers of others (reserved_port.h). */
typedef struct ring_reserved_ports {
  int *sockets;
  size_t count;
} ring_reserved_ports;

/* `error` belongs to the calling thread. The thread that runs a request writes `failure`, once, and
 * then `state`. An abort writes `abort_cause`, once, and then `stop_cause` and `stop`. From then on no
 * call enters, and the calls inside end at their next look at the clock. */
struct ring_comm {
  unsigned process; /* a forked child has another one */
  atomic_flag busy;
  _Atomic(const void *) holder; /* the mark of the thread that set `busy`; NULL: none */
  _Atomic(ring_comm_state) state;
  atomic_bool ending; /* aborted in a hook of a request, and open until the hook returns */
  ring_error error;   /* of the last call that failed */
  ring_error failure; /* which broke the communicator */
  ring_world *world;  /* its place there; NULL until the communicator is open */
  ring_peers peers;
  atomic_bool lasting; /* its listener and its keys outlive a failure, for ring_comm_shrink */
  int listener;        /* then, from the failure on; else -1 */
  ring_roster
      *roster; /* of a communicator that shrink has made, or has failed to shrink; else NULL */
  ring_topology topology;
  ring_shm shm;
  ring_poll_set wait_polls; /* of the listener, which is served while shm waits */
  bool shares;              /* memory with the ranks of its host, unless the user refused */
  bool scaled;              /* the next call has the factors below */
  bool wants_mpi;           /* as `backend`, where there are several ranks */
  bool watch_parent;
  ring_backend *backend; /* chosen by all ranks alike; `native` or one that opened above it */
  ring_native native;
  ring_store store;
  ring_timeline *timeline; /* NULL: nothing is recorded */
  uint64_t described;      /* digest that ring_comm_describe() gave for the next call; 0: none */
  char description[RING_DESCRIPTION_BYTES];
  double prescale, postscale;         /* factors that ring_comm_scale() gave for the next call */
  ring_place place;                   /* of the buffers of the next call */
  _Atomic(struct ring_queue *) queue; /* of requests; NULL before the first one */
  atomic_size_t outstanding;          /* requests that are not done */
  atomic_flag aborted;                /* by a thread that writes the cause */
  ring_error abort_cause;
  _Atomic(const ring_error *) stop_cause; /* why calls were stopped; NULL: they were not */
  ring_stop
      stop; /* ends the waits of calls; above it: the communicators that this one was made of */
  uint8_t *bundle; /* a group's short buffers, one behind another */
  size_t bundle_capacity;
  int local_rank, local_size;
  bool spare_cores;  /* this host has two processors or more for each of its ranks */
  uint32_t sequence; /* of the last collective call */
  uint64_t calls;
  uint16_t port_first, port_last; /* of listeners, its children's too */
  ring_reserved_ports ports;
  double call_timeout;
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_alarm alarm;
};

/* Prepares a wait with the hooks of the communicator's user. */
static inline void comm_prepare_wait(const ring_comm *comm, double seconds, ring_wait *wait) {
  ring_wait_prepare(wait, seconds, comm->interrupt, comm->interrupt_arg);
  wait->stop = &comm->stop;
  wait->alarm = &comm->alarm;
  wait->watch_parent = comm->watch_parent;
}

/* Makes this thread the only one in the communicator until ring_comm_leave. RING_INVALID for NULL and
 * in a forked child, RING_BUSY while another thread is in it, RING_ABORTED once an abort has begun. */
ring_status ring_comm_acquire(ring_comm *comm);

/* Gives a communicator its place in the world. */
void ring_comm_settle(ring_comm *comm, ring_world *world);

/* Whether a communicator that this one was made of was shrunk. Then *error says so; `what` is "this communicator". */
bool ring_comm_is_orphan(const ring_comm *comm, const char *what, ring_error *error);

/* Makes this thread the only one in the communicator, whatever its state. False: another thread is in it. */
bool ring_comm_try(ring_comm *comm);

/* Keeps `cause`, unless there is one, keeps new calls out and ends the waits of the calls inside. */
void ring_comm_stop(ring_comm *comm, const ring_error *cause);

/* Acquires a communicator that was stopped, once the call of another thread has ended. False when the call does
 * not end. */
bool ring_comm_acquire_stopped(ring_comm *comm);

/* The same, once the requests have ended, too: a thread that runs one does not hold the communicator. */
bool ring_comm_acquire_idle(ring_comm *comm);

/* Whether this thread is in a hook of a call that holds the communicator. */
bool ring_comm_is_mine(const ring_comm *comm);

/* RING_OK while the communicator is open. Else leaves it, sets comm->error and returns its status. */
ring_status ring_comm_check_open(ring_comm *comm);

/* Acquires and checks. Does not wait for outstanding requests; ring_comm_enter (request_queue.h) does. After
 * RING_OK the caller has to leave. */
ring_status ring_comm_enter_beside(ring_comm *comm);
void ring_comm_leave(ring_comm *comm);

/* Keeps `error`, or the cause that stopped the requests, as the failure of the communicator, and sends
 * it to the other ranks. */
void ring_comm_break(ring_comm *comm, const ring_error *error);

/* Ends what a failed communicator keeps for ring_comm_shrink, also that of a failure that is to come: for the other
 * ranks this rank is gone. Called between acquire and leave. */
void ring_comm_resign(ring_comm *comm);

/* Gives the place of the buffers of the next call. */
void ring_comm_place(ring_comm *comm, const ring_place *place);

void ring_store_free(ring_store *store);

#endif
