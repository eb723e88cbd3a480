/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring: the tasks of a Spark barrier stage form a ring and compute together.
 *
 * A communicator (`ring_comm`) is a verified group of `size` processes with the ranks 0 to size-1. All
 * ranks open it, make the same collective calls in the same order, and close it. Functions return a
 * `ring_status`; `ring_comm_error` explains a failure: what happened, which rank and host, what to do.
 *
 * Threads: a communicator serves one call at a time (collective, start, split, close); a second call
 * meanwhile returns RING_BUSY. Abort, free, error and ring_port_release may not run beside a call;
 * read-only functions may run at any time. Requests are not calls. Communicators are independent.
 *
 * Forks: a forked child may only free its parent's communicators and requests, and need not. The
 * library never prints, exits or installs a signal handler; an MPI library that the backend mpi loads may do all
 * three. It runs one thread, with all signals blocked, while requests are outstanding, one for each open reducer,
 * messages and device (which has messages, too), two for each PMI server, and one while a communicator with the
 * backend mpi opens.
 */
#ifndef SPARKRING_H
#define SPARKRING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RING_API
#define RING_API __attribute__((visibility("default")))
#endif

#define RING_VERSION "0.1.0"

/* ---- Errors ------------------------------------------------------------------------------- */

typedef enum ring_status {
  RING_OK = 0,
  RING_INVALID = 1,     /* bad argument */
  RING_TIMEOUT = 2,     /* the deadline passed */
  RING_PEER_LOST = 3,   /* another rank died or cannot be reached */
  RING_MISMATCH = 4,    /* the ranks made different calls */
  RING_AUTH = 5,        /* authentication failed */
  RING_ABORTED = 6,     /* ring_comm_abort on some rank, or an interrupt */
  RING_BUSY = 7,        /* another call on this communicator is running */
  RING_UNSUPPORTED = 8, /* not supported here */
  RING_NO_MEMORY = 9,
  RING_SYSTEM = 10 /* a system call failed */
} ring_status;

typedef struct ring_error {
  ring_status status;
  int rank; /* at fault, or -1 */
  int system_errno;
  char message[1024]; /* for the user */
} ring_error;

/* ---- Element types and operations --------------------------------------------------------- */

typedef enum ring_dtype {
  RING_INT8 = 0,
  RING_UINT8 = 1,
  RING_INT32 = 2,
  RING_INT64 = 3,
  RING_FLOAT16 = 4,  /* accumulated in float32 and rounded once */
  RING_BFLOAT16 = 5, /* the same */
  RING_FLOAT32 = 6,
  RING_FLOAT64 = 7,
  RING_BOOL = 8, /* 1 byte: 0 is false, else true; reductions return 0 or 1 */
  RING_INT16 = 9,
  RING_UINT16 = 10,
  RING_UINT32 = 11,
  RING_UINT64 = 12,
  RING_COMPLEX64 = 13, /* real and imaginary part, as a struct of two floats or float _Complex */
  RING_COMPLEX128 = 14 /* the same of doubles */
} ring_dtype;

/* Logical and bitwise ops take integers and bool. On bool, SUM, MAX and BOR are LOR; PROD, MIN and BAND
 * are LAND; BXOR is LXOR; there is no AVG. Complex dtypes have SUM, PROD and AVG only. */
typedef enum ring_op {
  RING_SUM = 0,  /* integers wrap (two's complement) */
  RING_PROD = 1, /* the same */
  RING_MIN = 2,  /* NaN where any rank holds NaN */
  RING_MAX = 3,  /* the same */
  RING_AVG = 4,  /* the sum divided by size; integers truncate towards zero */
  RING_LAND = 5, /* logical and: 0 or 1 */
  RING_LOR = 6,  /* logical or: 0 or 1 */
  RING_LXOR = 7, /* logical exclusive or: 0 or 1 */
  RING_BAND = 8, /* bitwise and */
  RING_BOR = 9,  /* bitwise or */
  RING_BXOR = 10 /* bitwise exclusive or */
} ring_op;

/* ---- Options ------------------------------------------------------------------------------ */

typedef struct ring_comm ring_comm;

