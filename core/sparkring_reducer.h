/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducer: collectives on named tensors, which ranks submit in any order and from any thread. An
 * operation runs when all ranks have submitted its name. sparkring.h includes this file.
 */
#ifndef SPARKRING_REDUCER_H
#define SPARKRING_REDUCER_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A reducer has a communicator of its own. Its functions may be called from any thread at any time;
 * ring_reducer_free may not run beside another one. In a forked child only the two free functions work. */
typedef struct ring_reducer ring_reducer;

/* A submitted operation. A submission serves one thread at a time. */
typedef struct ring_submission ring_submission;

/* ---- Life ---------------------------------------------------------------------------------- */

/* Begin with RING_REDUCER_OPTIONS_INIT; 0 or NULL in a field is its default. All ranks pass the same
 * threshold and cache_capacity; else RING_MISMATCH. */
typedef struct ring_reducer_options {
  size_t struct_size;
  size_t threshold;  /* most bytes that travel as one operation; 0: 128 MiB; 1: nothing is fused */
  double cycle_time; /* seconds, up to 0.005, in which submissions gather while no thread waits;
                              0: 0.001; RING_NEVER: none */
  size_t cache_capacity; /* names that stay agreed on, besides those in flight; 0: 1024 */
  double
      stall_timeout; /* seconds after which a name that some ranks miss fails, up to a quarter later
                              if a rank submits nothing; 0: the call_timeout of `comm`;
                              RING_NEVER: never */
  ring_choice autotune; /* RING_ON on rank 0: threshold and cycle_time are tuned from here on, by
                              trying others for 154 rounds of the same names */
  const char *autotune_log; /* NULL, or a file to which rank 0 appends what it tried, as CSV:
                              threshold, cycle_time, bytes_per_second, chosen */
  const struct ring_device_options
      *device; /* of the device that the first operation on memory of GPUs opens; NULL: the usual
                              ones. All ranks pass the same path. The GPU is that of the memory */
} ring_reducer_options;

#ifdef __cplusplus
static inline ring_reducer_options ring_reducer_options_init(void) {
  ring_reducer_options options = ring_reducer_options();
  options.struct_size = sizeof options;
  return options;
}
#define RING_REDUCER_OPTIONS_INIT ring_reducer_options_init()
#else
#define RING_REDUCER_OPTIONS_INIT {.struct_size = sizeof(ring_reducer_options)}
#endif

/* Opens a reducer of all ranks of `comm`, whose options and hooks it inherits. Collective. On failure
 * *reducer is NULL and ring_comm_error(comm) explains. `options` may be NULL. */
RING_API ring_status ring_reducer_open(ring_comm *comm, const ring_reducer_options *options,
                                       ring_reducer **reducer);

/* Announces, without waiting, that this rank submits nothing more; ring_reducer_close follows. Submissions of
 * other ranks that wait for this rank fail with RING_MISMATCH. RING_INVALID while this rank has submissions
 * in flight. With several reducers, whose ranks may wait for this rank in any of them, a rank leaves all
 * before it closes the first. */
RING_API ring_status ring_reducer_leave(ring_reducer *reducer);

/* Waits for this rank's submissions, then until every rank has called close. Collective. Submissions of
 * other ranks that wait for this rank fail with RING_MISMATCH. */
RING_API ring_status ring_reducer_close(ring_reducer *reducer);

/* Ends the reducer from this rank alone: outstanding submissions of all ranks complete with RING_ABORTED and
 * `reason`. Buffers are free when the submissions are done. */
RING_API void ring_reducer_abort(ring_reducer *reducer, const char *reason);

/* Frees the reducer. An open one is aborted first: outstanding submissions of all ranks complete with
 * RING_ABORTED. Submissions can still be read and freed. Not from a hook; NULL is allowed. */
RING_API void ring_reducer_free(ring_reducer *reducer);

/* Why the last call of this thread on a reducer that has failed did so; status RING_OK when none has. Valid
 * until the next failure. */
RING_API const ring_error *ring_reducer_error(const ring_reducer *reducer);

/* ---- Submitting ---------------------------------------------------------------------------- */

typedef enum ring_operation_kind {
  RING_OPERATION_ALLREDUCE = 0,
  RING_OPERATION_ALLREDUCE_GROUP = 1,
  RING_OPERATION_REDUCE_SCATTER = 2,
  RING_OPERATION_BROADCAST = 3,
  RING_OPERATION_ALLGATHER = 4,
  RING_OPERATION_ALLTOALL = 5,
  RING_OPERATION_BARRIER = 6
} ring_operation_kind;

/* The kind of that name, such as "allreduce_group"; else RING_INVALID. */
RING_API ring_status ring_operation_parse(const char *name, ring_operation_kind *kind);

/* The memory of the tensors of an operation. */
typedef enum ring_memory { RING_MEMORY_HOST = 0, RING_MEMORY_GPU = 1 } ring_memory;

