/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring: the tasks of a Spark barrier stage find each other, form a ring and compute together.
 *
 * A communicator (`ring_comm`) is a verified group of `size` processes; each has a `rank` from 0 to
 * size-1. Every rank opens it, all ranks make the same collective calls in the same order, and every
 * rank closes it. Functions return a `ring_status`; the explanation (which rank, which host, which
 * call, what to do) is the text of `ring_comm_error`.
 *
 * Threads: one communicator serves one call at a time (a collective, its start, split, or close);
 * another that is made meanwhile returns RING_BUSY. Abort, free, error and giving ports back may not
 * run beside a call. What only looks may, in any thread and beside abort, too: counters, link, usable,
 * and what never changes (rank, size, host, epoch, ...). Requests are not calls: all of these may be
 * used while some are outstanding.
 * Different communicators are independent of each other.
 * Forks: a child of a process that has a communicator may only call `ring_comm_free` and
 * `ring_request_free`, and need not. As it begins it gives up its copies of the links, listeners and
 * reserved ports (in a handler of pthread_atfork, which only vfork, _Fork and clone do without), so
 * the others see at once when the parent dies.
 * The library never prints, exits or installs a signal handler. It has a thread of its own, which
 * blocks all signals, only while requests are outstanding.
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

/* Every status: X(name, value, what it means). R's condition classes and Python's exceptions are
 * made from the same list. */
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

/* What went wrong, as text for the user. `rank` is the rank at fault, or -1. */
typedef struct ring_error {
  ring_status status;
  int rank;
  int system_errno;
  char message[1024];
} ring_error;

/* "TIMEOUT" for RING_TIMEOUT; "UNKNOWN" for a value that is no status. Static storage. */
RING_API const char *ring_status_name(ring_status status);

/* "the deadline passed" for RING_TIMEOUT. Static storage. */
RING_API const char *ring_status_text(ring_status status);

/* ---- Element types and operations --------------------------------------------------------- */

/* X(name, value, "name", bytes). Values travel on the wire and never change. */
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
 * by the size; on integers the quotient is truncated towards zero. MIN and MAX return NaN where any
 * rank holds NaN. LAND and LOR are for integers only and give 0 or 1. */
#define RING_OP_MAP(X)                                                                             \
  X(SUM, 0, "sum")                                                                                 \
  X(PROD, 1, "prod")                                                                               \
  X(MIN, 2, "min")                                                                                 \
  X(MAX, 3, "max")                                                                                 \
  X(AVG, 4, "avg")                                                                                 \
  X(LAND, 5, "land")                                                                               \
  X(LOR, 6, "lor")

/* X(name, "alias"): other names that ring_op_parse() takes. */
#define RING_OP_ALIAS_MAP(X)                                                                       \
  X(AVG, "mean")                                                                                   \
  X(AVG, "average")

typedef enum ring_op {
#define RING_OP_ENUM(name, value, text) RING_##name = value,
  RING_OP_MAP(RING_OP_ENUM)
#undef RING_OP_ENUM
} ring_op;

/* Bytes of one element; 0 for a value that is no dtype. */
RING_API size_t ring_dtype_size(ring_dtype dtype);

/* "float32" for RING_FLOAT32; "unknown" for a value that is no dtype. Static storage. */
RING_API const char *ring_dtype_name(ring_dtype dtype);
RING_API const char *ring_op_name(ring_op op);

/* The dtype or op with this name (an op: or this alias), or RING_INVALID. */
RING_API ring_status ring_dtype_parse(const char *name, ring_dtype *dtype);
RING_API ring_status ring_op_parse(const char *name, ring_op *op);

/* ---- Opening a communicator --------------------------------------------------------------- */

typedef struct ring_comm ring_comm;

/* Called on the calling thread about every 100 ms of waiting. Non-zero ends the wait: the call
 * returns RING_ABORTED and the communicator is broken. */
typedef int (*ring_interrupt_fn)(void *arg);

/* Told, on the calling thread, what the user should know although nothing has failed yet: that a call
 * waits, where, for how long and for whom. It may not use the communicator. */
typedef void (*ring_log_fn)(void *arg, const char *message);

/* Hands rank `rank`'s text to the core, which copies it. */
typedef void (*ring_exchange_put_fn)(void *sink, int rank, const char *text);

