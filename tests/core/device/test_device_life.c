/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a device: arguments that are refused, threads, closing, forks, captures of graphs.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "devices.h"

/* ---- Arguments ----------------------------------------------------------------------------- */

static void run_arguments(ring_comm *comm, void *shared) {
  int done;
  const size_t counts[2] = {1, 1};
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  uint8_t *m = gpu_alloc(64);
  void *const of_thread = (void *)RING_CUDA_STREAM_OF_THREAD;
  CHECK_INT(ring_allreduce(on(NULL, NULL), m, m, 1, RING_INT8, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, NULL), NULL, m, 1, RING_INT8, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, NULL), m, NULL, 1, RING_INT8, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, NULL), m, m, 1, (ring_dtype)99, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, NULL), m, m, 1, RING_BOOL, RING_AVG), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "op avg is not defined on bool");
  CHECK_INT(ring_allreduce(on(device, NULL), m, m, SIZE_MAX / 2, RING_INT64, RING_SUM),
            RING_INVALID);
  CHECK_INT(ring_reduce(on(device, NULL), m, m, 1, RING_INT8, RING_SUM, 2), RING_INVALID);
  CHECK_INT(ring_broadcast(on(device, NULL), m, m, 1, RING_INT8, -1), RING_INVALID);
  CHECK_INT(ring_alltoallv(on(device, NULL), m, NULL, m, counts, RING_INT8), RING_INVALID);
  CHECK_INT(ring_alltoallv(on(device, NULL), NULL, counts, m, counts, RING_INT8), RING_INVALID);
  CHECK_INT(ring_send(on(device, NULL), m, 1, RING_INT8, ring_comm_rank(comm)), RING_INVALID);
  CHECK_INT(ring_recv(on(device, NULL), NULL, 1, RING_INT8, 1 - ring_comm_rank(comm)),
            RING_INVALID);
  CHECK_INT(ring_alltoallv(on(device, NULL), m, (size_t[]){1, SIZE_MAX}, m, counts, RING_INT8),
            RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, NULL), m + 2, m + 2, 1, RING_FLOAT32, RING_SUM),
            RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "aligned");
  CHECK_INT(ring_allgather(on(device, NULL), m, m + 4, 1, RING_COMPLEX128), RING_INVALID);
  CHECK_INT(ring_device_cast(device, m, RING_FLOAT16, m + 2, RING_FLOAT32, 1, 1, NULL),
            RING_INVALID);
  CHECK_INT(ring_allreduce(on(device, of_thread), m, m, 1, RING_INT8, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_device_error(device)->message, "the default stream of a thread");
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

/* Memory of another GPU is refused before a rank waits. */
static void run_elsewhere(ring_comm *comm, void *shared) {
  ring_cuda_context other;
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  CHECK_INT(gpu.cuda.context_retain(&other, 5), 0);
  CHECK_INT(gpu.cuda.context_push(other), 0);
  void *memory = gpu_alloc(64);
  const ring_buffer buffer = {memory, memory, 1};
  CHECK_INT(ring_allreduce(on(device, NULL), memory, memory, 1, RING_INT8, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_device_error(device)->message, "memory is on GPU 5, and the device is GPU");
  CHECK_INT(
      ring_device_allreduce_group(device, &buffer, 1, RING_INT8, RING_INT8, RING_SUM, 1, 1, NULL),
      RING_INVALID);
  gpu_free(memory);
  CHECK_INT(gpu.cuda.context_pop(&other), 0);
  CHECK_INT(gpu.cuda.context_release(5), 0);
  use_device(device, 2);
  close_device(device);
}

static void test_memory_of_another_gpu(void) {
  RUN_COMMS(2, run_elsewhere, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_elsewhere, (ring_device_path[1]){RING_DEVICE_HOST});
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
      ring_allreduce(on(of->device, NULL), of->memory, of->memory, 1, RING_INT32, RING_SUM);
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
    while (status != RING_BUSY) {
      usleep(1000);
      status = ring_device_cast(device, NULL, RING_FLOAT32, NULL, RING_FLOAT32, 1, 2, NULL);
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

/* Another thread waits, tests and explains until the device is closed. */
static void *look(void *arg) {
  ring_device_explanation explanation;
  ring_device *device = arg;
  int done;
  while (ring_device_wait(device, NULL) == RING_OK &&
         ring_device_test(device, NULL, &done) == RING_OK &&
         ring_device_explain(device, &explanation) == RING_OK)
    continue;
  CHECK_INT(ring_device_error(device)->status, RING_INVALID);
  CHECK_CONTAINS(ring_device_error(device)->message, "the device is closed");
  return NULL;
}

static void run_looks(ring_comm *comm, void *shared) {
  pthread_t thread;
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  CHECK_INT(pthread_create(&thread, NULL, look, device), 0);
  for (int i = 0; i < 20; i++) use_device(device, 2);
  device_went_well(device, ring_device_close(device));
  pthread_join(thread, NULL);
  ring_device_free(device);
  expect_no_leak();
}

static void test_a_wait_beside_close(void) {
  RUN_COMMS(2, run_looks, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_looks, (ring_device_path[1]){RING_DEVICE_HOST});
}

/* ---- Graphs and forks ---------------------------------------------------------------------- */

/* The stub ends the process where a stream that captures is used. */
static void expect_refusals(ring_device *device, float *memory, ring_cuda_stream stream) {
  int done;
  const ring_buffer buffers[2] = {{memory, memory, 2}, {memory + 8, memory + 8, 2}};
  CHECK_INT(ring_allreduce(on(device, stream), memory, memory, 1, RING_INT8, RING_SUM),
            RING_UNSUPPORTED);
  CHECK_CONTAINS(ring_device_error(device)->message, "the stream captures a graph");
  CHECK_INT(ring_allreduce(on(device, stream), memory, memory, 1, RING_BOOL, RING_LOR),
            RING_UNSUPPORTED);
  CHECK_INT(reduce_group(device, buffers, RING_FLOAT32, stream), RING_UNSUPPORTED);
  CHECK_INT(ring_device_cast(device, memory, RING_FLOAT32, memory, RING_FLOAT32, 1, 2, stream),
            RING_UNSUPPORTED);
  CHECK_INT(ring_device_wait(device, stream), RING_UNSUPPORTED);
  CHECK_INT(ring_device_test(device, stream, &done), RING_UNSUPPORTED);
}

/* One rank captures: that is its own error, and the ranks go on. Calls on other streams meanwhile work. */
static void run_capture(ring_comm *comm, void *shared) {
  ring_cuda_stream stream, other;
  ring_device_explanation explanation;
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  float *memory = gpu_alloc(64);
  const ring_buffer buffers[2] = {{memory, memory, 2}, {memory + 8, memory + 8, 2}};
  CHECK_INT(gpu.cuda.stream_create(&stream, 0), 0);
  CHECK_INT(gpu.cuda.stream_create(&other, RING_CUDA_STREAM_NON_BLOCKING), 0);
  if (ring_comm_rank(comm) == 1) {
    gpu.capture(stream, 1);
    expect_refusals(device, memory, stream);
    expect_refusals(device, memory, NULL); /* a capture forbids the default stream, too */
    CHECK_INT(ring_device_explain(device, &explanation), RING_OK);
    CHECK_INT(explanation.calls, 0);
  }
  device_went_well(device, reduce_group(device, buffers, RING_FLOAT32, other));
  device_went_well(device,
                   ring_allreduce(on(device, other), memory, memory, 1, RING_BOOL, RING_LOR));
  device_went_well(device, ring_device_wait(device, other));
  if (ring_comm_rank(comm) == 1) gpu.capture(stream, 0);
  device_went_well(device, reduce_group(device, buffers, RING_FLOAT32, stream));
  device_went_well(device, ring_device_wait(device, stream));
  use_device(device, 2);
  CHECK_INT(gpu.cuda.stream_destroy(stream), 0);
  CHECK_INT(gpu.cuda.stream_destroy(other), 0);
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
  RUN(test_arguments);
  RUN_ON_STUBS(test_memory_of_another_gpu);
  RUN(test_a_device_serves_one_call_at_a_time);
  RUN(test_a_wait_beside_close);
  RUN_ON_STUBS(test_captures);
  RUN(test_forked_children_only_free);
  return 0;
}
