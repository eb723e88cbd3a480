/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives over messages of MPI: the schedules that `native` runs over links, with an MPI_Isend or MPI_Irecv for
 * each frame. MPI's own nonblocking collectives take up to 4.5 times as long as its blocking ones, which know no
 * deadline. Messages do not, and the reductions are those of `native`, in one order on all ranks.
 *
 * A receive may begin in memory that this rank still sends in place: its message is sent by a rank that has
 * received that memory before.
 */
#ifndef RING_BACKEND_MPI_MESSAGES_H
#define RING_BACKEND_MPI_MESSAGES_H

#include "backend/backend.h"
#include "backend/mpi_driver.h"
#include "engine/run.h"
#include "tuner/plan.h"

typedef struct ring_mpi_messages {
  int most;           /* ranks of a communicator that uses messages */
  ring_engine engine; /* progress and memory of the runs; no links */
  ring_plans plans;
  ring_mpi_handle *requests; /* by lane */
  size_t capacity;           /* lanes */
  ring_task task;
  ring_run run;
} ring_mpi_messages;

/* Chooses algorithms like `selector`, that of the links, except where MPI differs (README.md). */
void ring_mpi_messages_init(ring_mpi_messages *messages, ring_peers *peers,
                            const ring_selector *selector);

/* Frees what no message uses any more. */
void ring_mpi_messages_fini(ring_mpi_messages *messages);

/* Whether a call of this outline, which ring_mpi_plan_serves, goes over messages. All ranks decide alike. */
bool ring_mpi_messages_serve(const ring_mpi_messages *messages, const ring_outline *outline);

/* The algorithm of such a call, for explain. */
const char *ring_mpi_messages_algorithm(const ring_mpi_messages *messages,
                                        const ring_outline *outline);

/* Begins a call. RING_NO_MEMORY: *error explains. */
ring_status ring_mpi_messages_begin(ring_mpi_messages *messages, const ring_backend_call *call,
                                    ring_error *error);

/* Gives each lane a turn. Returns MPI's code. Sets *done once nothing of the call is left. */
int ring_mpi_messages_turn(ring_mpi_messages *messages, const ring_mpi_driver *driver,
                           ring_mpi_handle comm, int tag, int *done);

#endif
