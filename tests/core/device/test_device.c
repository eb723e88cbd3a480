/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call of a communicator on memory of a GPU gives what it gives for the same memory on the host: on 1 to 3 ranks,
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

static ring_status call(ring_comm *comm, const trial *t, const void *in, void *out) {
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

static void comm_went_well(ring_comm *comm, ring_status status) {
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
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
  CHECK_INT(call(comm, t, in, expected), RING_OK);
  void *gpu_in = gpu_copy(in, ins * width), *gpu_out = gpu_copy(out, outs * width);
  ring_comm_on_device(comm, device, stream);
  comm_went_well(comm, call(comm, t, gpu_in, t->in_place ? gpu_in : gpu_out));
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
  ring_comm_on_device(comm, device, stream);
  comm_went_well(comm, ring_alltoallv(comm, gpu_in, sends, gpu_out, receives, RING_INT32));
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
  ring_comm_on_device(comm, device, stream);
  comm_went_well(comm, rank == 0 ? ring_send(comm, memory, count, RING_FLOAT64, 1)
                                 : ring_recv(comm, memory, count, RING_FLOAT64, 0));
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
    device_went_well(device, ring_allreduce(on(device, stream), memory, memory, 1, RING_FLOAT64,
                                            i % 2 == 0 ? RING_SUM : RING_AVG));
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

/* ---- Groups and factors -------------------------------------------------------------------- */

enum { ITEMS = 4, ITEM_COUNT = 30 };

/* The items of a group of float32 and int32, in memory of the host or copied to the GPU. */
static void make_items(ring_comm *comm, ring_group_item *items, float memory[ITEMS][2][90],
                       bool on_gpu) {
  for (int i = 0; i < ITEMS; i++) {
    for (int k = 0; k < 90; k++) {
      int value = k + i + ring_comm_rank(comm);
      float real = (float)value;
      memcpy(&memory[i][0][k], i % 2 == 0 ? (void *)&real : (void *)&value, 4);
      memory[i][1][k] = 0;
    }
    items[i] = (ring_group_item){memory[i][0], memory[i][1], ITEM_COUNT,
                                 i % 2 == 0 ? RING_FLOAT32 : RING_INT32};
    if (!on_gpu) continue;
    items[i].input = gpu_copy(memory[i][0], sizeof memory[i][0]);
    items[i].output = gpu_copy(memory[i][1], sizeof memory[i][1]);
  }
}

static void try_group(ring_comm *comm, ring_device *device, ring_group_kind kind, size_t count,
                      double factor) {
  static float host[ITEMS][2][90], gpu_side[ITEMS][2][90];
  ring_group_item items[ITEMS];
  make_items(comm, items, host, false);
  if (kind == RING_GROUP_ALLREDUCE) ring_comm_scale(comm, factor, 1);
  comm_went_well(comm, ring_group(comm, kind, items, count, RING_SUM, 0));
  make_items(comm, items, gpu_side, true);
  ring_comm_on_device(comm, device, stream);
  if (kind == RING_GROUP_ALLREDUCE) ring_comm_scale(comm, factor, 1);
  comm_went_well(comm, ring_group(comm, kind, items, count, RING_SUM, 0));
  device_went_well(device, ring_device_wait(device, stream));
  for (size_t i = 0; i < ITEMS; i++) {
    gpu_get(gpu_side[i][1], items[i].output, sizeof gpu_side[i][1]);
    if (i < count) CHECK(memcmp(gpu_side[i][1], host[i][1], sizeof host[i][1]) == 0);
    gpu_free((void *)items[i].input);
    gpu_free(items[i].output);
  }
}

static void try_groups(ring_comm *comm, ring_device *device) {
  try_group(comm, device, RING_GROUP_ALLREDUCE, ITEMS, 1);
  try_group(comm, device, RING_GROUP_ALLREDUCE, 1, 0.5); /* float32: a factor of each element */
  try_group(comm, device, RING_GROUP_ALLREDUCE, 0, 1);
  try_group(comm, device, RING_GROUP_ALLGATHER, ITEMS, 1);
  try_group(comm, device, RING_GROUP_BROADCAST, ITEMS, 1);
  if (ring_comm_size(comm) < 3) return;
  try_group(comm, device, RING_GROUP_REDUCE_SCATTER, ITEMS, 1);
}

static void run_groups(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_groups);
}

static void test_groups(void) {
  for (int size = 1; size <= most_ranks(); size++) {
    RUN_COMMS(size, run_groups, (ring_device_path[1]){RING_DEVICE_NCCL});
    RUN_COMMS(size, run_groups, (ring_device_path[1]){RING_DEVICE_HOST});
  }
}

/* ---- The place of one call ------------------------------------------------------------------ */

/* A refused call leaves device and communicator usable, and uses the place up. */
static void try_refusals(ring_comm *comm, ring_device *device) {
  float *memory = gpu_alloc(1000), value = 1;
  ring_comm_on_device(comm, device, stream);
  CHECK_INT(ring_gather(comm, memory, memory + 1, 1, RING_FLOAT32, 0), RING_UNSUPPORTED);
  CHECK(strstr(ring_comm_error(comm)->message, "gather takes no arrays on GPUs") != NULL);
  ring_comm_on_device(comm, device, stream);
  ring_comm_scale(comm, 2, 1);
  CHECK_INT(ring_reduce(comm, memory, memory, 1, RING_FLOAT32, RING_SUM, 0), RING_UNSUPPORTED);
  ring_comm_on_device(comm, device, stream);
  CHECK_INT(ring_allreduce(comm, NULL, memory, 1, RING_FLOAT32, RING_SUM), RING_INVALID);
  ring_comm_on_device(comm, device, stream);
  CHECK_INT(ring_allreduce(comm, (char *)memory + 2, memory + 9, 1, RING_FLOAT32, RING_SUM),
            RING_INVALID);
  CHECK(strstr(ring_comm_error(comm)->message, "not aligned") != NULL);
  ring_comm_on_device(comm, NULL, stream);
  CHECK_INT(ring_allreduce(comm, memory, memory, 1, RING_FLOAT32, RING_SUM), RING_INVALID);
  comm_went_well(comm, ring_allreduce(comm, &value, &value, 1, RING_FLOAT32, RING_SUM));
  CHECK(value == (float)ring_comm_size(comm));
  gpu_free(memory);
}

/* A request is complete when its work is on the stream. */
static void try_start(ring_comm *comm, ring_device *device) {
  float value = 1;
  int done = 0;
  ring_request *request;
  void *memory = gpu_copy(&value, sizeof value);
  ring_comm_on_device(comm, device, stream);
  comm_went_well(comm,
                 ring_allreduce_start(comm, memory, memory, 1, RING_FLOAT32, RING_SUM, &request));
  CHECK_INT(ring_request_test(request, &done), RING_OK);
  CHECK_INT(done, 1);
  ring_request_free(request);
  device_went_well(device, ring_device_wait(device, stream));
  gpu_get(&value, memory, sizeof value);
  CHECK(value == (float)ring_comm_size(comm));
  ring_comm_on_device(comm, device, stream);
  CHECK_INT(ring_scan_start(comm, memory, memory, 1, RING_FLOAT32, RING_SUM, &request),
            RING_UNSUPPORTED);
  CHECK(request == NULL);
  gpu_free(memory);
}

/* Calls of a device do not wait for requests on memory of the host, whose order is another one. */
static void try_order(ring_comm *comm, ring_device *device) {
  float value = 1, number = 1;
  ring_request *request = NULL;
  void *memory = gpu_copy(&value, sizeof value);
  for (int turn = 0; turn < 2; turn++) {
    if (turn == ring_comm_rank(comm) % 2) {
      comm_went_well(
          comm, ring_allreduce_start(comm, &number, &number, 1, RING_FLOAT32, RING_SUM, &request));
    } else {
      ring_comm_on_device(comm, device, stream);
      comm_went_well(comm, ring_allreduce(comm, memory, memory, 1, RING_FLOAT32, RING_SUM));
      device_went_well(device, ring_device_wait(device, stream));
    }
  }
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  CHECK(number == (float)ring_comm_size(comm));
  gpu_free(memory);
}

static void try_places(ring_comm *comm, ring_device *device) {
  try_refusals(comm, device);
  try_start(comm, device);
  try_order(comm, device);
}

static void run_places(ring_comm *comm, void *shared) {
  with_device(comm, *(ring_device_path *)shared, try_places);
}

static void test_place_of_one_call(void) {
  RUN_COMMS(2, run_places, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_places, (ring_device_path[1]){RING_DEVICE_HOST});
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
                   ring_allreduce(on(device, NULL), input, output, COUNT, RING_INT32, RING_SUM));
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
  RUN(test_groups);
  RUN(test_place_of_one_call);
  RUN(test_memory);
  return 0;
}
