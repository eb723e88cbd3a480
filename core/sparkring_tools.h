/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools: names and descriptions for bindings, counters, explanations, shared buffers, and what other
 * frameworks need to start on the same ranks. sparkring.h includes this file.
 */
#ifndef SPARKRING_TOOLS_H
#define SPARKRING_TOOLS_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* RING_VERSION of the library, which may differ from that of the header. Static storage. */
RING_API const char *ring_version(void);

/* ---- Names ---------------------------------------------------------------------------------- */

/* The values of each enum of sparkring.h, in its order, for tables in bindings. The compiler rejects a map
 * that lacks or repeats a value (-Wswitch in base/error.c and base/dtype.c). X(name, text). */
#define RING_STATUS_MAP(X)                                                                         \
  X(OK, "success")                                                                                 \
  X(INVALID, "bad argument")                                                                       \
  X(TIMEOUT, "the deadline passed")                                                                \
  X(PEER_LOST, "another rank died or cannot be reached")                                           \
  X(MISMATCH, "the ranks made different calls")                                                    \
  X(AUTH, "authentication failed")                                                                 \
  X(ABORTED, "the communicator was aborted")                                                       \
  X(BUSY, "another call on this communicator is running")                                          \
  X(UNSUPPORTED, "not supported here")                                                             \
  X(NO_MEMORY, "out of memory")                                                                    \
  X(SYSTEM, "a system call failed")

/* X(name, text, bytes of one element). */
#define RING_DTYPE_MAP(X)                                                                          \
  X(INT8, "int8", 1)                                                                               \
  X(UINT8, "uint8", 1)                                                                             \
  X(INT32, "int32", 4)                                                                             \
  X(INT64, "int64", 8)                                                                             \
  X(FLOAT16, "float16", 2)                                                                         \
  X(BFLOAT16, "bfloat16", 2)                                                                       \
  X(FLOAT32, "float32", 4)                                                                         \
  X(FLOAT64, "float64", 8)                                                                         \
  X(BOOL, "bool", 1)                                                                               \
  X(INT16, "int16", 2)                                                                             \
  X(UINT16, "uint16", 2)                                                                           \
  X(UINT32, "uint32", 4)                                                                           \
  X(UINT64, "uint64", 8)                                                                           \
  X(COMPLEX64, "complex64", 8)                                                                     \
  X(COMPLEX128, "complex128", 16)

/* X(name, text). */
#define RING_OP_MAP(X)                                                                             \
  X(SUM, "sum")                                                                                    \
  X(PROD, "prod")                                                                                  \
  X(MIN, "min")                                                                                    \
  X(MAX, "max")                                                                                    \
  X(AVG, "avg")                                                                                    \
  X(LAND, "land")                                                                                  \
  X(LOR, "lor")                                                                                    \
  X(LXOR, "lxor")                                                                                  \
  X(BAND, "band")                                                                                  \
  X(BOR, "bor")                                                                                    \
  X(BXOR, "bxor")

/* X(name, "alias"): further names that ring_op_parse() takes. */
#define RING_OP_ALIAS_MAP(X)                                                                       \
  X(AVG, "mean")                                                                                   \
  X(AVG, "average")

/* "TIMEOUT" and "the deadline passed" for RING_TIMEOUT; "UNKNOWN" and "unknown status" for a value that is
 * no status. Static storage. */
RING_API const char *ring_status_name(ring_status status);
RING_API const char *ring_status_text(ring_status status);

/* Bytes of one element; 0 for a value that is no dtype. */
RING_API size_t ring_dtype_size(ring_dtype dtype);

/* "float32" for RING_FLOAT32; "unknown" for a value that is none. Static storage. */
RING_API const char *ring_dtype_name(ring_dtype dtype);
RING_API const char *ring_op_name(ring_op op);

/* The dtype, or the op, of that name; else RING_INVALID. */
RING_API ring_status ring_dtype_parse(const char *name, ring_dtype *dtype);
RING_API ring_status ring_op_parse(const char *name, ring_op *op);

/* ---- Descriptions of arrays ---------------------------------------------------------------- */

/* Describes the array of the next collective on `comm` beyond its dtype and count: shape, names, class.
 * Ranks whose digests differ get RING_MISMATCH, with both texts; a digest of 0 adds nothing. Up to 199
 * bytes of the text are copied. The next call on `comm` uses the description up; ring_send and ring_recv
 * ignore it. */
RING_API void ring_comm_describe(ring_comm *comm, uint64_t digest, const char *text);

/* Digest of bytes (FNV-1a) for ring_comm_describe: begin with RING_DIGEST_EMPTY, add each piece. */
#define RING_DIGEST_EMPTY UINT64_C(14695981039346656037)
static inline uint64_t ring_digest_add(uint64_t digest, const void *bytes, size_t length) {
  for (const unsigned char *byte = (const unsigned char *)bytes; length > 0; length--)
    digest = (digest ^ *byte++) * UINT64_C(1099511628211);
  return digest;
}