/* All ranks pass a text and get the texts of all: call put(sink, r, text of r) for every rank r.
 * Non-zero means failure. The texts hold public keys, from which every two ranks make a key of their
 * own: whoever reads them learns no secret, but whoever can change them can be taken for a rank. */
typedef int (*ring_exchange_fn)(void *arg, const char *mine, ring_exchange_put_fn put, void *sink);

/* How to find the other ranks. Begin with RING_OPTIONS_INIT; strings are only read during
 * ring_comm_open. There are three ways:
 *   exchange     `exchange` with rank, size and addresses
 *   addresses    rank, size and either `addresses` (one a rank, in rank order) or `root_address`
 *   environment  rank left at -1: the variables of sparkring-run (SPARKRING_RANK, SPARKRING_SIZE,
 *                ...), Open MPI, MPICH, Slurm or torchrun; none of them set makes a world of one.
 *                Then what is left out below comes from the environment, too, where it is set:
 *                SPARKRING_ADDRESSES, SPARKRING_ROOT_ADDRESS, SPARKRING_JOB, SPARKRING_PORTS,
 *                SPARKRING_TIMEOUT, and the token from SPARKRING_TOKEN or from the file that
 *                SPARKRING_TOKEN_FILE names, which nobody but its owner (this user or root) may
 *                write and others may not read
 * The variables that are named with an option below count in all three.
 */
typedef struct ring_options {
  size_t struct_size;
  int rank;                     /* 0 to size-1; -1: from the environment */
  int size;                     /* 1 or more; 0: the number of addresses */
  const char *const *addresses; /* "host", "host:port", "[v6]:port"; ports are ignored */
  int address_count;            /* must equal size when addresses are given */
  const char *root_address;     /* rank 0's host, when those of the others are unknown */
  const void *token;            /* the job's shared secret: 16 random bytes or more; NULL: none, */
  size_t token_length;          /*   which an exchange does without */
  const char *job;              /* tells jobs apart that share addresses and token; NULL: "" */
  uint16_t port_first;          /* ports to listen on, both ends included; 0: any free port for */
  uint16_t port_last;           /*   links and 21000 to 31999 for finding rank 0 */
  double timeout;               /* seconds until all ranks must have met, from the exchange's end
                                   where there is one; 0: 300 */
  double call_timeout;          /* seconds a collective may wait with nothing moving; 0: 600 */
  ring_exchange_fn exchange;
  void *exchange_arg;
  ring_interrupt_fn interrupt; /* used by every later call, too */
  void *interrupt_arg;
  int shared_memory;      /* between ranks of one host: 0 where it can be had (unless the variable
                        SPARKRING_SHARED_MEMORY is 0), -1 never */
  const char *algorithms; /* rules, see below; NULL: those of SPARKRING_ALGORITHM, if set */
  int connections;   /* see below; 0: those of SPARKRING_CONNECTIONS or, if that is unset, 4, but 1
                             where this is not Linux */
  int encryption;    /* see below; 1 yes, -1 no, 0: as SPARKRING_ENCRYPTION says (1 or 0) or, if
                        that is unset, yes in a worker of a Spark that encrypts its own traffic,
                        else no */
  double warn_after; /* seconds that a call waits with nothing moving before `log` is told, and told
                        again after twice as long, and so on; 0: those of SPARKRING_WARN_AFTER or, if
                        that is unset, 60; negative: never */
  ring_log_fn log;   /* used by every later call, too; NULL: nobody is told */
  void *log_arg;
  int watch_parent; /* see below; 1: the end of the process that started this one ends waits, too */
} ring_options;

/* With `encryption` whatever ranks say to each other over the network after they have met is TLS 1.3
 * (RFC 8446), whose pre-shared key comes from the token or the exchange and is another one for each
 * link: who lacks it can neither read nor change what is said. Memory that the ranks of a host share
 * is not the network. Encryption needs a token, or an exchange, and all ranks must want it; else
 * ring_comm_open returns RING_INVALID or RING_MISMATCH. Without it, who can change packets on their
 * way can change what links carry; but with a token or an exchange nobody else can join, or read or
 * change what ranks say while they meet. That they talk, from where to where, is never a secret. */

/* The settings of Spark that, where they are "true", ask for encrypted traffic: X("name"). The core
 * looks for them in the command lines of the processes that started this one; a binding to which Spark
 * tells its settings by another way reads them there. */
#define RING_SPARK_ENCRYPTION_MAP(X)                                                               \
  X("spark.network.crypto.enabled")                                                                \
  X("spark.ssl.rpc.enabled")                                                                       \
  X("spark.authenticate.enableSaslEncryption")

