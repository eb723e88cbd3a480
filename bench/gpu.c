/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs of a device on a real GPU, beside CUDA and NCCL alone, as lines of JSON: {"name", "value", "unit", "least" or
 * "most", "ok"}. Ends with 1 when a value misses its bound. scripts/sections/gpu builds and runs it. All ranks share
 * GPU 0; two of them are on hosts of their own to NCCL. SPARKRING_TEST_NCCL and SPARKRING_TEST_NVRTC name
 * the libraries, as in ring_device_options.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/nccl_api.h"
#include "gpu_job.h"

/* ---- Kernels -------------------------------------------------------------------------------- */

typedef struct cast {
  ring_device *device;
  uint8_t *from, *to;
  ring_dtype dtype, other;
  size_t count;
} cast;

static void run_copy(void *arg) {
  const cast *c = arg;
  copy_on_gpu((uintptr_t)c->to, (uintptr_t)c->from, c->count * 4, NULL);
}

static void run_cast(void *arg) {
  const cast *c = arg;
  well(c->device,
       ring_device_cast(c->device, c->from, c->dtype, c->to, c->other, c->count, 0.5, NULL));
}

/* Bytes a second that are read and written. */
static double measure_casts(ring_device *device) {
  cast c = {device, on_gpu(2 * GIB), on_gpu(2 * GIB), RING_FLOAT32, RING_FLOAT32, 2 * GIB / 4};
  double copies = 4.0 * (double)GIB / time_of(run_copy, &c);
  tell("copy on the GPU, 2 GiB", 1e-9 * copies, "GB/s");
  tell_bound("cast f32 to f32 of a copy", 4.0 * (double)GIB / time_of(run_cast, &c) / copies, "",
             "least", 0.85);
  c.other = RING_BFLOAT16;
  tell_bound("cast f32 to bf16 of a copy", 3.0 * (double)GIB / time_of(run_cast, &c) / copies, "",
             "least", 0.85);
  c.dtype = RING_BFLOAT16;
  c.other = RING_FLOAT32;
  tell_bound("cast bf16 to f32 of a copy", 3.0 * (double)GIB / time_of(run_cast, &c) / copies, "",
             "least", 0.85);
  cuda.memory_free((uintptr_t)c.from);
  cuda.memory_free((uintptr_t)c.to);
  return copies;
}

enum { TENSORS = 1000 };
typedef struct group {
  ring_device *device;
  ring_buffer buffers[TENSORS];
} group;

static void run_group(void *arg) {
  group *g = arg;
  well(g->device, ring_device_allreduce_group(g->device, g->buffers, TENSORS, RING_FLOAT32,
                                              RING_FLOAT32, RING_SUM, 1, 1, NULL));
}

static void measure_group(ring_device *device, double copies) {
  static group g;
  ring_device_explanation before, after;
  size_t total = 0;
  g.device = device;
  for (int i = 0; i < TENSORS; i++) {
    size_t bytes = (1 + (size_t)(i * 37 % 64)) * 1024;
    void *memory = on_gpu(bytes);
    g.buffers[i] = (ring_buffer){memory, memory, bytes / 4};
    total += bytes;
  }
  run_group(&g);
  ring_device_explain(device, &before);
  run_group(&g);
  ring_device_explain(device, &after);
  tell_bound("launches to pack 1000 tensors", (double)(after.launches - before.launches) / 2, "",
             "most", 7);
  double seconds = time_of(run_group, &g); /* packed, reduced by one rank in place, unpacked */
  tell_bound("pack and unpack 1000 tensors of a copy", 4.0 * (double)total / seconds / copies, "",
             "least", 0.5);
  for (int i = 0; i < TENSORS; i++) cuda.memory_free((uintptr_t)g.buffers[i].output);
}

/* ---- Beside NCCL ---------------------------------------------------------------------------- */

typedef struct raw {
  ring_device *device;
  ring_nccl nccl;
  ring_nccl_comm comm;
  uint8_t *from, *to;
  size_t count;
  int calls;
} raw;

static void need_nccl(const raw *r, ring_nccl_result result, const char *what) {
  while (result == RING_NCCL_IN_PROGRESS) /* of a communicator that does not block */
    need(r->nccl.get_async_error(r->comm, &result) == 0, what);
  need(result == RING_NCCL_SUCCESS, what);
}

static void run_raw(void *arg) {
  const raw *r = arg;
  for (int i = 0; i < r->calls; i++)
    need_nccl(r,
              r->nccl.allreduce(r->from, r->to, r->count, RING_NCCL_FLOAT32, RING_NCCL_SUM, r->comm,
                                NULL),
              "ncclAllReduce");
}

static void run_ours(void *arg) {
  const raw *r = arg;
  for (int i = 0; i < r->calls; i++)
    well(r->device,
         ring_allreduce(on(r->device, NULL), r->from, r->to, r->count, RING_FLOAT32, RING_SUM));
}