/* ---- Groups -------------------------------------------------------------------------------- */

typedef enum ring_group_kind {
  RING_GROUP_ALLREDUCE = 0,
  RING_GROUP_ALLGATHER = 1,
  RING_GROUP_REDUCE_SCATTER = 2,
  RING_GROUP_BROADCAST = 3
} ring_group_kind;

typedef struct ring_group_item {
  const void *input;
  void *output;
  size_t count; /* as in the collective of one buffer */
  ring_dtype dtype;
} ring_group_item;

/* One collective of each buffer, as one call: short buffers of the same dtype travel together. All ranks
 * pass the same kind and as many items with the same counts and dtypes; items do not overlap. In place: as
 * in the collective of one buffer. Allgather and broadcast have no op; only broadcast has a root. */
RING_API ring_status ring_group(ring_comm *comm, ring_group_kind kind, const ring_group_item *items,
                                size_t item_count, ring_op op, int root);
RING_API ring_status ring_group_start(ring_comm *comm, ring_group_kind kind,
                                      const ring_group_item *items, size_t item_count, ring_op op,
                                      int root, ring_request **request);

/* ---- Factors ------------------------------------------------------------------------------- */

/* Multiplies the elements of the next collective on `comm` by `prescale` before they are reduced, and the
 * result by `postscale`; 1 changes nothing. Inputs are not modified. Integers are multiplied in float64,
 * truncated towards zero and kept within their dtype, halves in float32. Factors are for allreduce, its
 * group, reduce and reduce_scatter(v), and not for bool; else the call returns RING_INVALID. Ranks whose
 * factors differ get RING_MISMATCH. The next call on `comm` uses the factors up. */
RING_API void ring_comm_scale(ring_comm *comm, double prescale, double postscale);

/* ---- State of a communicator --------------------------------------------------------------- */

/* Rank and size among the ranks of this host. */
RING_API int ring_comm_local_rank(const ring_comm *comm);
RING_API int ring_comm_local_size(const ring_comm *comm);

/* The host of a rank as the address list names it; NULL for no such rank. */
RING_API const char *ring_comm_host(const ring_comm *comm, int rank);

/* 1 until close, abort or a failure; 0 in a forked child. */
RING_API int ring_comm_usable(const ring_comm *comm);

/* 1 after a failure with the backend mpi: MPI may still use the buffers of calls that failed, so they stay allocated
 * until the process ends. */
RING_API int ring_comm_holds_buffers(const ring_comm *comm);

/* ring_comm_close with `seconds` in place of the call timeout; 0 keeps it. */
RING_API ring_status ring_comm_close_within(ring_comm *comm, double seconds);

/* The number that rank 0 drew for this communicator; the same on every rank. */
RING_API uint64_t ring_comm_epoch(const ring_comm *comm);

/* 1 when a token or exchanged keys proved the ranks; 0 when there was neither. */
RING_API int ring_comm_authenticated(const ring_comm *comm);

/* 1 when links over the network are encrypted. */
RING_API int ring_comm_encrypted(const ring_comm *comm);

/* Bytes on links count headers and payload, without handshakes, and nothing that MPI carries. bytes_shared is payload
 * that this rank passed to ranks of its host through shared memory alone: each byte once, and no messages. */
typedef struct ring_counters {
  uint64_t calls;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_shared;
  uint64_t messages_sent;
  uint64_t messages_received;
  uint64_t wait_ns; /* with nothing to do but wait for other ranks */
} ring_counters;

/* The counters of the link to `peer` (calls, bytes_shared and wait_ns are 0) or, with peer -1, of the
 * communicator. RING_INVALID for no such rank. */
RING_API ring_status ring_comm_counters(const ring_comm *comm, int peer, ring_counters *counters);

/* "tcp", "tcp x4" (of 4 connections), "tls", "tls x4" or "shm" for an open link, "" for a peer without
 * one, "self" for the rank itself. Static storage. */
RING_API const char *ring_comm_link(const ring_comm *comm, int peer);

/* ---- Explanations -------------------------------------------------------------------------- */

/* How a call would be carried out. Texts have static storage. */
typedef struct ring_explanation {
  const char *collective, *dtype;
  const char *algorithm; /* "slots" (short calls) and "arena" use shared memory and no links */
  const char *
      reason; /* "rule", "least cost", "only one", "shared memory", "messages of MPI" or "backend" */
  const char *tier;    /* of the slowest link between two ranks: "shm", "loopback" or "network" */
  const char *backend; /* that carries the call out: "native" or "mpi" */
  uint64_t bytes;      /* of the larger of a rank's two buffers */
  uint64_t count;      /* the call's argument */
  uint64_t steps;      /* of this rank: sends, receives, reductions and copies */
  uint64_t links;      /* ranks that this rank exchanges messages with */
  uint64_t messages_sent, messages_received; /* as ring_comm_counters counts them */
  uint64_t bytes_sent, bytes_received;
  double seconds;           /* predicted by the table of costs; 0 for MPI */
  const char *runner_up;    /* the next best algorithm, or "" */
  double runner_up_seconds; /* its predicted time, or 0 */
  char text[512];           /* all of this in words */
} ring_explanation;

