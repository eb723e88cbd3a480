/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend carries collectives out. The communicator chooses one when it opens and calls it through
 * this table; ring_comm_explain reports its name. `native` (native.h) is always there: it opens first,
 * connects the ranks, detects failures, and carries out every call that another backend does not serve.
 *
 * Another backend is opened by a function of its own, on all ranks, in ring_comm_gather_up, after its first
 * barrier. Collectives of `native` serve it there to exchange what it needs: each rank's
 * number in MPI_COMM_WORLD, or an ncclUniqueId. Calls that the core makes itself, to open, split and close,
 * are carried out by `native`.
 *
 * Rules for `run`:
 * - It blocks until this rank's buffers may be used again. Requests need no more: a thread of theirs
 *   calls it. Work on a stream or a nonblocking MPI call is polled to its end.
 * - Every wait calls ring_wait_check at least every 100 ms: the deadline, the interrupt hook, and the
 *   thread that aborts are found there. A wait outside of `native` calls ring_outside_wait_look, which does that and
 *   looks at the links.
 * - Ranks have to pass the same signature. A backend that cannot compare signatures adds them to
 *   `unchecked`, and leaves RING_MISMATCH to close.
 * - On failure the output is undefined and *error names the rank at fault (-1: unknown). The
 *   communicator then calls `fail` and never `run` again.
 */
#ifndef RING_BACKEND_BACKEND_H
#define RING_BACKEND_BACKEND_H

#include "base/wait.h"
#include "schedule/outline.h"

/* One call with its buffers. A buffer that this rank does not use has count 0. The call is in place
 * where the buffers overlap; entry_points.c has checked that the collective allows the place. */
typedef struct ring_backend_call {
  ring_outline outline;       /* collective, op, dtype, root, counts */
  const ring_call *signature; /* what the ranks compare; NULL: outline.call */
  const void *input;
  void *output;
  uint64_t output_count;   /* elements that this rank gets */
  const char *description; /* of the array, for errors; NULL: none */
  ring_wait *wait;         /* prepared; it begins when the backend first waits */
} ring_backend_call;

/* How a call is carried out where no schedule over links is. Strings of static storage. */
typedef struct ring_backend_way {
  const char *algorithm, *reason;
  const char *traffic; /* a sentence for the text of ring_comm_explain */
  uint64_t cost;       /* ps; 0: unknown */
} ring_backend_way;

typedef struct ring_backend ring_backend;

typedef struct ring_backend_table {
  const char *name;

  /* Whether the backend carries the call out; NULL: it carries all calls out. Depends on what all ranks
   * know alike, so that all ranks decide alike. */
  bool (*serves)(const ring_backend *backend, const ring_outline *outline);

  ring_status (*run)(ring_backend *backend, const ring_backend_call *call, ring_error *error);

  /* False where the call is a schedule over links, which ring_select chooses. */
  bool (*explain)(const ring_backend *backend, const ring_outline *outline, ring_backend_way *way);

  /* Called as close begins: RING_OK, or why the backend can carry nothing out any more. The communicator fails with
   * that *error. NULL: it always can. */
  ring_status (*check)(const ring_backend *backend, ring_error *error);

  /* Sends the failure to the other ranks and ends what runs there on this rank's behalf. Another backend
   * calls that of `native` besides. */
  void (*fail)(ring_backend *backend, const ring_error *error);

  /* All ranks have closed: gives back what they hold in common, which waits for all of them. NULL: nothing. A
   * communicator that fails never calls it. */
  void (*end)(ring_backend *backend);

  /* Frees what the backend holds. `torn`: the process was forked while a thread used the backend;
   * nothing but descriptors may be touched then. */
  void (*close)(ring_backend *backend, bool torn);
} ring_backend_table;

/* The first member of every backend. */
struct ring_backend {
  const ring_backend_table *table;
  /* Digest of the calls whose signatures the ranks have not compared; 0: none. Close compares it. */
  uint64_t unchecked;
};

static inline bool ring_backend_serves(const ring_backend *backend, const ring_outline *outline) {
  return backend->table->serves == NULL || backend->table->serves(backend, outline);
}

#endif