/* A communicator of NCCL alone, which blocks or is polled. */
static void open_raw(raw *r, ring_comm *comm, int blocking) {
  char problem[256];
  int version;
  ring_nccl_unique_id id;
  ring_nccl_config config = {sizeof config, RING_NCCL_CONFIG_MAGIC, RING_NCCL_CONFIG_VERSION,
                             blocking, RING_NCCL_UNDEFINED};
  const char *library = getenv("SPARKRING_TEST_NCCL");
  need(ring_nccl_load(&r->nccl, library, &version, problem, sizeof problem), problem);
  need(ring_nccl_id(comm, library, &id) == RING_OK, "id");
  need_nccl(r, r->nccl.init(&r->comm, ring_comm_size(comm), id, ring_comm_rank(comm), &config),
            "ncclCommInitRankConfig");
}

static double time_of_call(timed function, raw *r, size_t count, int calls) {
  r->count = count;
  r->calls = calls;
  return time_of(function, r) / calls;
}

/* NCCL alone, which blocks, and which is polled, beside a device. `suffix` has the number of ranks. The values have no
 * bound: NCCL starts no thread for one rank, and two ranks on one GPU take turns of milliseconds. How much a device
 * costs beside NCCL is known on two GPUs alone. */
static void measure_overhead(ring_device *device, ring_comm *comm, size_t most,
                             const char *suffix) {
  char name[96];
  raw blocks = {.device = device, .from = on_gpu(most), .to = on_gpu(most)}, polled = blocks;
  bool tells = ring_comm_rank(comm) == 0;
  open_raw(&blocks, comm, 1);
  double theirs = time_of_call(run_raw, &blocks, 2, 100);
  double ours = time_of_call(run_ours, &blocks, 2, 100);
  open_raw(&polled, comm, 0);
  double threads = time_of_call(run_raw, &polled, 2, 100);
  snprintf(name, sizeof name, "NCCL, 8 B%s", suffix);
  if (tells) tell(name, 1e6 * theirs, "us");
  snprintf(name, sizeof name, "NCCL that is polled more than NCCL, 8 B%s", suffix);
  if (tells) tell(name, 1e6 * (threads - theirs), "us");
  snprintf(name, sizeof name, "a device more than NCCL, 8 B%s", suffix);
  if (tells) tell(name, 1e6 * (ours - theirs), "us");
  for (size_t bytes = MIB; bytes <= most; bytes *= 16) {
    theirs = time_of_call(run_raw, &blocks, bytes / 4, 20);
    ours = time_of_call(run_ours, &blocks, bytes / 4, 20);
    snprintf(name, sizeof name, "of NCCL's time, %zu MiB%s", bytes / MIB, suffix);
    if (tells) tell(name, ours / theirs, "");
  }
  polled.nccl.abort(polled.comm);
  blocks.nccl.destroy(blocks.comm);
  cuda.memory_free((uintptr_t)blocks.from);
  cuda.memory_free((uintptr_t)blocks.to);
}

/* ---- Two ranks ------------------------------------------------------------------------------ */

typedef struct staging {
  ring_device *device;
  ring_comm *comm;
  uint8_t *memory;
  void *host;
  size_t bytes;
} staging;

static void run_staged(void *arg) {
  const staging *s = arg;
  well(s->device, ring_allreduce(on(s->device, NULL), s->memory, s->memory, s->bytes / 4,
                                 RING_FLOAT32, RING_SUM));
}

/* The ring's part: pieces of 4 MiB in memory that the ranks share. */
static void run_ring(void *arg) {
  const staging *s = arg;
  for (size_t at = 0; at < s->bytes; at += 4 * MIB)
    need(ring_allreduce(s->comm, s->host, s->host, MIB, RING_FLOAT32, RING_SUM) == RING_OK, "ring");
}

/* The bus's part: both ways at once. */
static void run_bus(void *arg) {
  const staging *s = arg;
  static ring_cuda_stream down, up;
  if (down == NULL)
    need(cuda.stream_create(&down, 1) == 0 && cuda.stream_create(&up, 1) == 0, "streams");
  for (size_t at = 0; at < s->bytes; at += 4 * MIB) {
    cuda.copy_down(s->host, (uintptr_t)s->memory + at, 4 * MIB, down);
    cuda.copy_up((uintptr_t)s->memory + at, (uint8_t *)s->host + 4 * MIB, 4 * MIB, up);
  }
  while (cuda.stream_query(down) == RING_CUDA_NOT_READY) continue;
  while (cuda.stream_query(up) == RING_CUDA_NOT_READY) continue;
}

