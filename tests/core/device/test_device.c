/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective of a device gives what the communicator gives for the same memory on the host: on 1 to 3 ranks,
 * by NCCL and through the host, for every dtype and op. CUDA and NCCL are stubs (tests/core/libraries).
 */
#include "base/dtype.h"
#include "devices.h"
#include "values.h"

enum { SHORT = 1000, LONG = 3 * 1024 * 1024 / 4 + 5 };

static ring_cuda_stream stream; /* of the calls */

typedef enum kind { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, ALLTOALL, KINDS } kind;

typedef struct trial {
  kind kind;
  size_t count;
  ring_dtype dtype;
  ring_op op;
  int root;
  bool in_place; /* where the call permits it */
} trial;

static bool reduces(kind of) {
  return of == ALLREDUCE || of == REDUCE || of == REDUCE_SCATTER;
}

static ring_status on_host(ring_comm *comm, const trial *t, const void *in, void *out) {
  switch (t->kind) {
  case ALLREDUCE:
    return ring_allreduce(comm, in, out, t->count, t->dtype, t->op);
  case REDUCE:
    return ring_reduce(comm, in, out, t->count, t->dtype, t->op, t->root);
  case BROADCAST:
    return ring_broadcast(comm, in, out, t->count, t->dtype, t->root);
  case ALLGATHER:
    return ring_allgather(comm, in, out, t->count, t->dtype);
  case REDUCE_SCATTER:
    return ring_reduce_scatter(comm, in, out, t->count, t->dtype, t->op);
  default:
    return ring_alltoall(comm, in, out, t->count, t->dtype);
  }
}

static ring_status on_device(ring_device *device, const trial *t, const void *in, void *out) {
  switch (t->kind) {
  case ALLREDUCE:
    return ring_device_allreduce(device, in, out, t->count, t->dtype, t->op, stream);
  case REDUCE:
    return ring_device_reduce(device, in, out, t->count, t->dtype, t->op, t->root, stream);
  case BROADCAST:
    return ring_device_broadcast(device, in, out, t->count, t->dtype, t->root, stream);
  case ALLGATHER:
    return ring_device_allgather(device, in, out, t->count, t->dtype, stream);
  case REDUCE_SCATTER:
    return ring_device_reduce_scatter(device, in, out, t->count, t->dtype, t->op, stream);
  default:
    return ring_device_alltoall(device, in, out, t->count, t->dtype, stream);
  }
}

static void check(ring_comm *comm, ring_device *device, const trial *t) {
  size_t size = (size_t)ring_comm_size(comm), width = ring_dtype_size(t->dtype);
  size_t ins = t->count * (t->kind == REDUCE_SCATTER || t->kind == ALLTOALL ? size : 1);
  size_t outs = t->count * (t->kind == ALLGATHER || t->kind == ALLTOALL ? size : 1);
  uint8_t *in = calloc(ins + 1, width), *out = calloc(outs + 1, width),
          *expected = calloc(outs + 1, width);
  for (size_t i = 0; i < ins; i++) put(in, t->dtype, i, 1 + exact(ring_comm_rank(comm), i));
  memset(out, 0x55, outs * width);
  memset(expected, 0x55, outs * width);
  CHECK_INT(on_host(comm, t, in, expected), RING_OK);
  void *gpu_in = gpu_copy(in, ins * width), *gpu_out = gpu_copy(out, outs * width);
  device_went_well(device, on_device(device, t, gpu_in, t->in_place ? gpu_in : gpu_out));
  device_went_well(device, ring_device_wait(device, stream));
  gpu_get(out, t->in_place ? gpu_in : gpu_out, outs * width);
  bool has = t->kind != REDUCE || ring_comm_rank(comm) == t->root;
  if (has && memcmp(out, expected, outs * width) != 0) {
    fprintf(stderr, "collective %d of %zu %s, %s, root %d\n", t->kind, t->count,
            ring_dtype_name(t->dtype), ring_op_name(t->op), t->root);
    exit(1);
  }
  gpu_free(gpu_in);
  gpu_free(gpu_out);
  free(in);
  free(out);
  free(expected);
}