/* `connections` is the number of connections of a link between two hosts, 1 to 16: its bytes go over all of
 * them, because one connection is often held to a part of what the network carries. All ranks must
 * have the same; else ring_comm_open returns RING_MISMATCH. Within a host a link is one connection,
 * unless connections are given and shared memory is turned off. */

/* Which algorithm a call uses is chosen by a table of costs (ring_comm_explain tells). `algorithms`
 * rules it, as in
 *   "allreduce:ring:64KiB-,broadcast:tree:-1MiB"
 * Each rule names a collective, one of its algorithms and, if it is not for every size, a range of
 * bytes, FROM-, -TO or FROM-TO, both ends included; a number may end in KiB, MiB or GiB. The bytes
 * of a call are those of the larger of a rank's two buffers. The first rule that speaks of a call
 * counts.
 *   allreduce                 direct, doubling, halving (not for float16 and bfloat16, where the
 *                             rule is passed over), ring, hierarchical (only for several hosts with
 *                             several ranks on some of them; passed over elsewhere)
 *   reduce, broadcast         tree, chain
 *   reduce_scatter            direct, ring
 *   allgather, allgatherv     bruck, ring
 *   gather(v), scatter(v)     tree, direct
 *   alltoall                  bruck, pairwise
 * All ranks must have the same rules; else ring_comm_open returns RING_MISMATCH. "" is none. */

/* `watch_parent` is for workers whose results nobody takes when the process that started them has
 * ended, as those of Spark without their executor. Every wait in open, in calls, and of requests, also
 * of children that are split off, then ends about 100 ms later with RING_ABORTED, whether there is an
 * interrupt hook or not, and the other ranks are told. (Who ends before it has met rank 0 is
 * missing there, like any rank that may come again.) That process is the parent that this one had when
 * the library was loaded or, in a forked child, when it was forked; it may have ended before
 * ring_comm_open. One that ended before the library was loaded is not missed. */

#define RING_OPTIONS_INIT {.struct_size = sizeof(ring_options), .rank = -1}

/* Opens a communicator: finds the other ranks, proves that they belong to the job, and returns when
 * all of them have answered a first barrier. Collective. On failure *comm is NULL, nothing is left
 * open, and *error (which may be NULL) explains, naming the ranks that are missing. A rank that
 * fails right after its own open can make that of a slower rank fail, with the same explanation. */
RING_API ring_status ring_comm_open(const ring_options *options, ring_comm **comm,
                                    ring_error *error);

/* Opens a communicator of the ranks that pass the same color, ordered by key and, where keys are
 * equal, by their rank in `comm`. With a negative color a rank gets none: *child is NULL. Collective
 * over all ranks of `comm`. The child has links, a listener (in the port range of `comm`) and an
 * epoch of its own; both can be used at the same time and end independently of each other: only the
 * death of a rank breaks both. It takes over the call timeout and the hooks. On failure
 * *child is NULL and the text is that of ring_comm_error(comm), which stays usable unless it failed
 * itself. */
RING_API ring_status ring_comm_split(ring_comm *comm, int color, int key, ring_comm **child);

/* Closes it: waits for the requests that are outstanding, then until every rank has called close (at
 * most the call timeout), then ends all links, once what it said last has arrived (5 s at most).
 * Collective. RING_OK means that no rank has found a call that differs from its own, in all that was
 * called. Afterwards calls return RING_INVALID; what the communicator knows can be read until
 * ring_comm_free. */
RING_API ring_status ring_comm_close(ring_comm *comm);

/* The same, where other ranks may take so many seconds (0: the call timeout) until they call it: for a
 * rank that has ended, while others work on without this communicator. */
RING_API ring_status ring_comm_close_within(ring_comm *comm, double seconds);

/* Ends it at once, from this rank alone: the other ranks' current or next call returns RING_ABORTED
 * with `reason` (which may be NULL). Requests that are outstanding complete with RING_ABORTED; when
 * abort returns, none of their buffers is used any more. May not run beside another call on the same
 * communicator. From a hook of a wait for a request, all this may come when the hook returns. */
RING_API void ring_comm_abort(ring_comm *comm, const char *reason);

/* Frees it. One that is still open is aborted first, with the last error as the reason; in a forked
 * child only its memory and descriptors are released, and the parent's links stay whole. Requests that
 * were not freed yet are complete then and can still be asked. Not from a hook. NULL is allowed. */
