/* SPDX-License-Identifier: Apache-2.0
 *
 * Which path a device takes, agreed on by all ranks, and why: a rank without NCCL or CUDA, an init that fails or does
 * not end, two ranks on one GPU. And the life of a device: arguments, closing, forks, captures of graphs.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "devices.h"
#include "values.h"

enum { RANKS = 3 };

/* What a test sets up. */
typedef struct setup {
  ring_device_path path;
  const char *nccl_fails;   /* NCCL_STUB_FAILS */
  const char *cuda_fails;   /* CUDA_STUB_FAILS, of rank 1 */
  bool lacks_nccl, one_gpu; /* rank 1 has no NCCL; all ranks are on GPU 0 */
  bool encrypts;            /* and each rank is on a host of its own */
  double timeout;           /* 0: the usual one */
  ring_status status;       /* of the open */
  ring_device_path expected;
  const char *reason;
  int fault;
} setup;

static ring_comm *open_ranks(const setup *s, int rank, int size) {
  ring_options options = rank_options(rank, size);
  if (s->timeout > 0) options.call_timeout = s->timeout;
  options.encryption = s->encrypts ? RING_ON : RING_OFF;
  static const char *hosts[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"}; /* as support/places.h */
  if (s->encrypts) options.addresses = hosts;
  return open_with(&options);
}

/* One allreduce, which shows that the device works. */
static void use_device(ring_device *device, int size) {
  float value = 1;
  void *memory = gpu_copy(&value, sizeof value);
  device_went_well(device,
                   ring_device_allreduce(device, memory, memory, 1, RING_FLOAT32, RING_SUM, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(&value, memory, sizeof value);
  CHECK_INT(value, size);
  gpu_free(memory);
}

static void run_setup(int rank, int size, void *shared) {
  const setup *s = shared;
  ring_device *device;
  ring_device_explanation explanation;
  ring_comm *comm = open_ranks(s, rank, size);
  use_gpu(s->one_gpu ? 0 : rank);
  if (s->nccl_fails != NULL) CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  if (s->cuda_fails != NULL && rank == 1) CHECK_INT(setenv("CUDA_STUB_FAILS", s->cuda_fails, 1), 0);
  ring_device_options options = device_options(s->path);
  if (s->lacks_nccl && rank == 1) options.nccl = "/no/such/libnccl.so.2";
  ring_status status = ring_device_open(comm, &options, &device);
  if (status != s->status) fprintf(stderr, "open: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, s->status);
  if (status == RING_OK) {
    device_went_well(device, ring_device_explain(device, &explanation));
    CHECK_INT(explanation.path, s->expected);
    CHECK_CONTAINS(explanation.reason, s->reason);
    CHECK_CONTAINS(explanation.text, s->reason);
    CHECK_CONTAINS(explanation.text, "stub");
    CHECK_INT(explanation.gpu, s->one_gpu ? 0 : rank);
    use_device(device, size);
    device_went_well(device, ring_device_explain(device, &explanation));
    bool unlocked = rank == 1 && s->cuda_fails != NULL;
    CHECK_INT(explanation.page_locked, s->expected == RING_DEVICE_NCCL ? -1 : !unlocked);
    CHECK_INT(explanation.calls, 1);
    if (unlocked) CHECK_CONTAINS(explanation.text, "in memory that CUDA could not lock");
    close_device(device);
  } else {
    CHECK(device == NULL);
    CHECK_INT(ring_comm_error(comm)->rank, s->fault);
    CHECK_CONTAINS(ring_comm_error(comm)->message, s->reason);
    expect_no_leak();
  }
  CHECK_INT(ring_barrier(comm), RING_OK); /* which goes on */
  close_rank(comm);
}

#define NCCL_LACKS "rank 1 (127.0.0.1) cannot use NCCL: "

static void test_nccl_where_all_ranks_can(void) {
  RUN_RANKS(RANKS, run_setup, (setup){.expected = RING_DEVICE_NCCL, .reason = ""});
  RUN_RANKS(1, run_setup, (setup){.expected = RING_DEVICE_NCCL, .reason = ""});
}

static void test_a_rank_without_nccl(void) {
  setup s = {.lacks_nccl = true, .expected = RING_DEVICE_HOST};
  s.reason = NCCL_LACKS "/no/such/libnccl.so.2";
  RUN_RANKS(RANKS, run_setup, s);
  s.path = RING_DEVICE_NCCL;
  s.status = RING_UNSUPPORTED;
  s.fault = 1;
  RUN_RANKS(RANKS, run_setup, s);
}

static void test_no_unique_id(void) {
  setup s = {.nccl_fails = "id:0", .expected = RING_DEVICE_HOST};
  s.reason = "ncclGetUniqueId failed with 2";
  RUN_RANKS(RANKS, run_setup, s);
  s.path = RING_DEVICE_NCCL;
  s.status = RING_UNSUPPORTED;
  RUN_RANKS(RANKS, run_setup, s);
}

/* The other ranks do not wait for their deadline, which is far. */
static void test_init_fails(void) {
  setup s = {.nccl_fails = "init:1", .expected = RING_DEVICE_HOST};
  s.reason = NCCL_LACKS "ncclCommInitRankConfig failed with 3 (internal error";
  RUN_RANKS(RANKS, run_setup, s);
  s.path = RING_DEVICE_NCCL;
  s.status = RING_UNSUPPORTED;
  s.fault = 1;
  RUN_RANKS(RANKS, run_setup, s);
  s.nccl_fails = "init:0";
  s.fault = 0;
  s.reason = "rank 0 (127.0.0.1) cannot use NCCL: ncclCommInitRankConfig failed with 3";
  RUN_RANKS(RANKS, run_setup, s);
}

static void test_init_is_in_progress_for_ever(void) {
  setup s = {.nccl_fails = "pending:1", .timeout = 1, .expected = RING_DEVICE_HOST};
  s.reason = "ncclCommInitRankConfig did not end within 1.";
  RUN_RANKS(RANKS, run_setup, s);
}

static void test_two_ranks_on_one_gpu(void) {
  setup s = {.one_gpu = true, .expected = RING_DEVICE_HOST};
  s.reason = "ncclCommInitRankConfig failed with 5 (invalid usage";
  RUN_RANKS(2, run_setup, s);
}

static void test_no_gpu(void) {
  setup s = {.cuda_fails = "init", .status = RING_UNSUPPORTED, .fault = 1};
  s.reason = "rank 1 (127.0.0.1) has no GPU for a device: cuInit failed with 100 (no CUDA-capable "
             "device is detected)";
  RUN_RANKS(RANKS, run_setup, s);
}

static void test_the_host_where_it_is_asked_for(void) {
  setup s = {.path = RING_DEVICE_HOST, .expected = RING_DEVICE_HOST, .reason = "was asked for"};
  RUN_RANKS(RANKS, run_setup, s);
  s.cuda_fails = "register"; /* memory that cannot be locked does as well */
  RUN_RANKS(RANKS, run_setup, s);
}

/* NCCL would send in plain. */
static void test_the_host_where_traffic_is_encrypted(void) {
  setup s = {.encrypts = true, .expected = RING_DEVICE_HOST, .reason = "encrypts its traffic"};
  RUN_RANKS(RANKS, run_setup, s);
  s.path = s.expected = RING_DEVICE_NCCL;
  s.reason = "";
  RUN_RANKS(RANKS, run_setup, s);
}

/* ---- Options ------------------------------------------------------------------------------- */

static void run_options(ring_comm *comm, void *shared) {
  (void)shared;
  ring_device *device;
  use_gpu(ring_comm_rank(comm));
  ring_device_options options = device_options(RING_DEVICE_AUTO);
  CHECK_INT(ring_device_open(NULL, &options, &device), RING_INVALID);
  CHECK_INT(ring_device_open(comm, &options, NULL), RING_INVALID);
  options.struct_size = 3;
  CHECK_INT(ring_device_open(comm, &options, &device), RING_INVALID);
  options = device_options((ring_device_path)7);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_INVALID);
  options = device_options(ring_comm_rank(comm) == 0 ? RING_DEVICE_AUTO : RING_DEVICE_HOST);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_MISMATCH);
  options = device_options(RING_DEVICE_AUTO);
  options.gpu = 9;
  CHECK_INT(ring_device_open(comm, &options, &device), RING_UNSUPPORTED);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "cuDeviceGet failed with 101");
  options.gpu = 4 + ring_comm_rank(comm);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_OK);
  use_device(device, ring_comm_size(comm));
  close_device(device);
}

