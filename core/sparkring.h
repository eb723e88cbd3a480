/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring: the tasks of a Spark barrier stage form a ring and compute together.
 *
 * A communicator (`ring_comm`) is a verified group of `size` processes; each has a `rank` from 0 to
 * size-1. All ranks open it, make the same collective calls in the same order, and close it. Functions
 * return a `ring_status`; `ring_comm_error` explains a failure: which rank, which host, what to do.
 *
 * Threads: a communicator serves one call at a time (collective, start, split, close); a second call
 * meanwhile returns RING_BUSY. Abort, free, error and ring_port_release may not run beside a call.
 * Read-only functions (rank, size, counters, link, usable, ...) may run in any thread at any time.
 * Requests are not calls. Communicators are independent of each other.
 *
 * Forks: a forked child may only free its parent's communicators and requests, and need not. The
 * library never prints, exits or installs a signal handler. It runs one thread, with all signals
 * blocked, while requests are outstanding.
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

/* RING_VERSION of the library, which may differ from that of the header. Static storage. */
RING_API const char *ring_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

/* Every status: X(name, value, text). The exceptions of R and Python are made from this list. */
#define RING_STATUS_MAP(X)                                                                         \
  X(OK, 0, "success")                                                                              \
  X(INVALID, 1, "bad argument")                                                                    \
  X(TIMEOUT, 2, "the deadline passed")                                                             \
  X(PEER_LOST, 3, "another rank died or cannot be reached")                                        \
  X(MISMATCH, 4, "the ranks called different things")                                              \
  X(AUTH, 5, "authentication failed")                                                              \
  X(ABORTED, 6, "the communicator was aborted")                                                    \
  X(BUSY, 7, "another call on this communicator is running")                                       \
  X(UNSUPPORTED, 8, "not supported here")                                                          \
  X(NO_MEMORY, 9, "out of memory")                                                                 \
  X(SYSTEM, 10, "a system call failed")

typedef enum ring_status {
#define RING_STATUS_ENUM(name, value, text) RING_##name = value,
  RING_STATUS_MAP(RING_STATUS_ENUM)
#undef RING_STATUS_ENUM
} ring_status;

typedef struct ring_error {
  ring_status status;
  int rank; /* at fault, or -1 */
  int system_errno;
  char message[1024]; /* for the user */
} ring_error;

/* "TIMEOUT" and "the deadline passed" for RING_TIMEOUT; "UNKNOWN" and a text of its own for a value
 * that is no status. Static storage. */
RING_API const char *ring_status_name(ring_status status);
RING_API const char *ring_status_text(ring_status status);

/* ---- Element types and operations --------------------------------------------------------- */

/* X(name, value, "name", bytes). */
#define RING_DTYPE_MAP(X)                                                                          \
  X(INT8, 0, "int8", 1)                                                                            \
  X(UINT8, 1, "uint8", 1)                                                                          \
  X(INT32, 2, "int32", 4)                                                                          \
  X(INT64, 3, "int64", 8)                                                                          \
  X(FLOAT16, 4, "float16", 2)                                                                      \
  X(BFLOAT16, 5, "bfloat16", 2)                                                                    \
  X(FLOAT32, 6, "float32", 4)                                                                      \
  X(FLOAT64, 7, "float64", 8)

typedef enum ring_dtype {
#define RING_DTYPE_ENUM(name, value, text, bytes) RING_##name = value,
  RING_DTYPE_MAP(RING_DTYPE_ENUM)
#undef RING_DTYPE_ENUM
} ring_dtype;

/* X(name, value, "name"). Integer sums and products wrap (two's complement). AVG is the sum divided
 * by the size, truncated towards zero on integers. MIN and MAX return NaN where any rank holds NaN.
 * LAND and LOR take integers only and return 0 or 1. */
#define RING_OP_MAP(X)                                                                             \
  X(SUM, 0, "sum")                                                                                 \
  X(PROD, 1, "prod")                                                                               \
  X(MIN, 2, "min")                                                                                 \
  X(MAX, 3, "max")                                                                                 \
  X(AVG, 4, "avg")                                                                                 \
  X(LAND, 5, "land")                                                                               \
  X(LOR, 6, "lor")

typedef enum ring_op {
#define RING_OP_ENUM(name, value, text) RING_##name = value,
  RING_OP_MAP(RING_OP_ENUM)
#undef RING_OP_ENUM
} ring_op;

/* ---- Options ------------------------------------------------------------------------------ */