RING_API void ring_comm_free(ring_comm *comm);

/* The last failure of a call on this communicator; status RING_OK when there was none. RING_BUSY is
 * returned and not kept. The pointer is valid until ring_comm_free. */
RING_API const ring_error *ring_comm_error(const ring_comm *comm);

/* ---- What a communicator knows ------------------------------------------------------------ */

RING_API int ring_comm_rank(const ring_comm *comm);
RING_API int ring_comm_size(const ring_comm *comm);

/* Rank among, and number of, the ranks that have the same host, in rank order. */
RING_API int ring_comm_local_rank(const ring_comm *comm);
RING_API int ring_comm_local_size(const ring_comm *comm);

/* The host of a rank, as the address list names it; NULL for no such rank. */
RING_API const char *ring_comm_host(const ring_comm *comm, int rank);

/* The number that rank 0 minted for this rendezvous; the same on every rank. */
RING_API uint64_t ring_comm_epoch(const ring_comm *comm);

/* 1 when the ranks proved that they know the job's token, or have the keys that they exchanged; 0
 * when there was neither. */
RING_API int ring_comm_authenticated(const ring_comm *comm);

/* 1 when what ranks say over the network is encrypted. */
RING_API int ring_comm_encrypted(const ring_comm *comm);

/* 1 until close, abort or a failure; then 0, as in a forked child. */
RING_API int ring_comm_usable(const ring_comm *comm);

/* Every message on a link is a header of this many bytes and a payload. */
#define RING_HEADER_BYTES 40

/* Bytes sent and received are those of links, headers and payload, without the handshakes that open
 * links. bytes_shared are those that this rank has passed to ranks of its host in collectives which use
 * shared memory and no links: payload, each byte once however many ranks read it; such calls send no
 * messages. wait_ns is the time spent with nothing to do but wait for other ranks. */
typedef struct ring_counters {
  uint64_t calls;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_shared;
  uint64_t messages_sent;
  uint64_t messages_received;
  uint64_t wait_ns;
} ring_counters;

/* Counters of the link to `peer` (calls, bytes_shared and wait_ns are 0), or, with peer -1, of all together.
 * RING_INVALID for no such rank. */
RING_API ring_status ring_comm_counters(const ring_comm *comm, int peer, ring_counters *counters);

/* "tcp", "tcp x4" (of 4 connections), the same with "tls" where it is encrypted, or "shm" for an open link,
 * "" for a peer without one, "self" for the rank itself. Static storage. */
RING_API const char *ring_comm_link(const ring_comm *comm, int peer);

/* ---- Ports for other servers -------------------------------------------------------------- */

/* Reserves a TCP port on this rank's host, in the port range of `comm` where it has one, for a server
 * that is started later, such as that of a framework: *port is bound on every address, and to nobody
 * else, but does not listen. A server of this user that sets SO_REUSEADDR (on Linux) or SO_REUSEPORT
 * before it binds takes the port while it is held; for one that sets neither it has to be released.
 * It is held until it is released, or until `comm` is aborted or freed; closing keeps it, because a
 * ring is often no longer needed when the server starts. Not collective. RING_SYSTEM where no port is
 * free. Ports of connections that ended a moment ago are not free. */
RING_API ring_status ring_port_reserve(ring_comm *comm, int *port);

/* Gives a reserved port back; 0: all that `comm` holds. A server that has taken it keeps it. May not
 * run beside a call, as ring_comm_free. RING_INVALID for a port that `comm` does not hold. */
RING_API ring_status ring_port_release(ring_comm *comm, int port);

/* ---- NCCL --------------------------------------------------------------------------------- */

#define RING_NCCL_ID_BYTES 128

/* Every rank's `id` gets the same ncclUniqueId, RING_NCCL_ID_BYTES, with which the ranks make an NCCL
 * communicator; rank 0's process has to live until they have. Collective, of rank 0's call of
 * ncclGetUniqueId and a broadcast. `libraries`: where rank 0 looks for NCCL, names as for dlopen() with
 * colons between them, of which the first that can be loaded counts, and stays loaded; NULL: wherever
 * the system finds libnccl.so.2 or else libnccl.so. Whoever can write there can run code in rank 0. The
 * other ranks need no NCCL for this. RING_UNSUPPORTED on all where rank 0 has none, or that fails; `comm`
 * goes on. */
