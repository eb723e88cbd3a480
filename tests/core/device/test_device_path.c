/* SPDX-License-Identifier: Apache-2.0
 *
 * Which path a device takes, agreed on by all ranks, and why: a rank without NCCL or CUDA, an init that fails or does
 * not end, two ranks on one GPU; and what a device does without kernels.
 */
#include "base/half.h"
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
  const char *version;      /* NCCL_STUB_VERSION, of rank 1 */
  double timeout;           /* 0: the usual one */
  ring_status status;       /* of the open */
  ring_device_path expected;
  const char *reason;
  int fault;
} setup;

static int logged; /* texts of this rank about the host's path */

static void count_logged(void *arg, const char *message) {
  (void)arg;
  if (strstr(message, "arrays on GPUs go through the host, which is slow: ") != NULL) logged++;
}

static ring_comm *open_ranks(const setup *s, int rank, int size) {
  ring_options options = rank_options(rank, size);
  if (s->timeout > 0) options.call_timeout = s->timeout;
  options.log = count_logged;
  options.encryption = s->encrypts ? RING_ON : RING_OFF;
  static const char *hosts[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"}; /* as support/places.h */
  if (s->encrypts) options.addresses = hosts;
  return open_with(&options);
}

static void run_setup(int rank, int size, void *shared) {
  const setup *s = shared;
  ring_device *device;
  ring_device_explanation explanation;
  ring_comm *comm = gpu.comm = open_ranks(s, rank, size);
  use_gpu(s->one_gpu ? 0 : rank);
  if (s->nccl_fails != NULL) CHECK_INT(setenv("NCCL_STUB_FAILS", s->nccl_fails, 1), 0);
  if (s->cuda_fails != NULL && rank == 1) CHECK_INT(setenv("CUDA_STUB_FAILS", s->cuda_fails, 1), 0);
  if (s->version != NULL && rank == 1) CHECK_INT(setenv("NCCL_STUB_VERSION", s->version, 1), 0);
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
    bool surprises = s->path == RING_DEVICE_AUTO && s->expected == RING_DEVICE_HOST && !s->encrypts;
    CHECK_INT(logged, surprises && rank == 0);
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

static void test_versions_of_nccl(void) {
  setup s = {.version = "22200", .expected = RING_DEVICE_HOST};
  s.reason = NCCL_LACKS "NCCL 2.22.0 is older than 2.23: install a newer one";
  RUN_RANKS(RANKS, run_setup, s);
  s.version = "22805";
  s.reason = "rank 1 (127.0.0.1) has NCCL 2.28.5, and rank 0 (127.0.0.1) has 2.28.3";
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
  s.reason = "ncclCommInitRankConfig did not end within ";
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
  ring_cuda_context context;
  gpu.comm = comm;
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
  options.gpu = 4 + ring_comm_rank(comm); /* another one than that of the current context */
  CHECK_INT(ring_device_open(comm, &options, &device), RING_OK);
  CHECK_INT(gpu.cuda.context_retain(&context, options.gpu), 0);
  CHECK_INT(gpu.cuda.context_push(context), 0);
  use_device(device, ring_comm_size(comm));
  CHECK_INT(gpu.cuda.context_pop(&context), 0);
  CHECK_INT(gpu.cuda.context_release(options.gpu), 0);
  close_device(device);
}

static void test_options(void) {
  run_comms(2, run_options, NULL);
}

/* Without a number and a context each rank of a host has a GPU of its own. */
static void run_default_gpu(ring_comm *comm, void *shared) {
  (void)shared;
  ring_device *device;
  ring_device_explanation explanation;
  const ring_device_options options = device_options(RING_DEVICE_AUTO);
  load_cuda();
  CHECK_INT(setenv("CUDA_STUB_GPUS", "2", 1), 0);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_OK);
  CHECK_INT(ring_device_explain(device, &explanation), RING_OK);
  CHECK_INT(explanation.gpu, ring_comm_rank(comm) % 2);
  CHECK_INT(explanation.path, ring_comm_size(comm) == 2 ? RING_DEVICE_NCCL : RING_DEVICE_HOST);
  device_went_well(device, ring_device_close(device));
  ring_device_free(device);
}

static void test_the_default_gpu(void) {
  run_comms(2, run_default_gpu, NULL);
  run_comms(3, run_default_gpu, NULL);
}

/* Streams of another context than the primary one mean nothing to NCCL's threads. */
static void run_foreign(ring_comm *comm, void *shared) {
  (void)shared;
  ring_device *device;
  const ring_device_options options = device_options(RING_DEVICE_AUTO);
  load_cuda();
  if (ring_comm_rank(comm) == 1) gpu.use_foreign(1);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_UNSUPPORTED);
  CHECK_INT(ring_comm_error(comm)->rank, 1);
  CHECK_CONTAINS(ring_comm_error(comm)->message,
                 "the current CUDA context is not the primary one of GPU 1");
  expect_no_leak();
}

static void test_a_context_that_is_not_primary(void) {
  run_comms(2, run_foreign, NULL);
}

/* ---- Kernels ------------------------------------------------------------------------------- */

typedef struct lacking {
  const char *variable, *fails; /* of rank 1 */
  ring_device_path path;
  const char *text;
} lacking;