/* Explains the collective of that name ("allreduce") for `bytes` bytes of a dtype, from the schedule that
 * the call would run. Bytes are rounded up to whole elements a rank; collectives with counts are taken
 * to have equal ones. Local: nothing is sent. RING_INVALID for an unknown name, dtype or root. */
RING_API ring_status ring_comm_explain(ring_comm *comm, const char *collective, size_t bytes,
                                       ring_dtype dtype, int root, ring_explanation *explanation);

/* ---- Timeline ------------------------------------------------------------------------------ */

typedef enum ring_event_kind {
  RING_EVENT_CALL = 1,      /* a collective or a message */
  RING_EVENT_WAIT = 2,      /* a wait in a call, with nothing to move */
  RING_EVENT_FRAME = 3,     /* a piece of a call that goes over a link */
  RING_EVENT_QUEUE = 4,     /* a started call that waits for its turn */
  RING_EVENT_NEGOTIATE = 5, /* a reducer that agrees on a name with the other ranks */
  RING_EVENT_CYCLE = 6      /* a cycle of a reducer; begins only */
} ring_event_kind;

/* The begin or the end of something. Clocks of processes of one host agree. */
typedef struct ring_event {
  uint64_t time;      /* nanoseconds of a clock that never jumps */
  uint64_t bytes;     /* of a frame's payload; of this rank's part in a call */
  uint32_t sequence;  /* number of the call; of a message: among those of its two ranks */
  int32_t peer;       /* the other rank of a frame or a wait; -1: none, or several */
  uint8_t kind;       /* ring_event_kind */
  uint8_t begins;     /* 1: the begin; 0: the end */
  uint8_t collective; /* of the call; ring_event_collective() names it */
} ring_event;

/* Starts to record events of `comm` into a ring buffer of the last `events` (rounded up to a power of two,
 * 64 or more), which replaces an earlier one; 0 stops. Waits for outstanding requests. Not collective.
 * RING_NO_MEMORY. */
RING_API ring_status ring_comm_timeline(ring_comm *comm, size_t events);

/* Copies up to `most` events, from number *next on, and advances *next; begin with 0. Returns how many;
 * overwritten events are skipped. Safe beside calls and requests in another thread, but not beside
 * ring_comm_timeline. */
RING_API size_t ring_comm_timeline_read(const ring_comm *comm, uint64_t *next, ring_event *events,
                                        size_t most);

/* "allreduce" for an event of that collective. Static storage. */
RING_API const char *ring_event_collective(const ring_event *event);

/* ---- Shared buffers ------------------------------------------------------------------------ */

/* Allocates memory, aligned to 64 and not zeroed, that collectives between the ranks of this host use
 * without copies; ordinary memory where ranks share none. Not collective, and safe on any thread. It
 * outlives the communicator, until ring_free; forked children share it. RING_NO_MEMORY. */
RING_API ring_status ring_alloc(ring_comm *comm, size_t bytes, void **memory);
RING_API void ring_free(void *memory);

/* ---- Ports for servers of frameworks ------------------------------------------------------- */

/* Reserves a TCP port of this host, in the port range of `comm`, for a server that starts later: the port
 * is bound and does not listen, until it is released or `comm` is aborted or freed. A server of this user
 * with SO_REUSEADDR (on Linux) or SO_REUSEPORT binds it while it is reserved; for others release it
 * first. Without a range the port lies, where it can, above those that the system gives to sockets which
 * ask for any. Not collective; RING_SYSTEM where no port is free. */
RING_API ring_status ring_port_reserve(ring_comm *comm, int *port);

/* Releases a reserved port; 0: all ports of `comm`. A server that has bound it keeps it. RING_INVALID for
 * a port that `comm` has not reserved. */
RING_API ring_status ring_port_release(ring_comm *comm, int port);

/* ---- NCCL ---------------------------------------------------------------------------------- */

#define RING_NCCL_ID_BYTES 128

/* Broadcasts rank 0's ncclUniqueId, RING_NCCL_ID_BYTES, into every rank's `id`; rank 0 lives until the
 * ranks have their NCCL communicator. Collective. `libraries` are the names that rank 0 passes to
 * dlopen(), with colons between them, until one loads; NULL: libnccl.so.2, then libnccl.so.
 * RING_UNSUPPORTED on all ranks where rank 0 has no NCCL or NCCL fails; `comm` stays usable. */
RING_API ring_status ring_nccl_id(ring_comm *comm, const char *libraries, void *id);

#ifdef __cplusplus
}
#endif

#endif