RING_API ring_status ring_nccl_id(ring_comm *comm, const char *libraries, void *id);

/* ---- Memory ------------------------------------------------------------------------------- */

/* `bytes` of memory, aligned to 64 and not zeroed, that the other ranks of this host can read and
 * write: collectives on buffers in it need no copies. Its pages are taken at once. Where
 * ranks share no memory, or the system has no pages for more, it is ordinary memory. Not collective:
 * every rank may allocate what it likes. It outlives the communicator, until ring_free. Forked children
 * share it with their parent, also what they write; what they free is not given back.
 * RING_NO_MEMORY. Both are safe on any thread. */
RING_API ring_status ring_alloc(ring_comm *comm, size_t bytes, void **memory);
RING_API void ring_free(void *memory);

/* How a call would be done. Texts have static storage. */
typedef struct ring_explanation {
  const char *collective, *dtype;
  const char *algorithm;
  const char *reason;  /* "rule", "least cost", "only one" of that collective's algorithms, or
                         "shared memory": the algorithm is "slots" for short calls (each rank reads
                         what all others say), else "arena" (each does a part of the work on the
                         buffers of all), and nothing goes over links */
  const char *tier;    /* the slowest link between two ranks: "shm", "loopback" or "network" */
  const char *backend; /* that carries the call out: "native" */
  uint64_t bytes;      /* of the larger of a rank's two buffers */
  uint64_t count;      /* the call's argument */
  uint64_t steps;      /* of this rank: sends, receives, reductions and copies */
  uint64_t links;      /* ranks that this one talks with */
  uint64_t messages_sent, messages_received; /* as ring_comm_counters counts them */
  uint64_t bytes_sent, bytes_received;
  double seconds;           /* predicted by the table */
  const char *runner_up;    /* the next best algorithm, or "" */
  double runner_up_seconds; /* its predicted time, or 0 */
  char text[512];           /* all of this in words */
} ring_explanation;

/* Tells how the collective of that name ("allreduce") would be done for `bytes` bytes of a dtype:
 * the algorithm and why it is taken, the predicted time and that of the next best algorithm, and
 * what this rank would do and move, counted from the schedule that the call would run. Where every
 * rank has a part, bytes are rounded up to whole elements a rank, and collectives with counts are
 * taken to have equal ones. Local: nothing is sent. RING_INVALID for an unknown name, dtype or
 * root. */
RING_API ring_status ring_comm_explain(ring_comm *comm, const char *collective, size_t bytes,
                                       ring_dtype dtype, int root, ring_explanation *explanation);

/* ---- Collectives -------------------------------------------------------------------------- */

/* All of them: every rank makes the same call with the same count or counts, dtype, op and root, in
 * the same order. Buffers are aligned for their dtype, may be NULL where they hold 0 elements, and
 * belong to the caller. Input and output do not overlap, but for the in-place case that is named.
 * Ranks that call different things get RING_MISMATCH, at the latest from the next call or from close
 * (who only sends does not listen). After a failure (anything but RING_OK, RING_INVALID and
 * RING_BUSY) the output is undefined and the communicator is broken: every later call returns the
 * same status.
 *
 * Results are identical to the bit from run to run, and on every rank that gets them. float16 and
 * bfloat16 are accumulated in float32 and rounded once; from 3 ranks on their partial results travel
 * as float32.
 *
 * `counts` holds one number of elements a rank and is the same on every rank; the parts lie behind
 * each other in rank order. */

/* Describes the array of the next collective on `comm` beyond its dtype and count: shape, names, class.
 * Ranks whose digests differ get RING_MISMATCH, and its text shows both descriptions. A digest of 0
 * adds nothing. The text is copied, up to 199 bytes of it. The description is forgotten when the next
 * call on `comm` returns. ring_send and ring_recv do not heed it. */
RING_API void ring_comm_describe(ring_comm *comm, uint64_t digest, const char *text);

/* Digest of bytes (FNV-1a) for ring_comm_describe: begin with RING_DIGEST_EMPTY, add each piece. */
#define RING_DIGEST_EMPTY UINT64_C(14695981039346656037)
static inline uint64_t ring_digest_add(uint64_t digest, const void *bytes, size_t length) {
  for (const unsigned char *byte = (const unsigned char *)bytes; length > 0; length--)
    digest = (digest ^ *byte++) * UINT64_C(1099511628211);
  return digest;
}