typedef struct ring_comm ring_comm;

/* RING_DEFAULT takes the environment variable that the option names, else the default. */
typedef enum ring_choice { RING_DEFAULT = 0, RING_ON, RING_OFF } ring_choice;

/* A duration that never ends. */
#define RING_NEVER (-1.0)

/* Called on the calling thread about every 100 ms of waiting. Non-zero ends the wait: the call returns
 * RING_ABORTED and the communicator is broken. */
typedef int (*ring_interrupt_fn)(void *arg);

/* Receives, on the calling thread, a warning that a call waits: where, for how long and for which
 * rank. It may not use the communicator. */
typedef void (*ring_log_fn)(void *arg, const char *message);

/* An exchange: all ranks pass a text and get the texts of all, by put(sink, r, text of r) for every
 * rank r; put copies the text. Non-zero means failure. The texts hold public keys: a reader learns no
 * secret, but a forger could take a rank's place. */
typedef void (*ring_exchange_put_fn)(void *sink, int rank, const char *text);
typedef int (*ring_exchange_fn)(void *arg, const char *mine, ring_exchange_put_fn put, void *sink);

/* How a rank finds the others, and how it works with them. Begin with RING_OPTIONS_INIT; 0 or NULL in
 * a field is its default. Durations are seconds, more than 0. Strings are read during ring_comm_open
 * only. The ranks are found in one of three ways:
 *   exchange     rank, size, addresses and `exchange`
 *   addresses    rank, size and either `addresses` or `root_address`
 *   environment  rank -1: as sparkring-run, Open MPI, MPICH, Slurm or torchrun has set it, and missing
 *                fields from SPARKRING_* (vignette "rendezvous"); without any, a world of one
 * All ranks pass the same algorithms, connections and encryption; else RING_MISMATCH. */