static void try_dtypes(ring_comm *comm, ring_device *device) {
  int last = ring_comm_size(comm) - 1;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++) {
    for (int of = 0; of < KINDS; of++) {
      for (int op = 0; op < (reduces((kind)of) ? RING_OP_COUNT : 1); op++) {
        if (reduces((kind)of) && !ring_op_allowed((ring_op)op, (ring_dtype)dtype)) continue;
        const trial t = {.kind = (kind)of,
                         .count = SHORT,
                         .dtype = (ring_dtype)dtype,
                         .op = (ring_op)op,
                         .root = op == RING_SUM ? last : 0};
        check(comm, device, &t);
      }
    }
  }
}

static void try_counts(ring_comm *comm, ring_device *device) {
  const size_t counts[] = {0, 1, 2, LONG};
  for (int of = 0; of < KINDS; of++)
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
      check(comm, device,
            &(trial){.kind = (kind)of, .count = counts[i], .dtype = RING_FLOAT32, .op = RING_SUM});
  check(comm, device, &(trial){ALLREDUCE, LONG, RING_FLOAT32, RING_SUM, 0, true});
  check(comm, device, &(trial){REDUCE, SHORT, RING_FLOAT32, RING_SUM, 0, true});
  check(comm, device, &(trial){BROADCAST, LONG, RING_UINT8, RING_SUM, 0, true});
}

static void with_device(ring_comm *comm, ring_device_path path,
                        void (*function)(ring_comm *, ring_device *)) {
  ring_device *device = open_device(comm, path);
  ring_device_explanation explanation;
  device_went_well(device, ring_device_explain(device, &explanation));
  CHECK_INT(explanation.path, path);
  CHECK_INT(gpu.cuda.stream_create(&stream, 0), 0);
  function(comm, device);
  stream_rests(stream);
  CHECK_INT(gpu.cuda.stream_destroy(stream), 0);
  stream = NULL;
  function(comm, device); /* on the default stream */
  close_device(device);
}

static void run_dtypes(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_dtypes);
}

static void run_counts(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_counts);
}

static void test_every_dtype_and_op(void) {
  for (int size = 1; size <= most_ranks(); size++) {
    RUN_COMMS(size, run_dtypes, (ring_device_path[1]){RING_DEVICE_NCCL});
    RUN_COMMS(size, run_dtypes, (ring_device_path[1]){RING_DEVICE_HOST});
  }
}

static void test_every_count(void) {
  for (int size = 1; size <= most_ranks(); size++) {
    RUN_COMMS(size, run_counts, (ring_device_path[1]){RING_DEVICE_NCCL});
    RUN_COMMS(size, run_counts, (ring_device_path[1]){RING_DEVICE_HOST});
  }
}

/* ---- Unequal parts and messages ------------------------------------------------------------ */

static size_t part_of(int from, int to, size_t unit) {
  return unit * (size_t)((from + 2 * to) % 3);
}

static void try_alltoallv(ring_comm *comm, ring_device *device, size_t unit) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t sends[3], receives[3], ins = 0, outs = 0;
  for (int r = 0; r < size; r++) {
    ins += sends[r] = part_of(rank, r, unit);
    outs += receives[r] = part_of(r, rank, unit);
  }
  int32_t *in = calloc(ins + 1, 4), *out = calloc(outs + 1, 4), *expected = calloc(outs + 1, 4);
  for (size_t i = 0; i < ins; i++) in[i] = (int32_t)i * 10 + rank;
  CHECK_INT(ring_alltoallv(comm, in, sends, expected, receives, RING_INT32), RING_OK);
  void *gpu_in = gpu_copy(in, 4 * ins), *gpu_out = gpu_copy(out, 4 * outs);
  device_went_well(
      device, ring_device_alltoallv(device, gpu_in, sends, gpu_out, receives, RING_INT32, stream));
  device_went_well(device, ring_device_wait(device, stream));
  gpu_get(out, gpu_out, 4 * outs);
  CHECK(memcmp(out, expected, 4 * outs) == 0);
  gpu_free(gpu_in);
  gpu_free(gpu_out);
  free(in);
  free(out);
  free(expected);
}