/* Every rank gets op over all ranks' input, element by element. In place when output is input. All
 * to all, recursive doubling, recursive halving and doubling (Rabenseifner, 2004), or a ring
 * (Patarasuk and Yuan, 2009), where 2(size-1)/size of the data leave each rank ((3 size - 4)/size
 * for float16 and bfloat16). Where hosts have several ranks also in three parts: within each host,
 * each rank's share across hosts, within each host. */
RING_API ring_status ring_allreduce(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype, ring_op op);

/* Every rank gets op over all ranks' buffers: as one ring_allreduce of each, but as one call. Short
 * buffers travel together; long ones are reduced where they lie. All ranks pass as many buffers with
 * the same counts. No buffer overlaps another one; in place where output is input. */
typedef struct ring_buffer {
  const void *input;
  void *output;
  size_t count;
} ring_buffer;

RING_API ring_status ring_allreduce_group(ring_comm *comm, const ring_buffer *buffers,
                                          size_t buffer_count, ring_dtype dtype, ring_op op);

/* Root gets what ring_allreduce would give. output is used on root only (NULL elsewhere is fine). In
 * place when output is input on root. Binomial tree, or a chain for long buffers. */
RING_API ring_status ring_reduce(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, ring_op op, int root);

/* Rank r gets part r of what ring_allreduce would give: input holds size * count elements, output
 * count. In place when output is input + rank * count elements. All to all, or ring. */
RING_API ring_status ring_reduce_scatter(ring_comm *comm, const void *input, void *output,
                                         size_t count, ring_dtype dtype, ring_op op);

/* Every rank's output gets root's input. input is read on root only (NULL elsewhere is fine) and
 * may be output. Binomial tree, or a chain for long buffers; both pipelined in chunks. */
RING_API ring_status ring_broadcast(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype, int root);

/* Every rank's output gets the inputs of all, in rank order: size * count elements, or the sum of
 * counts. In place when input is where its elements end up in output. Bruck's algorithm (1997), or a
 * ring for long buffers. */
RING_API ring_status ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                    ring_dtype dtype);
RING_API ring_status ring_allgatherv(ring_comm *comm, const void *input, void *output,
                                     const size_t *counts, ring_dtype dtype);

/* Root's output gets the inputs of all, in rank order. output is used on root only (NULL elsewhere
 * is fine). In place on root when input is where its elements end up. Binomial tree, or straight. */
RING_API ring_status ring_gather(ring_comm *comm, const void *input, void *output, size_t count,
                                 ring_dtype dtype, int root);
RING_API ring_status ring_gatherv(ring_comm *comm, const void *input, void *output,
                                  const size_t *counts, ring_dtype dtype, int root);

/* Rank r's output gets part r of root's input, which is read on root only (NULL elsewhere is fine).
 * In place on root when output is where its part lies in input. Binomial tree, or straight. */
RING_API ring_status ring_scatter(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype, int root);
RING_API ring_status ring_scatterv(ring_comm *comm, const void *input, void *output,
                                   const size_t *counts, ring_dtype dtype, int root);

/* Part r of rank s's input becomes part s of rank r's output. Each part has count elements; or rank
 * s's `sends[r]`, which must be rank r's `receives[s]`. Never in place. Bruck's algorithm where parts
 * are short and ranks many, else pair by pair. */
RING_API ring_status ring_alltoall(ring_comm *comm, const void *input, void *output, size_t count,
                                   ring_dtype dtype);
RING_API ring_status ring_alltoallv(ring_comm *comm, const void *input, const size_t *sends,
                                    void *output, const size_t *receives, ring_dtype dtype);

/* Returns when every rank has called it. Dissemination (Hensgen, Finkel and Manber, 1988). */
RING_API ring_status ring_barrier(ring_comm *comm);

/* One message from this rank to `peer`, which receives it with the same count and dtype. Messages
 * between two ranks arrive in order. send may return before the peer has received. Only the two
 * ranks call; no collective may lie between send and recv in the order of one of them and not of the
 * other. */
RING_API ring_status ring_send(ring_comm *comm, const void *input, size_t count, ring_dtype dtype,
                               int peer);
RING_API ring_status ring_recv(ring_comm *comm, void *output, size_t count, ring_dtype dtype,
                               int peer);

/* ---- Requests ----------------------------------------------------------------------------- */