/* RING_DEFAULT takes the environment variable that the option names, else the default. */
typedef enum ring_choice { RING_DEFAULT = 0, RING_ON, RING_OFF } ring_choice;
#define RING_NEVER (-1.0) /* a duration that never ends */

/* Hooks run on the calling thread. An interrupt hook runs about every 100 ms of waiting; non-zero ends the
 * wait: the call returns RING_ABORTED and the communicator is broken. A log hook receives a warning that a
 * call waits: where, for how long and for which rank; it may not use the communicator. */
typedef int (*ring_interrupt_fn)(void *arg);
typedef void (*ring_log_fn)(void *arg, const char *message);

/* An exchange hook sends `mine` to all ranks and calls put(sink, r, text of r), which copies the text, for
 * every rank r. Non-zero means failure. The texts may be read (public keys) but must not be forged. */
typedef void (*ring_exchange_put_fn)(void *sink, int rank, const char *text);
typedef int (*ring_exchange_fn)(void *arg, const char *mine, ring_exchange_put_fn put, void *sink);

/* How a rank finds the others, and how it works with them. Begin with RING_OPTIONS_INIT; a field that is
 * 0 or NULL has its default. Durations are seconds, more than 0. Strings are read in ring_comm_open only.
 * All ranks pass the same algorithms, connections, encryption and backend, else RING_MISMATCH. The ranks
 * come from
 *
 * - an exchange: rank, size, addresses and `exchange`;
 * - addresses: rank, size and either `addresses` or `root_address`; or
 * - the environment: rank -1, as sparkring-run, Open MPI, MPICH, Slurm or torchrun has set it, missing
 *   fields from SPARKRING_* (vignette "rendezvous"); without any, a world of one. */
typedef struct ring_options {
  size_t struct_size;

  /* Identity: which ranks there are, and what proves them. */
  int rank;                     /* 0 to size-1; -1: from the environment */
  int size;                     /* 0: address_count */
  const char *const *addresses; /* in rank order; a port in an address is ignored */
  int address_count;            /* 0: none; else size */
  const char *root_address;     /* rank 0's host, where addresses are not known */
  const char *job;              /* distinguishes jobs that share addresses and token */
  const void *token;            /* the job's secret, 16 random bytes or more */
  size_t token_length;
  ring_choice encryption; /* of links over the network (TLS 1.3); needs a token or an exchange;
                             SPARKRING_ENCRYPTION (1 or 0), else off */

  /* Limits. */
  uint16_t
      port_first; /* to listen on; 0: any free port for links, 21000 to 31999 for finding rank 0 */
  uint16_t port_last;  /* the last of the ports; 0 if port_first is 0 */
  double timeout;      /* until all ranks must have joined, from the exchange's end on; 0: 300 */
  double call_timeout; /* that a call waits with nothing moving, or is in MPI; 0: 600 */
  double warn_after; /* the same before `log` is called, doubled each time; RING_NEVER: no warnings;
                          0: SPARKRING_WARN_AFTER, else 60 */
  ring_choice watch_parent; /* whether waits end when this process's parent has ended; else off */

  /* Hooks. interrupt and log serve every later call, too. */
  ring_exchange_fn exchange;
  void *exchange_arg;
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_log_fn log;
  void *log_arg;

  /* Tuning; vignette "performance". */
  ring_choice shared_memory; /* inside a host; SPARKRING_SHARED_MEMORY (1 or 0), else on */
  int connections;           /* of a link between hosts, 1 to 16; SPARKRING_CONNECTIONS, else 1 */
  const char *algorithms;    /* rules, as in "allreduce:ring:64KiB-,broadcast:tree:-1MiB";
                                SPARKRING_ALGORITHM, else the table of costs decides */
  const char *backend; /* "native", or "mpi": an MPI library carries collectives out, for ranks
                                that its mpirun has started; SPARKRING_BACKEND, else native. Buffers
                                of a call of MPI that fails must stay allocated until the process
                                ends; vignette "mpi" */
} ring_options;

#ifdef __cplusplus
static inline ring_options ring_options_init(void) {
  ring_options options = ring_options();
  options.struct_size = sizeof options;
  options.rank = -1;
  return options;
}
#define RING_OPTIONS_INIT ring_options_init()
#else
#define RING_OPTIONS_INIT {.struct_size = sizeof(ring_options), .rank = -1}
#endif

