/* SPDX-License-Identifier: Apache-2.0
 *
 * The scenes that mpi_rank.c plays, and how they open communicators.
 */
#ifndef RING_MPI_SCENES_H
#define RING_MPI_SCENES_H

#include <stdbool.h>

#include "sparkring.h"

/* Seconds that a scene may last. */
enum { LIMIT = 60 };

/* A communicator of the ranks that mpirun has started, of that backend. */
ring_status open_job(const char *backend, double call_timeout, ring_comm **comm, ring_error *error);
ring_comm *open_backend(const char *backend, double call_timeout);

/* Requests of two communicators at once. Where MPI admits one thread at a time, their threads take turns. */
void check_turns(ring_comm *comm);

void scene_compare(bool all);

/* Root waits for another rank over links, and then closes, while others still receive what root has sent by MPI: MPI
 * has to move it. */
void scene_ahead(void);

/* Rank 1 is killed while the others wait for it. */
void scene_killed(void);

/* A signal ends rank 1 while data move: some ranks have a part of the message, and requests under way. */
void scene_amid(void);

/* Rank 1 comes too late. MPI may still use the buffers of the call, so no communicator calls it any more. */
void scene_late(void);

/* Root waits for rank 1. Rank 2 has given its part, and is not at fault. */
void scene_finished(void);

/* Rank 1 aborts between two calls, and ends in order: it does not wait for ranks that have abandoned MPI. */
void scene_aborted(void);

/* Rank 0 aborts while a thread has its request under way. Its part may have reached the others, whose call succeeds
 * then; the next one fails. */
void scene_stopped(void);

/* The ranks pass different counts, ops or collectives, which close finds at the latest. */
void scene_differ(const char *how);

/* Rank 0 is interrupted while it waits for rank 1. */
void scene_interrupted(void);

/* The first handler of exit(), so the last that runs: there is no report where an exit never ends, as in MPI_Finalize
 * without the other ranks. */
void publish_report(void);

#endif