static void test_options(void) {
  run_comms(2, run_options, NULL);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void run_arguments(ring_comm *comm, void *shared) {
  int done;
  const size_t counts[2] = {1, 1};
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  void *m = gpu_alloc(64);
  CHECK_INT(ring_device_allreduce(NULL, m, m, 1, RING_INT8, RING_SUM, NULL), RING_INVALID);
  CHECK_INT(ring_device_allreduce(device, NULL, m, 1, RING_INT8, RING_SUM, NULL), RING_INVALID);
  CHECK_INT(ring_device_allreduce(device, m, NULL, 1, RING_INT8, RING_SUM, NULL), RING_INVALID);
  CHECK_INT(ring_device_allreduce(device, m, m, 1, (ring_dtype)99, RING_SUM, NULL), RING_INVALID);
  CHECK_INT(ring_device_allreduce(device, m, m, 1, RING_BOOL, RING_AVG, NULL), RING_INVALID);
  CHECK_CONTAINS(ring_device_error(device)->message, "the op avg does not work on bool");
  CHECK_INT(ring_device_allreduce(device, m, m, SIZE_MAX / 2, RING_INT64, RING_SUM, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_reduce(device, m, m, 1, RING_INT8, RING_SUM, 2, NULL), RING_INVALID);
  CHECK_INT(ring_device_broadcast(device, m, m, 1, RING_INT8, -1, NULL), RING_INVALID);
  CHECK_INT(ring_device_alltoallv(device, m, NULL, m, counts, RING_INT8, NULL), RING_INVALID);
  CHECK_INT(ring_device_alltoallv(device, NULL, counts, m, counts, RING_INT8, NULL), RING_INVALID);
  CHECK_INT(ring_device_send(device, m, 1, RING_INT8, ring_comm_rank(comm), NULL), RING_INVALID);
  CHECK_INT(ring_device_recv(device, NULL, 1, RING_INT8, 1 - ring_comm_rank(comm), NULL),
            RING_INVALID);
  CHECK_INT(ring_device_test(device, NULL, NULL), RING_INVALID);
  CHECK_INT(ring_device_wait(NULL, NULL), RING_INVALID);
  CHECK_INT(ring_device_explain(device, NULL), RING_INVALID);
  use_device(device, 2); /* refused calls count for nothing */
  gpu_free(m);
  device_went_well(device, ring_device_close(device));
  CHECK_INT(ring_device_close(device), RING_INVALID);
  CHECK_INT(ring_device_test(device, NULL, &done), RING_INVALID);
  ring_device_abort(device, "late");
  ring_device_free(device);
  ring_device_free(NULL);
  expect_no_leak();
}

static void test_arguments(void) {
  RUN_COMMS(2, run_arguments, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_arguments, (ring_device_path[1]){RING_DEVICE_HOST});
}

/* ---- Threads ------------------------------------------------------------------------------- */

typedef struct caller {
  ring_device *device;
  void *memory;
  ring_status status;
} caller;

static void *call(void *arg) {
  caller *of = arg;
  CHECK_INT(gpu.cuda.context_push(gpu.context), 0);
  of->status =
      ring_device_allreduce(of->device, of->memory, of->memory, 1, RING_INT32, RING_SUM, NULL);
  return NULL;
}

/* Rank 0 calls from two threads, of which one waits for rank 1 in its call. */
static void run_busy(ring_comm *comm, void *shared) {
  int *begun = shared;
  pthread_t thread;
  ring_device *device = open_device(comm, RING_DEVICE_HOST);
  caller of = {.device = device, .memory = gpu_alloc(64)};
  if (ring_comm_rank(comm) == 1) await_count(begun, 1);
  CHECK_INT(pthread_create(&thread, NULL, call, &of), 0);
  if (ring_comm_rank(comm) == 0) {
    ring_status status = RING_OK;
    while (status != RING_BUSY) { /* its own refused calls count for nothing */
      usleep(1000);
      status = ring_device_allreduce(device, NULL, NULL, 1, RING_INT32, RING_SUM, NULL);
      CHECK(status == RING_BUSY || status == RING_INVALID);
    }
    __sync_fetch_and_add(begun, 1);
  }
  pthread_join(thread, NULL);
  CHECK_INT(of.status, RING_OK);
  gpu_free(of.memory);
  close_device(device);
}

static void test_a_device_serves_one_call_at_a_time(void) {
  RUN_COMMS(2, run_busy, (int[1]){0});
}

/* ---- Graphs and forks ---------------------------------------------------------------------- */

static ring_status reduce_group(ring_device *device, const ring_buffer *buffers,
                                ring_cuda_stream stream) {
  return ring_device_allreduce_group(device, buffers, 2, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1, 1,
                                     stream);
}

/* A stream that captures is not watched by NCCL's path, and refused by the host's. */
static void run_capture(ring_comm *comm, void *shared) {
  ring_device_path path = *(ring_device_path *)shared;
  ring_cuda_stream stream;
  ring_device *device = open_device(comm, path);
  void *memory = gpu_alloc(64);
  CHECK_INT(gpu.cuda.stream_create(&stream, 0), 0);
  gpu.capture(stream, 1);
  ring_status status =
      ring_device_allreduce(device, memory, memory, 1, RING_INT8, RING_SUM, stream);
  CHECK_INT(status, path == RING_DEVICE_NCCL ? RING_OK : RING_UNSUPPORTED);
  const ring_buffer buffers[2] = {{memory, memory, 2},
                                  {(char *)memory + 32, (char *)memory + 32, 2}};
  CHECK_INT(reduce_group(device, buffers, stream), RING_UNSUPPORTED);
  CHECK_INT(ring_device_cast(device, memory, RING_FLOAT32, memory, RING_FLOAT32, 1, 2, stream),
            RING_UNSUPPORTED);
  gpu.capture(stream, 0);
  use_device(device, 2);
  device_went_well(device, reduce_group(device, buffers, stream));
  gpu.capture(stream, 1);
  status = reduce_group(device, buffers, stream);
  CHECK_INT(status, path == RING_DEVICE_NCCL ? RING_OK : RING_UNSUPPORTED);
  gpu.capture(stream, 0);
  stream_rests(stream);
  CHECK_INT(gpu.cuda.stream_destroy(stream), 0);
  gpu_free(memory);
  close_device(device);
}

static void test_captures(void) {
  RUN_COMMS(2, run_capture, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_capture, (ring_device_path[1]){RING_DEVICE_HOST});
}

static void run_fork(ring_comm *comm, void *shared) {
  (void)shared;
  int status, done;
  ring_device *device = open_device(comm, RING_DEVICE_NCCL);
  pid_t child = fork_for(20);
  if (child == 0) {
    bool refuses = ring_device_test(device, NULL, &done) == RING_INVALID &&
                   ring_device_close(device) == RING_INVALID;
    ring_device_free(device);
    _exit(refuses ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
  use_device(device, 2);
  close_device(device);
}

static void test_forked_children_only_free(void) {
  run_comms(2, run_fork, NULL);
}

int main(void) {
  RUN(test_nccl_where_all_ranks_can);
  RUN(test_a_rank_without_nccl);
  RUN(test_no_unique_id);
  RUN(test_init_fails);
  RUN(test_init_is_in_progress_for_ever);
  RUN(test_two_ranks_on_one_gpu);
  RUN(test_no_gpu);
  RUN(test_the_host_where_it_is_asked_for);
  RUN(test_the_host_where_traffic_is_encrypted);
  RUN(test_options);
  RUN(test_arguments);
  RUN(test_a_device_serves_one_call_at_a_time);
  RUN(test_captures);
  RUN(test_forked_children_only_free);
  return 0;
}