/* ---- Life --------------------------------------------------------------------------------- */

/* Opens a communicator: finds the other ranks, verifies that they belong to the job, and passes a first
 * barrier. Collective. On failure *comm is NULL and *error (may be NULL) names the missing ranks. A rank
 * that fails right after its own open can fail the open of a slower rank, too. */
RING_API ring_status ring_comm_open(const ring_options *options, ring_comm **comm,
                                    ring_error *error);

/* Opens a communicator of the ranks that pass the same color, ordered by key, then by rank; a negative
 * color gets NULL. Collective over `comm`. The child inherits options and hooks, has links of its own and
 * may outlive `comm`. On failure *child is NULL; `comm` has the error and is usable unless it failed. */
RING_API ring_status ring_comm_split(ring_comm *comm, int color, int key, ring_comm **child);

/* Opens a communicator of the ranks of `comm` that still live, in their old order, with dense numbers. `comm` has
 * failed on some ranks; the first rank that calls shrink ends it on all others. Every living rank must call shrink: one
 * that does not is awaited until `timeout` seconds have passed (0: the call timeout). Ranks may die at any time, also
 * during the call, any number at once. A rank that dies late leaves a new communicator that fails: shrink that one. A
 * rank counts as dead when its port refuses connections: its process has ended, or has closed, aborted or freed `comm`. A
 * host that vanished does not, and ends the call with RING_TIMEOUT. Until then a failed communicator keeps its port.
 *
 * The new communicator has links, keys and an epoch of its own, so nothing that was sent in `comm` can reach it. It
 * inherits options and hooks, and its backend is native. `comm` stays failed, must still be freed, and cannot be shrunk
 * again. Communicators that it was split into, its messages and its reducers end at their next look at the clock, with
 * RING_ABORTED and an error that says so.
 * On failure *shrunk is NULL and *error (may be NULL) names ranks by their numbers in the communicator that was opened or
 * split off before the first shrink; after RING_TIMEOUT shrink may be called again. RING_INVALID: `comm` was closed,
 * aborted or shrunk. */
RING_API ring_status ring_comm_shrink(ring_comm *comm, double timeout, ring_comm **shrunk,
                                      ring_error *error);

/* Waits for outstanding requests, then until every rank has called close, and ends all links. Collective.
 * RING_OK means that no rank's calls differed. Read-only functions work until ring_comm_free. A failed
 * communicator that is closed or aborted gives its port back, and cannot be shrunk. */
RING_API ring_status ring_comm_close(ring_comm *comm);

/* Ends the communicator at once, from this rank alone: the other ranks' current or next call returns
 * RING_ABORTED with `reason` (may be NULL). Any thread may call abort. From then on every new call of this
 * rank returns RING_ABORTED. Calls of other threads, which end within about 100 ms, and outstanding requests
 * return RING_ABORTED and free their buffers before abort returns, or, in a hook of a call, soon after the
 * hook has returned. */
RING_API void ring_comm_abort(ring_comm *comm, const char *reason);

/* Frees the communicator (or NULL); aborts it first where it is open. Requests are complete afterwards and
 * can still be read. In a forked child this releases memory and descriptors only. Not from a hook. */
RING_API void ring_comm_free(ring_comm *comm);

/* The last failure of a call, but no RING_BUSY; RING_OK: none. Valid until ring_comm_free. */
RING_API const ring_error *ring_comm_error(const ring_comm *comm);

RING_API int ring_comm_rank(const ring_comm *comm);
RING_API int ring_comm_size(const ring_comm *comm);

/* ---- Collectives -------------------------------------------------------------------------- */

/* Every rank makes the same call with the same count or counts, dtype, op and root, in the same order.
 * `counts` holds one number of elements for each rank; parts lie in rank order. Buffers are aligned for
 * their dtype, may be NULL where they hold 0 elements, and overlap only where a function permits it.
 *
 * Ranks that make different calls get RING_MISMATCH, from this call, the next one or close. After a
 * failure other than RING_INVALID and RING_BUSY the output is undefined, the communicator is broken, and
 * later calls return the same status. Results are identical to the bit in every run and on every rank. */

/* Every rank gets op over the inputs of all ranks, element by element. In place: output is input. */
RING_API ring_status ring_allreduce(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype, ring_op op);