static void measure_staging(int rank, void *shared) {
  (void)shared;
  use_gpu(rank, false);
  ring_comm *comm = open_comm(rank, 2, 1);
  staging s = {.comm = comm, .bytes = 256 * MIB};
  ring_device_explanation explanation;
  s.device = open_device(comm, RING_DEVICE_AUTO); /* NCCL refuses two ranks on one GPU */
  well(s.device, ring_device_explain(s.device, &explanation));
  if (rank == 0)
    printf("{\"name\": \"two ranks of a host on one GPU\", \"path\": %d, \"ok\": %s}\n",
           (int)explanation.path, explanation.path == RING_DEVICE_HOST ? "true" : "false");
  if (explanation.path != RING_DEVICE_HOST) __sync_fetch_and_add(missed, 1);
  s.memory = on_gpu(s.bytes);
  need(ring_alloc(comm, 9 * MIB, &s.host) == RING_OK, "memory");
  s.host = (void *)(((uintptr_t)s.host + 4095) / 4096 * 4096);
  bool locked = cuda.host_register(s.host, 8 * MIB, 1) == 0;
  ring_barrier(comm);
  double ours = time_of(run_staged, &s);
  ring_barrier(comm);
  double ring = time_of(run_ring, &s);
  ring_barrier(comm);
  double bus = time_of(run_bus, &s);
  ring_barrier(comm);
  if (rank == 0) {
    tell("memory could be locked", locked, "");
    tell("ring, 256 MiB in pieces of 4 MiB", (double)s.bytes / ring / 1e9, "GB/s");
    tell("bus, 256 MiB both ways", (double)s.bytes / bus / 1e9, "GB/s");
    tell("through the host, 256 MiB", (double)s.bytes / ours / 1e9, "GB/s");
    tell_bound("through the host of the slower", (ring > bus ? ring : bus) / ours, "", "least",
               0.8);
  }
  well(s.device, ring_device_close(s.device));
  ring_device_free(s.device);
  ring_comm_close(comm);
}

/* Two ranks on one GPU, which are on hosts of their own to NCCL: over sockets. */
static void measure_two(int rank, void *shared) {
  (void)shared;
  use_gpu(rank, true);
  ring_comm *comm = open_comm(rank, 2, 4);
  ring_device *device = open_device(comm, RING_DEVICE_NCCL);
  measure_overhead(device, comm, MIB, ", two ranks");
  well(device, ring_device_close(device));
  ring_device_free(device);
  ring_comm_close(comm);
}

/* Rank 1 is killed in an allreduce; rank 0 learns that. */
static void measure_death(int rank, void *shared, ring_device_path path, int job,
                          const char *name) {
  double *killed = shared;
  use_gpu(rank, true);
  ring_comm *comm = open_comm(rank, 2, job);
  ring_device *device = open_device(comm, path);
  uint8_t *memory = on_gpu(64 * MIB);
  for (int round = 0; round < 3; round++)
    well(device,
         ring_allreduce(on(device, NULL), memory, memory, 16 * MIB, RING_FLOAT32, RING_SUM));
  well(device, ring_device_wait(device, NULL));
  if (rank == 1) {
    usleep(200000);
    *killed = now();
    raise(SIGKILL);
  }
  ring_status status =
      ring_allreduce(on(device, NULL), memory, memory, 16 * MIB, RING_FLOAT32, RING_SUM);
  if (status == RING_OK) status = ring_device_wait(device, NULL);
  double seconds = now() - *killed;
  need(status == RING_PEER_LOST, ring_device_error(device)->message);
  rest(); /* the stream goes on */
  tell_bound(name, seconds, "s", "most", 2);
}

static void death_with_nccl(int rank, void *shared) {
  measure_death(rank, shared, RING_DEVICE_NCCL, 2, "a killed rank, NCCL");
}

static void death_through_host(int rank, void *shared) {
  measure_death(rank, shared, RING_DEVICE_HOST, 3, "a killed rank, through the host");
}

static void run_alone(int rank, void *shared) {
  (void)shared;
  if (rank == 1) return;
  use_gpu(0, false);
  ring_comm *comm = open_comm(0, 1, 0);
  ring_device *device = open_device(comm, RING_DEVICE_NCCL);
  ring_device_explanation explanation;
  well(device, ring_device_explain(device, &explanation));
  printf("{\"name\": \"device\", \"gpu\": \"%s\", \"nccl\": %d, \"cuda\": %d}\n",
         explanation.gpu_name, explanation.nccl_version, explanation.cuda_version);
  double copies = measure_casts(device);
  measure_group(device, copies);
  measure_overhead(device, comm, 256 * MIB, ", one rank");
  well(device, ring_device_close(device));
  ring_device_free(device);
  ring_comm_close(comm);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  missed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  run_ranks(run_alone, false);
  run_ranks(measure_staging, false);
  run_ranks(measure_two, false);
  run_ranks(death_with_nccl, true);
  run_ranks(death_through_host, true);
  return *missed > 0;
}
