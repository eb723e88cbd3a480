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

#include "engine.h"
#include "plan.h"

typedef enum ring_comm_state { RING_COMM_OPEN, RING_COMM_BROKEN, RING_COMM_CLOSED } ring_comm_state;

/* Messages between this rank and another one so far. */
typedef struct ring_messages {
  uint32_t sent, received;
} ring_messages;

struct ring_comm {
  pid_t process; /* a forked child has another one */
  atomic_flag busy;
  ring_comm_state state;
  ring_error error;   /* of the last call that failed */
  ring_error failure; /* what broke it */
  ring_peers peers;
  ring_engine engine;
  ring_plans plans;
  uint64_t *offsets;       /* of the parts of a call with counts: 2 (size + 1), or NULL */
  ring_messages *messages; /* by rank */
  int local_rank, local_size;
  uint32_t sequence; /* of the last collective call */
  uint64_t calls;
  double call_timeout;
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
};

/* Every call on a communicator is between these two. enter returns RING_OK, or why there can be no
 * call now; only after RING_OK is leave called. */
ring_status ring_comm_enter(ring_comm *comm);
void ring_comm_leave(ring_comm *comm);

/* Keeps `error` as what broke the communicator, and tells the other ranks. */
void ring_comm_break(ring_comm *comm, const ring_task *task, const ring_error *error);

#endif