typedef struct ring_buffer {
  const void *input;
  void *output;
  size_t count;
} ring_buffer;

/* One ring_allreduce of each buffer, as one call: short buffers travel together. All ranks pass as many
 * buffers with the same counts; buffers do not overlap. In place: a buffer's output is its input. */
RING_API ring_status ring_allreduce_group(ring_comm *comm, const ring_buffer *buffers,
                                          size_t buffer_count, ring_dtype dtype, ring_op op);

/* Root gets the result of ring_allreduce; output is used on root only. In place: output is input. */
RING_API ring_status ring_reduce(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, ring_op op, int root);

/* Rank r gets part r of the result of ring_allreduce: input holds size * count elements, or the sum of
 * counts, and output holds this rank's part. In place: output is this rank's part of input. */
RING_API ring_status ring_reduce_scatter(ring_comm *comm, const void *input, void *output,
                                         size_t count, ring_dtype dtype, ring_op op);
RING_API ring_status ring_reduce_scatterv(ring_comm *comm, const void *input, void *output,
                                          const size_t *counts, ring_dtype dtype, ring_op op);

/* Rank r gets op over the inputs of ranks 0 to r; with exscan, of ranks 0 to r-1, and rank 0 gets the op's
 * identity: 0 for SUM, 1 for PROD, the largest value for MIN. No AVG. In place: output is input. */
RING_API ring_status ring_scan(ring_comm *comm, const void *input, void *output, size_t count,
                               ring_dtype dtype, ring_op op);
RING_API ring_status ring_exscan(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, ring_op op);

/* Every rank gets root's input, which is read on root only. In place: output is input. */
RING_API ring_status ring_broadcast(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype, int root);

/* Every rank gets the inputs of all ranks, in rank order: size * count elements, or the sum of counts.
 * In place: input is this rank's part of output. */
RING_API ring_status ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype);
RING_API ring_status ring_allgatherv(ring_comm *comm, const void *input, void *output,
                                     const size_t *counts, ring_dtype dtype);

/* Root gets what ring_allgather returns; output is used on root only. In place on root: as there. */
RING_API ring_status ring_gather(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, int root);
RING_API ring_status ring_gatherv(ring_comm *comm, const void *input, void *output,
                                  const size_t *counts, ring_dtype dtype, int root);

/* Rank r gets part r of root's input, read on root only. In place on root: output is its own part. */
RING_API ring_status ring_scatter(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype, int root);
RING_API ring_status ring_scatterv(ring_comm *comm, const void *input, void *output,
                                   const size_t *counts, ring_dtype dtype, int root);

/* Part r of rank s's input becomes part s of rank r's output: count elements, or rank s's `sends[r]`,
 * which equals rank r's `receives[s]`. Never in place. */
RING_API ring_status ring_alltoall(ring_comm *comm, const void *input, void *output, size_t count,
                                   ring_dtype dtype);
RING_API ring_status ring_alltoallv(ring_comm *comm, const void *input, const size_t *sends,
                                    void *output, const size_t *receives, ring_dtype dtype);

/* Returns when every rank has called it. */
RING_API ring_status ring_barrier(ring_comm *comm);

/* One message from this rank to `peer`, which receives it with the same count and dtype. Messages
 * between two ranks arrive in order; send may return before the peer has received. Only these two ranks
 * call, and at the same place in the order of their collectives. sparkring_messages.h has messages without a
 * place there, with tags, from any rank, and started ones. */
RING_API ring_status ring_send(ring_comm *comm, const void *input, size_t count, ring_dtype dtype,
                               int peer);
RING_API ring_status ring_recv(ring_comm *comm, void *output, size_t count, ring_dtype dtype,
                               int peer);

#ifdef __cplusplus
}
#endif

#include "sparkring_async.h"    /* IWYU pragma: export */
#include "sparkring_device.h"   /* IWYU pragma: export */
#include "sparkring_messages.h" /* IWYU pragma: export */
#include "sparkring_pmi.h"      /* IWYU pragma: export */
#include "sparkring_reducer.h"  /* IWYU pragma: export */
#include "sparkring_tools.h"    /* IWYU pragma: export */

#endif