/* A started collective. `ring_<collective>_start` takes the arguments of `ring_<collective>`, checks
 * them as that does, and returns while the work goes on; *request is NULL unless it returns RING_OK.
 * Counts and lists of buffers are copied; the buffers themselves must stay until the request is
 * done, inputs unchanged and outputs untouched.
 *
 * The requests of a communicator run one at a time, in the order of their starts, which must be the
 * same on every rank; calls that wait (ring_allreduce, ring_comm_close, ...) are part of that order:
 * they run when all requests that were started before are done. A request's timeout counts from
 * when it begins to run. When one fails the communicator is broken, and all that follow complete
 * with the same status.
 *
 * test, wait, error and free may be called from any thread, also beside calls on the communicator;
 * one request is for one thread at a time. What the log should be told while a request runs, it is
 * told from test, wait or another call that waits. */
typedef struct ring_request ring_request;

/* *done becomes 1 when the request is done, else 0, without waiting. Returns the status of the
 * collective when it is done, RING_OK before. */
RING_API ring_status ring_request_test(ring_request *request, int *done);

/* Waits until the request is done and returns the status of the collective. Calls the interrupt hook
 * on this thread about every 100 ms; when that ends the wait, the communicator is broken and every
 * outstanding request completes with RING_ABORTED. Can be called again. RING_BUSY, and not done, from
 * a hook of the communicator's while this thread itself runs a request. */
RING_API ring_status ring_request_wait(ring_request *request);

/* Why the collective failed; status RING_OK when it did not, or is not done yet. Valid until
 * ring_request_free, also when the communicator has been freed. */
RING_API const ring_error *ring_request_error(const ring_request *request);

/* Frees it. One that is not done is waited for first, as ring_request_wait does: when free returns,
 * its buffers are not used any more. (To be rid of it sooner, abort the communicator before.) In a
 * forked child only memory is released. Not from a hook. NULL is allowed. */
RING_API void ring_request_free(ring_request *request);

RING_API ring_status ring_allreduce_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, ring_op op,
                                          ring_request **request);
RING_API ring_status ring_allreduce_group_start(ring_comm *comm, const ring_buffer *buffers,
                                                size_t buffer_count, ring_dtype dtype, ring_op op,
                                                ring_request **request);
RING_API ring_status ring_reduce_start(ring_comm *comm, const void *input, void *output,
                                       size_t count, ring_dtype dtype, ring_op op, int root,
                                       ring_request **request);
RING_API ring_status ring_reduce_scatter_start(ring_comm *comm, const void *input, void *output,
                                               size_t count, ring_dtype dtype, ring_op op,
                                               ring_request **request);
RING_API ring_status ring_broadcast_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, int root,
                                          ring_request **request);
RING_API ring_status ring_allgather_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, ring_request **request);
RING_API ring_status ring_allgatherv_start(ring_comm *comm, const void *input, void *output,
                                           const size_t *counts, ring_dtype dtype,
                                           ring_request **request);
RING_API ring_status ring_gather_start(ring_comm *comm, const void *input, void *output,
                                       size_t count, ring_dtype dtype, int root,
                                       ring_request **request);
RING_API ring_status ring_gatherv_start(ring_comm *comm, const void *input, void *output,
                                        const size_t *counts, ring_dtype dtype, int root,
                                        ring_request **request);
RING_API ring_status ring_scatter_start(ring_comm *comm, const void *input, void *output,
                                        size_t count, ring_dtype dtype, int root,
                                        ring_request **request);
RING_API ring_status ring_scatterv_start(ring_comm *comm, const void *input, void *output,
                                         const size_t *counts, ring_dtype dtype, int root,
                                         ring_request **request);
RING_API ring_status ring_alltoall_start(ring_comm *comm, const void *input, void *output,
                                         size_t count, ring_dtype dtype, ring_request **request);
RING_API ring_status ring_alltoallv_start(ring_comm *comm, const void *input, const size_t *sends,
                                          void *output, const size_t *receives, ring_dtype dtype,
                                          ring_request **request);
RING_API ring_status ring_barrier_start(ring_comm *comm, ring_request **request);
RING_API ring_status ring_send_start(ring_comm *comm, const void *input, size_t count,
                                     ring_dtype dtype, int peer, ring_request **request);
RING_API ring_status ring_recv_start(ring_comm *comm, void *output, size_t count, ring_dtype dtype,
                                     int peer, ring_request **request);

#ifdef __cplusplus
}
#endif

#endif