typedef struct ring_options {
  size_t struct_size;

  /* Identity: who the ranks are, and how they prove it. */
  int rank;                     /* 0 to size-1; -1: from the environment */
  int size;                     /* 0: address_count */
  const char *const *addresses; /* in rank order; a port in an address is ignored */
  int address_count;            /* 0: none; else size */
  const char *root_address;     /* rank 0's host, where addresses are not known */
  const char *job;              /* tells apart jobs that share addresses and token; NULL: "" */
  const void *token;            /* the job's secret, 16 random bytes or more; NULL: none */
  size_t token_length;
  ring_choice encryption; /* of links over the network (TLS 1.3); needs a token or an exchange;
                             RING_DEFAULT: SPARKRING_ENCRYPTION (1 or 0), else off */

  /* Limits. */
  uint16_t port_first; /* ports to listen on, both ends included; 0: any free port for links, and */
  uint16_t port_last;  /*   21000 to 31999 for finding rank 0 */
  double timeout;      /* until all ranks must have met, counted from the exchange's end; 0: 300 */
  double call_timeout; /* that a call waits with nothing moving; 0: 600 */
  double warn_after;   /* the same before `log` is called, and again after twice as long, and so on;
                               0: SPARKRING_WARN_AFTER, else 60; RING_NEVER: no warnings */
  ring_choice watch_parent; /* whether waits end when the process that started this one has ended;
                               RING_DEFAULT: off */

  /* Hooks; NULL: none. interrupt and log serve every later call, too. */
  ring_exchange_fn exchange;
  void *exchange_arg;
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
  ring_log_fn log;
  void *log_arg;

  /* Tuning; vignette "performance". */
  ring_choice shared_memory; /* between ranks of a host, where the system has it;
                                RING_DEFAULT: SPARKRING_SHARED_MEMORY (1 or 0), else on */
  int connections; /* of a link between two hosts, 1 to 16; 0: SPARKRING_CONNECTIONS, else 1 */
  const char *algorithms; /* rules, as in "allreduce:ring:64KiB-,broadcast:tree:-1MiB";
                                NULL: SPARKRING_ALGORITHM, else the table of costs decides */
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

/* Opens a communicator: finds the other ranks, verifies that they belong to the job, and passes a
 * first barrier. Collective. On failure *comm is NULL and *error (may be NULL) names the missing ranks.
 * A rank that fails right after its own open can fail the open of a slower rank, too. */
RING_API ring_status ring_comm_open(const ring_options *options, ring_comm **comm,
                                    ring_error *error);

/* Opens a communicator of the ranks that pass the same color, ordered by key, then by rank; with a
 * negative color *child is NULL. Collective over all ranks of `comm`. The child inherits options and
 * hooks, has links of its own and may be used beside its parent, even after the parent's end. On
 * failure *child is NULL and ring_comm_error(comm) explains; `comm` stays usable unless it failed. */
RING_API ring_status ring_comm_split(ring_comm *comm, int color, int key, ring_comm **child);

/* Waits for outstanding requests, then until every rank has called close, and ends all links.
 * Collective; `seconds` replaces the call timeout, 0 keeps it. RING_OK means that no rank made a call
 * that differs from this rank's. Read-only functions work until ring_comm_free. */
RING_API ring_status ring_comm_close(ring_comm *comm);
RING_API ring_status ring_comm_close_within(ring_comm *comm, double seconds);

/* Ends the communicator at once, from this rank alone: the other ranks' current or next call returns
 * RING_ABORTED with `reason` (may be NULL). Outstanding requests complete with RING_ABORTED; their
 * buffers are free when abort returns. In a hook of ring_request_wait, both happen when the hook
 * returns. */
RING_API void ring_comm_abort(ring_comm *comm, const char *reason);

/* Frees the communicator; an open one is aborted first. In a forked child this releases memory and
 * descriptors only. Requests are complete afterwards and can still be read. Not from a hook; NULL is
 * allowed. */
RING_API void ring_comm_free(ring_comm *comm);

/* The last failure of a call; status RING_OK when there was none. RING_BUSY is not kept. Valid until
 * ring_comm_free. */
RING_API const ring_error *ring_comm_error(const ring_comm *comm);

/* Rank and size; the same among the ranks of this host. */
RING_API int ring_comm_rank(const ring_comm *comm);
RING_API int ring_comm_size(const ring_comm *comm);
RING_API int ring_comm_local_rank(const ring_comm *comm);
RING_API int ring_comm_local_size(const ring_comm *comm);

/* The host of a rank as the address list names it; NULL for no such rank. */
RING_API const char *ring_comm_host(const ring_comm *comm, int rank);

/* 1 until close, abort or a failure; 0 in a forked child. */
RING_API int ring_comm_usable(const ring_comm *comm);

/* ---- Collectives -------------------------------------------------------------------------- */

/* Every rank makes the same call with the same count or counts, dtype, op and root, in the same order.
 * `counts` holds one number of elements for each rank; parts lie in rank order. Buffers are aligned for
 * their dtype, may be NULL where they hold 0 elements, and do not overlap except for the in-place case
 * of each function.
 *
 * Ranks that call different things get RING_MISMATCH, from this call, the next one or close. After a
 * failure other than RING_INVALID and RING_BUSY the output is undefined, the communicator is broken,
 * and later calls return the same status. Results are identical to the bit from run to run and on every
 * rank. float16 and bfloat16 are accumulated in float32 and rounded once. */

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

/* Rank r gets part r of the result of ring_allreduce: input holds size * count elements, output count.
 * In place: output is input + rank * count elements. */
RING_API ring_status ring_reduce_scatter(ring_comm *comm, const void *input, void *output,
                                         size_t count, ring_dtype dtype, ring_op op);

/* Every rank gets root's input, which is read on root only. In place: output is input. */
RING_API ring_status ring_broadcast(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype, int root);

/* Every rank gets the inputs of all ranks, in rank order: size * count elements, or the sum of counts.
 * In place: input is this rank's part of output. */
RING_API ring_status ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype);
RING_API ring_status ring_allgatherv(ring_comm *comm, const void *input, void *output,
                                     const size_t *counts, ring_dtype dtype);

/* Root gets the inputs of all ranks, in rank order; output is used on root only. In place on root: input
 * is root's part of output. */
RING_API ring_status ring_gather(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, int root);
RING_API ring_status ring_gatherv(ring_comm *comm, const void *input, void *output,
                                  const size_t *counts, ring_dtype dtype, int root);

/* Rank r gets part r of root's input, which is read on root only. In place on root: output is root's
 * part of input. */
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
 * call, and at the same place in the order of their collectives. */
RING_API ring_status ring_send(ring_comm *comm, const void *input, size_t count, ring_dtype dtype,
                               int peer);
RING_API ring_status ring_recv(ring_comm *comm, void *output, size_t count, ring_dtype dtype,
                               int peer);

#ifdef __cplusplus
}
#endif

#include "sparkring_async.h" /* IWYU pragma: export */
#include "sparkring_tools.h" /* IWYU pragma: export */

#endif