/* A collective on a named tensor. Begin with RING_OPERATION_INIT. All ranks pass the same name, kind,
 * shape, dtype, op, root, factors and memory, and buffers with the same counts; else RING_MISMATCH.
 *
 * - allreduce: output has the shape of input, and may be input.
 * - allreduce_group: `buffers` in place of input, output and shape, all or none of them, of one dtype or
 *   of the dtypes in `dtypes`.
 * - reduce_scatter: rank r gets rows of the sum: shape[0] / size, one more on the first shape[0] % size
 *   ranks; the library allocates the output.
 * - broadcast: output gets root's input, and may be input.
 * - allgather: concatenates along the first dimension, which may differ between ranks; the library
 *   allocates the output.
 * - alltoall: sends splits[r] rows to rank r; splits NULL: equal parts; the first dimension may differ
 *   between ranks; the library allocates the output.
 * - barrier: no tensor.
 *
 * The factors multiply the elements of the three reductions before and after, as ring_comm_scale does. The
 * root of a broadcast reads `input` only. A note is what the caller compares besides: ranks that pass
 * another one, or none, get RING_MISMATCH, whose text shows the first 100 bytes.
 *
 * With RING_MEMORY_GPU the tensors are on one GPU of each rank. The inputs are read when the work that is on `stream` at
 * the submission is done. The operation is done when the GPU is, so its outputs are there for any stream. It is carried
 * out by a device of the reducer (sparkring_device.h), with its rounding: by NCCL, or through the host. allreduce,
 * allreduce_group and broadcast take memory of GPUs, with factors of float16, bfloat16, float32 and float64; else
 * RING_UNSUPPORTED. If ranks cannot open the device, operations on memory of GPUs fail on all ranks with its
 * status. A failure of the device is one of the reducer. */
typedef struct ring_operation {
  size_t struct_size;
  ring_operation_kind kind;
  const char *name; /* not empty */
  const void *input;
  void *output;
  const int64_t *shape; /* NULL with 0 dimensions: a scalar */
  int dimensions;       /* up to 32 */
  ring_dtype dtype;
  ring_op op;
  int root;
  double prescale, postscale;
  const int64_t *splits;      /* size numbers, or NULL */
  const ring_buffer *buffers; /* of a group */
  size_t buffer_count;
  const ring_dtype *dtypes; /* of the buffers, or NULL: `dtype` */
  const char *note;         /* or NULL */
  ring_memory memory;       /* of all tensors */
  void *stream;             /* of the inputs on a GPU: a CUstream; NULL: the default stream */
} ring_operation;

#ifdef __cplusplus
static inline ring_operation ring_operation_init(void) {
  ring_operation operation = ring_operation();
  operation.struct_size = sizeof operation;
  operation.dtype = RING_FLOAT32;
  operation.prescale = operation.postscale = 1;
  return operation;
}
#define RING_OPERATION_INIT ring_operation_init()
#else
#define RING_OPERATION_INIT                                                                        \
  {.struct_size = sizeof(ring_operation), .dtype = RING_FLOAT32, .prescale = 1, .postscale = 1}
#endif

/* Submits an operation. The operation, its name, shape, splits and list of buffers are copied; the memory
 * of the tensors stays until the submission is done, inputs unchanged and outputs untouched. *submission
 * is NULL unless it returns RING_OK. RING_INVALID, on this rank alone, for a bad argument and for a name
 * that is in flight on this rank. */
RING_API ring_status ring_reducer_submit(ring_reducer *reducer, const ring_operation *operation,
                                         ring_submission **submission);

/* Joins: from now on this rank contributes zeros to every operation that the other ranks complete, and
 * rows of no length to allgather and alltoall. Waits until all ranks have joined; *last becomes the rank
 * that joined last. This rank may not submit meanwhile. A broadcast whose root has joined fails. */
RING_API ring_status ring_reducer_join(ring_reducer *reducer, int *last);

/* ---- Submissions --------------------------------------------------------------------------- */

/* Sets *done to 1 when the submission is done, else to 0, without waiting. Returns the status of the
 * operation when it is done, RING_OK before. */
RING_API ring_status ring_submission_test(ring_submission *submission, int *done);

/* Waits until the submission is done and returns the status of the operation. RING_MISMATCH and a
 * RING_TIMEOUT of a name that some ranks miss leave the reducer usable; after another failure every submission
 * completes with the same status. When the interrupt hook ends the wait, the reducer is aborted. */
RING_API ring_status ring_submission_wait(ring_submission *submission);

/* Why the operation failed; status RING_OK when it did not, or is not done. */
RING_API const ring_error *ring_submission_error(const ring_submission *submission);

/* The output that the library has allocated, and in *rows its first dimension; NULL where the output has no
 * elements. take: the caller frees it with ring_free. */
RING_API void *ring_submission_take_output(ring_submission *submission, int64_t *rows);

/* Rows from each rank: `size` numbers, of allgather and alltoall; NULL for other kinds. */
RING_API const int64_t *ring_submission_rows(const ring_submission *submission);

/* Frees the submission, after ring_submission_wait where it is not done. NULL is allowed. */
RING_API void ring_submission_free(ring_submission *submission);

/* ---- Counters ------------------------------------------------------------------------------ */

typedef struct ring_reducer_counters {
  uint64_t cycles;       /* short allreduces that agreed on what is ready */
  uint64_t negotiations; /* exchanges of descriptions of new names */
  uint64_t operations;   /* completed submissions */
  uint64_t runs;         /* collectives that carried them out */
  uint64_t gpu_runs;     /* those on memory of GPUs */
  uint64_t cached;       /* names that are agreed on at present */
  uint64_t threshold;    /* at present */
  double cycle_time;     /* at present */
} ring_reducer_counters;

RING_API void ring_reducer_counters_read(ring_reducer *reducer, ring_reducer_counters *counters);

/* How operations on memory of GPUs are carried out (ring_device_explain). RING_INVALID before the first one. Texts live
 * as long as the reducer. */
RING_API ring_status ring_reducer_explain_device(ring_reducer *reducer,
                                                 struct ring_device_explanation *explanation);

#ifdef __cplusplus
}
#endif

#endif
