/* SPDX-License-Identifier: Apache-2.0
 *
 * The R object of a communicator: an external pointer to a comm_handle, of class "ring_comm". The
 * handle belongs to the pointer, whose finaliser frees it. A communicator that was never closed is
 * aborted then, and the calls of the other ranks fail. The pointer protects a pairlist of the
 * requests that it has taken over (request.h).
 *
 * A process opens one usable communicator at a time. Only the order in which every rank opens them would
 * distinguish two, and a program easily has another order on some rank. The call of the split
 * distinguishes the communicators of a split.
 */
#ifndef SPARKRING_COMM_H
#define SPARKRING_COMM_H

#include <Rinternals.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/bindings/trace.h"
#include "core/sparkring.h"

typedef struct comm_handle {
  ring_comm *comm;   /* NULL where opening it failed */
  ring_trace *trace; /* NULL: none */
  bool closed;       /* by ring_close, ring_abort or ring_shrink, and not broken by a failure */
  bool shares;       /* memory with other ranks, where the host has shared memory */
  pid_t process;     /* the process that opened it, and not a forked child */
} comm_handle;

/* The handle of a communicator. Raises an error when `comm` is no communicator, or was loaded from
 * a file. */
comm_handle *comm_of(SEXP comm);

/* A rank that the user has given as the argument of this name. Raises an error when it cannot be a
 * rank; the core checks whether there is such a rank. */
int comm_read_rank(SEXP rank, const char *name);

/* Whether a rank is this process's, such as the root, where the result is. */
bool comm_is_rank(const comm_handle *handle, int rank);

/* Follows every call of the core: continues a jump that was held back, and raises a failure as a
 * condition. Returns after a success only. */
void comm_finish(comm_handle *handle, ring_status status);

/* The entry points. R/comm.R and R/comm-init.R document them, and check their arguments. */
SEXP comm_open(SEXP rank, SEXP size, SEXP addresses, SEXP root_address, SEXP token, SEXP job,
               SEXP ports, SEXP timeout, SEXP call_timeout, SEXP warn_after, SEXP algorithms,
               SEXP shared_memory, SEXP connections, SEXP encryption, SEXP watch_parent,
               SEXP backend);
SEXP comm_split(SEXP comm, SEXP color, SEXP key);
SEXP comm_shrink(SEXP comm, SEXP seconds);
SEXP comm_close(SEXP comm, SEXP seconds);
SEXP comm_abort(SEXP comm, SEXP reason);
SEXP comm_rank(SEXP comm);
SEXP comm_size(SEXP comm);
SEXP comm_local_rank(SEXP comm);
SEXP comm_local_size(SEXP comm);
SEXP comm_hosts(SEXP comm);
SEXP comm_authenticated(SEXP comm);
SEXP comm_encrypted(SEXP comm);
SEXP comm_state(SEXP comm);
SEXP comm_counters(SEXP comm, SEXP peer);
SEXP comm_live(void);

#endif