static void try_messages(ring_comm *comm, ring_device *device, size_t count) {
  int rank = ring_comm_rank(comm);
  if (rank > 1) return;
  double *values = calloc(count + 1, 8);
  for (size_t i = 0; i < count && rank == 0; i++) values[i] = (double)i / 8;
  void *memory = gpu_copy(values, 8 * count);
  device_went_well(device, rank == 0
                               ? ring_device_send(device, memory, count, RING_FLOAT64, 1, stream)
                               : ring_device_recv(device, memory, count, RING_FLOAT64, 0, stream));
  device_went_well(device, ring_device_wait(device, stream));
  gpu_get(values, memory, 8 * count);
  for (size_t i = 0; i < count; i++) CHECK(values[i] == (double)i / 8);
  gpu_free(memory);
  free(values);
}

static void try_parts(ring_comm *comm, ring_device *device) {
  try_alltoallv(comm, device, 100);
  try_alltoallv(comm, device, 500001);
  if (ring_comm_size(comm) == 1) return;
  try_messages(comm, device, 0);
  try_messages(comm, device, 1);
  try_messages(comm, device, 1000001);
}

static void run_parts(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_parts);
}

static void test_unequal_parts_and_messages(void) {
  for (int size = 1; size <= most_ranks(); size++) {
    RUN_COMMS(size, run_parts, (ring_device_path[1]){RING_DEVICE_NCCL});
    RUN_COMMS(size, run_parts, (ring_device_path[1]){RING_DEVICE_HOST});
  }
}

/* ---- Calls one after another --------------------------------------------------------------- */

/* Calls on a stream see what the calls before have written; test tells when all is done. */
static void try_chain(ring_comm *comm, ring_device *device) {
  enum { CALLS = 60 };
  double value = 1;
  int done = 0;
  void *memory = gpu_copy(&value, sizeof value);
  for (int i = 0; i < CALLS; i++)
    device_went_well(device, ring_device_allreduce(device, memory, memory, 1, RING_FLOAT64,
                                                   i % 2 == 0 ? RING_SUM : RING_AVG, stream));
  while (!done) device_went_well(device, ring_device_test(device, stream, &done));
  gpu_get(&value, memory, sizeof value);
  double expected = 1;
  for (int i = 0; i < CALLS / 2; i++) expected *= ring_comm_size(comm);
  CHECK(value == expected);
  gpu_free(memory);
}

static void run_chain(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_chain);
}

static void test_calls_run_in_order(void) {
  RUN_COMMS(most_ranks(), run_chain, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(most_ranks(), run_chain, (ring_device_path[1]){RING_DEVICE_HOST});
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Memory takes results and lends them, and is freed after the device. */
static void run_memory(ring_comm *comm, void *shared) {
  enum { COUNT = 1000 };
  int32_t values[COUNT];
  ring_device_memory *memory, *nothing;
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  device_went_well(device, ring_device_memory_alloc(device, sizeof values, &memory));
  device_went_well(device, ring_device_memory_alloc(device, 0, &nothing));
  CHECK_INT(ring_device_memory_alloc(device, 1, NULL), RING_INVALID);
  CHECK(ring_device_memory_address(nothing) != NULL);
  ring_device_memory_free(nothing);
  for (int i = 0; i < COUNT; i++) values[i] = i;
  void *input = gpu_copy(values, sizeof values), *output = ring_device_memory_address(memory);
  device_went_well(device,
                   ring_device_allreduce(device, input, output, COUNT, RING_INT32, RING_SUM, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(values, output, sizeof values);
  for (int i = 0; i < COUNT; i++) CHECK_INT(values[i], i * ring_comm_size(comm));
  gpu_free(input);
  CHECK_INT(ring_device_close(device), RING_OK);
  CHECK_INT(ring_device_memory_alloc(device, 1, &nothing), RING_INVALID);
  CHECK(nothing == NULL);
  ring_device_free(device);
  gpu_get(values, output, sizeof values);
  CHECK_INT(values[1], ring_comm_size(comm));
  ring_device_memory_free(memory);
  ring_device_memory_free(NULL);
}

static void test_memory(void) {
  RUN_COMMS(2, run_memory, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_memory, (ring_device_path[1]){RING_DEVICE_HOST});
}

int main(void) {
  RUN_WITHOUT_THREADS(test_every_dtype_and_op);
  RUN(test_every_count);
  RUN(test_unequal_parts_and_messages);
  RUN(test_calls_run_in_order);
  RUN(test_memory);
  return 0;
}