/* 1 and 2 of each rank as halves, with factors that a half rounds: the host converts. */
static void reduce_halves(ring_device *device, const ring_buffer *buffers, const float *memory) {
  float values[2];
  device_went_well(device, ring_device_allreduce_group(device, buffers, 2, RING_FLOAT32,
                                                       RING_FLOAT16, RING_SUM, 0.5, 3, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(values, memory, sizeof values);
  CHECK(values[0] == 3 && values[1] == 6);
}

/* Rank 1 has no kernels: no rank uses them, and results are the same. */
static void run_without_kernels(ring_comm *comm, void *shared) {
  const lacking *s = shared;
  float values[2] = {1, 2};
  uint16_t halves[2];
  ring_device *device;
  ring_device_explanation e;
  use_gpu(ring_comm_rank(comm));
  ring_device_options options = device_options(s->path);
  if (s->variable == NULL && ring_comm_rank(comm) == 1) options.nvrtc = "/nonexistent.so";
  if (s->variable != NULL && ring_comm_rank(comm) == 1)
    CHECK_INT(setenv(s->variable, s->fails, 1), 0);
  CHECK_INT(ring_device_open(comm, &options, &device), RING_OK);
  if (s->variable != NULL) CHECK_INT(unsetenv(s->variable), 0);
  device_went_well(device, ring_device_explain(device, &e));
  CHECK_CONTAINS(e.text,
                 "conversions go through the host, because rank 1 (127.0.0.1) has no kernels: ");
  CHECK_CONTAINS(e.text, s->text);
  float *memory = gpu_copy(values, sizeof values);
  const ring_buffer buffers[2] = {{memory, memory, 1}, {memory + 1, memory + 1, 1}};
  reduce_halves(device, buffers, memory);
  device_went_well(device, reduce_group(device, buffers, RING_FLOAT32, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(values, memory, sizeof values);
  CHECK(values[0] == 6 && values[1] == 12);
  device_went_well(
      device, ring_device_cast(device, memory, RING_FLOAT32, memory, RING_BFLOAT16, 2, 2, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(halves, memory, sizeof halves);
  CHECK(halves[0] == ring_bfloat16_from_float32(12) && halves[1] == ring_bfloat16_from_float32(24));
  device_went_well(device, ring_device_explain(device, &e));
  CHECK_INT(e.calls, 2);
  CHECK_INT(e.launches, 0);
  gpu_free(memory);
  close_device(device);
}

static void test_without_kernels(void) {
  static const lacking cases[] = {
      {"CUDA_STUB_FAILS", "module", RING_DEVICE_NCCL, "CUDA returned 221"},
      {"CUDA_STUB_FAILS", "memory", RING_DEVICE_HOST, "CUDA returned 2"},
      {"NVRTC_STUB_FAILS", "compile", RING_DEVICE_NCCL,
       "NVRTC returned 6 (NVRTC_ERROR_COMPILATION) with --gpu-architecture=sm_90: sparkring.cu(1): "
       "error: the stub fails"},
      {"NVRTC_STUB_FAILS", "cubin", RING_DEVICE_HOST, "NVRTC returned 3"},
      {"NVRTC_STUB_FAILS", "archs", RING_DEVICE_NCCL,
       "NVRTC compiles for no GPU of compute capability 9.0"},
      {NULL, NULL, RING_DEVICE_NCCL, "/nonexistent.so"},
      {NULL, NULL, RING_DEVICE_HOST, "/nonexistent.so"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    RUN_COMMS(2, run_without_kernels, (lacking[1]){cases[i]});
}

/* NVRTC is older than the GPU: the driver gets PTX. */
static void run_old_compiler(ring_comm *comm, void *shared) {
  (void)shared;
  ring_device_explanation e;
  CHECK_INT(setenv("NVRTC_STUB_FAILS", "old", 1), 0);
  ring_device *device = open_device(comm, RING_DEVICE_HOST);
  uint8_t *memory = gpu_alloc(64);
  device_went_well(device, ring_device_cast(device, memory, RING_FLOAT32, memory + 32, RING_FLOAT16,
                                            2, 1, NULL));
  device_went_well(device, ring_device_explain(device, &e));
  CHECK_INT(e.launches, 1);
  gpu_free(memory);
  close_device(device);
}

static void test_an_old_compiler(void) {
  run_comms(1, run_old_compiler, NULL);
}

int main(void) {
  RUN_ON_STUBS(test_nccl_where_all_ranks_can);
  RUN_ON_STUBS(test_a_rank_without_nccl);
  RUN_ON_STUBS(test_versions_of_nccl);
  RUN_ON_STUBS(test_no_unique_id);
  RUN_ON_STUBS(test_init_fails);
  RUN_ON_STUBS(test_init_is_in_progress_for_ever);
  RUN_ON_STUBS(test_two_ranks_on_one_gpu);
  RUN_ON_STUBS(test_no_gpu);
  RUN_ON_STUBS(test_the_host_where_it_is_asked_for);
  RUN_ON_STUBS(test_the_host_where_traffic_is_encrypted);
  RUN_ON_STUBS(test_options);
  RUN_ON_STUBS(test_the_default_gpu);
  RUN_ON_STUBS(test_a_context_that_is_not_primary);
  RUN_ON_STUBS(test_without_kernels);
  RUN_ON_STUBS(test_an_old_compiler);
  return 0;
}
