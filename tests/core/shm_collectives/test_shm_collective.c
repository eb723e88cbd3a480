/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective in shared memory, with every dtype, op and root, at the sizes where the way
 * changes, with buffers in the arena and outside of it, in place, misaligned, and with a full
 * arena. Results must equal, to the bit, a fold in rank order of values for which the order
 * matters. Where calls go over links because buffers cannot be reached, the bits must be the same
 * on all ranks.
 */
#include <math.h>
#include <sched.h>

#include "api/comm_state.h"
#include "base/dtype.h"
#include "buffers.h"
#include "check.h"
#include "fold.h"
#include "ranks.h"
#include "requests.h"
#include "values.h"

/* ---- One call ----------------------------------------------------------------------------- */

typedef enum kind {
  ALLREDUCE,
  REDUCE,
  REDUCE_SCATTER,
  REDUCE_SCATTERV,
  BROADCAST,
  ALLGATHER,
  ALLGATHERV,
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  ALLTOALL,
  KINDS
} kind;

typedef struct trial {
  kind kind;
  ring_dtype dtype;
  ring_op op;
  int root;
  size_t count;
  int places;    /* a case of ranks with input and output in the arena: 0 to 5 */
  bool in_place; /* where that is allowed */
  size_t shift;  /* of the buffers, in elements */
  bool starts;   /* as a request */
} trial;

/* Results that the ranks compare. */
typedef struct common {
  uint64_t digests[RANKS_MAX];
  int arrived, left;
} common;

/* Waits for all ranks without the library. */
static void await_ranks(int *arrived, int size, int round) {
  __sync_fetch_and_add(arrived, 1);
  while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < size * round) sched_yield();
}

static size_t part_of(const trial *t, int rank, size_t *counts) {
  bool even = t->kind != ALLGATHERV && t->kind != GATHERV && t->kind != SCATTERV &&
              t->kind != REDUCE_SCATTERV;
  size_t at = 0;
  for (int i = 0; i <= rank; i++) {
    at += i == 0 ? 0 : counts[i - 1];
    counts[i] = even || i % 2 == 0 ? t->count : i == 1 ? 0 : t->count / 2;
  }
  return at;
}

enum { GUARD = 64 };

static uint8_t *get_buffer(ring_comm *comm, bool arena, size_t bytes) {
  return memset(buffer_alloc(comm, arena, bytes + 2 * GUARD), 0xa5, bytes + 2 * GUARD);
}

#define EITHER(name, ...)                                                                          \
  (t->starts ? ring_##name##_start(__VA_ARGS__, &request) : ring_##name(__VA_ARGS__))

static void call(ring_comm *comm, const trial *t, const void *in, void *out, const size_t *counts) {
  ring_request *request = NULL;
  ring_status status = RING_OK;
  size_t n = t->count;
  ring_dtype d = t->dtype;
  switch (t->kind) {
  case ALLREDUCE:
    status = EITHER(allreduce, comm, in, out, n, d, t->op);
    break;
  case REDUCE:
    status = EITHER(reduce, comm, in, out, n, d, t->op, t->root);
    break;
  case REDUCE_SCATTER:
    status = EITHER(reduce_scatter, comm, in, out, n, d, t->op);
    break;
  case REDUCE_SCATTERV:
    status = EITHER(reduce_scatterv, comm, in, out, counts, d, t->op);
    break;
  case BROADCAST:
    status = EITHER(broadcast, comm, in, out, n, d, t->root);
    break;
  case ALLGATHER:
    status = EITHER(allgather, comm, in, out, n, d);
    break;
  case ALLGATHERV:
    status = EITHER(allgatherv, comm, in, out, counts, d);
    break;
  case GATHER:
    status = EITHER(gather, comm, in, out, n, d, t->root);
    break;
  case GATHERV:
    status = EITHER(gatherv, comm, in, out, counts, d, t->root);
    break;
  case SCATTER:
    status = EITHER(scatter, comm, in, out, n, d, t->root);
    break;
  case SCATTERV:
    status = EITHER(scatterv, comm, in, out, counts, d, t->root);
    break;
  default:
    status = EITHER(alltoall, comm, in, out, n, d);
  }
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  if (t->starts) finish(request);
}

/* Element i of the output of a rank. `counts` and `own` are those of part_of. */
static void expect(const trial *t, int size, const size_t *counts, size_t own, uint8_t *to,
                   size_t i) {
  int from = 0;
  switch (t->kind) {
  case ALLREDUCE:
  case REDUCE:
    fold_ranks(t->dtype, t->op, size, to, i);
    return;
  case REDUCE_SCATTER:
  case REDUCE_SCATTERV:
    fold_ranks(t->dtype, t->op, size, to, own + i);
    return;
  case BROADCAST:
    fold_put(t->dtype, to, t->root, i);
    return;
  case SCATTER:
  case SCATTERV:
    fold_put(t->dtype, to, t->root, own + i);
    return;
  case ALLTOALL:
    fold_put(t->dtype, to, (int)(i / t->count), own + i % t->count);
    return;
  default:
    while (i >= counts[from]) i -= counts[from++];
    fold_put(t->dtype, to, from, i);
  }
}

/* Of large outputs every 13th element, which visits all chunks and blocks. */
static bool is_right(const trial *t, int rank, int size, const uint8_t *out, size_t length) {
  size_t counts[RANKS_MAX], width = ring_dtype_size(t->dtype), own = part_of(t, rank, counts);
  uint8_t expected[16];
  part_of(t, size - 1, counts);
  for (size_t i = 0; i < length; i += length - i > 100 && length > 20000 ? 13 : 1) {
    expect(t, size, counts, own, expected, i);
    if (memcmp(out + i * width, expected, width) != 0) return false;
  }
  return true;
}

/* The number of elements of input and output on a rank, and the offset of the shorter in the longer
 * when in place. */
typedef struct shape {
  size_t input, output, in_at, out_at;
} shape;

static shape shape_of(const trial *t, int rank, int size) {
  size_t counts[RANKS_MAX] = {0}, own = part_of(t, rank, counts), part = counts[rank];
  size_t end = part_of(t, size - 1, counts), all = end + counts[size - 1];
  bool root = rank == t->root;
  switch (t->kind) {
  case ALLREDUCE:
    return (shape){part, part, 0, 0};
  case REDUCE:
    return (shape){part, root ? part : 0, 0, 0};
  case REDUCE_SCATTER:
  case REDUCE_SCATTERV:
    return (shape){all, part, own, 0};
  case BROADCAST:
    return (shape){root ? part : 0, part, 0, 0};
  case ALLGATHER:
  case ALLGATHERV:
    return (shape){part, all, 0, own};
  case GATHER:
  case GATHERV:
    return (shape){part, root ? all : 0, 0, own};
  case SCATTER:
  case SCATTERV:
    return (shape){root ? all : 0, part, own, 0};
  default:
    return (shape){all, all, 0, 0};
  }
}

/* Bits 0 and 1: whether input and output lie in the arena. */
static int place_of(int places, int rank) {
  if (places < 4) return places;
  return places == 4 ? rank % 2 == 0 ? 3 : 0 : (rank + 1) % 4;
}

static void try_one(ring_comm *comm, const trial *t) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), place = place_of(t->places, rank);
  size_t counts[RANKS_MAX], width = ring_dtype_size(t->dtype), shift = GUARD + t->shift * width;
  shape s = shape_of(t, rank, size);
  bool in_place = t->in_place && t->kind != ALLTOALL && s.input > 0 && s.output > 0;
  part_of(t, size - 1, counts);
  size_t most = s.input > s.output ? s.input : s.output;
  uint8_t *in_memory = get_buffer(comm, place & 1, (most + t->shift) * width);
  uint8_t *out_memory = get_buffer(comm, place & 2, (s.output + t->shift) * width);
  uint8_t *in = in_memory + shift, *out = out_memory + shift;
  if (in_place) { /* the shorter one within the longer one */
    out = s.input >= s.output ? in + s.in_at * width : in;
    in = s.input >= s.output ? in : in + s.out_at * width;
  }
  uint8_t *kept = malloc(s.input * width + 1);
  for (size_t i = 0; i < s.input; i++) fold_put(t->dtype, kept + i * width, rank, i);
  memcpy(in, kept, s.input * width);
  call(comm, t, s.input > 0 ? in : NULL, s.output > 0 ? out : NULL, counts);
  if (!is_right(t, rank, size, out, s.output)) {
    fprintf(stderr, "kind %d dtype %d op %d root %d count %zu places %d in place %d shift %zu\n",
            t->kind, t->dtype, t->op, t->root, t->count, t->places, in_place, t->shift);
    CHECK(!"the result is right");
  }
  if (!in_place) CHECK(memcmp(in, kept, s.input * width) == 0);
  for (int i = 0; i < GUARD && !in_place; i++) {
    CHECK_INT(out[-1 - i], 0xa5);
    CHECK_INT(out[s.output * width + (size_t)i], 0xa5);
  }
  buffer_free(in_memory, place & 1);
  buffer_free(out_memory, place & 2);
  free(kept);
}

/* ---- Which calls -------------------------------------------------------------------------- */

/* Bytes of payload around every threshold. */
static const size_t sizes[] = {0,      8,      48,      56,      64,      4096,
                               4104,   8192,   8200,    32768,   32776,   524280,
                               524288, 524296, 1048568, 1048576, 1048584, 5 * 1048576 + 40};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static size_t count_for(kind kind, size_t bytes, size_t width, int size) {
  bool all = kind == SCATTER || kind == REDUCE_SCATTER || kind == ALLTOALL || kind == SCATTERV ||
             kind == REDUCE_SCATTERV;
  return bytes / width / (all ? (size_t)size : 1);
}

/* dtypes, ops, roots, places and the rest change from call to call by steps without a common
 * factor, so that after some calls every pair has occurred. */
static void try_many(ring_comm *comm, int begin, int end, bool starts) {
  int size = ring_comm_size(comm), turn = 0;
  for (int k = 0; k < KINDS; k++)
    for (int i = begin; i < end; i++, turn++) {
      trial t = {.kind = (kind)k,
                 .dtype = (ring_dtype)(turn % 8),
                 .op = (ring_op)(turn % 5),
                 .root = turn % size,
                 .places = (turn / 2) % 6,
                 .in_place = turn % 3 == 0,
                 .shift = turn % 4 == 3 ? 1 : 0,
                 .starts = starts};
      t.count = count_for(t.kind, sizes[i], ring_dtype_size(t.dtype), size);
      try_one(comm, &t);
    }
}

static void try_all_sizes(ring_comm *comm, void *shared) {
  (void)shared;
  int size = ring_comm_size(comm);
  /* On every second rank caches so small that results bypass them. */
  if (ring_comm_rank(comm) % 2 == 1) comm->shm.cache = 1 << 20;
  try_many(comm, 0, size > 5 ? SIZES - 4 : SIZES, false);
}

static void test_every_size(void) {
  static const int ranks[] = {2, 3, 5, 9};
  for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
    run_comms(ranks[i], try_all_sizes, NULL);
}

/* Every allowed pair of dtype and op, and sums also large; odd bytes with narrow dtypes. */
static void try_all_reductions(ring_comm *comm, void *shared) {
  static const size_t bytes[] = {1, 55, 57, 2000, 40001, 600001};
  (void)shared;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++)
      for (int i = 0; i < 6; i++) {
        if (!ring_op_allowed((ring_op)op, (ring_dtype)dtype)) continue;
        if (bytes[i] > 40001 && op != RING_SUM) continue;
        trial t = {.kind = (kind)((dtype + op + i) % 4),
                   .dtype = (ring_dtype)dtype,
                   .op = (ring_op)op,
                   .root = 1,
                   .places = (dtype + op + i) % 6,
                   .shift = (size_t)(i % 2)};
        t.count = bytes[i] / ring_dtype_size(t.dtype) + 1;
        if (t.kind >= REDUCE_SCATTER) t.count = (t.count + 2) / 3;
        try_one(comm, &t);
      }
}

static void test_every_reduction(void) {
  run_comms(3, try_all_reductions, NULL);
}

/* Every place of the buffers, in place and not, for every large collective. */
static void try_all_places(ring_comm *comm, void *shared) {
  (void)shared;
  for (int k = 0; k < KINDS; k++)
    for (int places = 0; places < 6; places++)
      for (int variant = 0; variant < 4; variant++) {
        trial t = {.kind = (kind)k,
                   .dtype = RING_FLOAT32,
                   .root = (places + k) % ring_comm_size(comm),
                   .count = variant < 2 ? 9001 : 135001,
                   .places = places,
                   .in_place = variant % 2 == 0,
                   .shift = (size_t)(places % 2)};
        try_one(comm, &t);
        t.count = 2200001; /* results bypass the caches */
        if (k <= REDUCE && variant == 3) try_one(comm, &t);
      }
}

static void test_every_place(void) {
  run_comms(3, try_all_places, NULL);
}

static void try_requests_and_children(ring_comm *comm, void *shared) {
  ring_comm *child;
  (void)shared;
  int rank = ring_comm_rank(comm);
  try_many(comm, 3, 13, true);
  CHECK_INT(ring_comm_split(comm, rank % 2, -rank, &child), RING_OK);
  CHECK(child->shm.formed);
  try_many(child, 0, 11, false);
  try_many(child, 10, 11, true);
  close_rank(child);
  try_many(comm, 1, 11, false);
}

static void test_requests_and_children(void) {
  run_comms(5, try_requests_and_children, NULL);
}

/* ---- NaN ---------------------------------------------------------------------------------- */

enum { NANS = 5001 };

/* NaNs of several ranks with payloads: the processor chooses the payload of the result, the same on
 * all ranks, wherever their buffers lie. */
static void reduce_nans(ring_comm *comm, void *shared) {
  common *all = shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), round = 0;
  static const size_t lengths[] = {5, 17, 1003, NANS};
  for (int op = RING_SUM; op <= RING_AVG; op++)
    for (int i = 0; i < 4; i++) {
      size_t length = lengths[i];
      uint8_t *memory = get_buffer(comm, rank % 2 == 0, (NANS + 8) * sizeof(double));
      double *x = (double *)(memory + GUARD) + rank % 3;
      for (size_t j = 0; j < length; j++) {
        uint64_t bits =
            UINT64_C(0x7ff8000000000000) | (uint64_t)rank << 63 | (fold_bits(rank, j) & 0xffff);
        x[j] = fold_real(rank, j);
        if ((fold_bits(rank, j) >> 20) % 3 == 0) memcpy(&x[j], &bits, sizeof bits);
      }
      CHECK_INT(ring_allreduce(comm, x, x, length, RING_FLOAT64, (ring_op)op), RING_OK);
      for (size_t j = 0; j < length; j++) {
        bool any = false;
        for (int other = 0; other < size; other++) any |= (fold_bits(other, j) >> 20) % 3 == 0;
        CHECK_INT(isnan(x[j]) != 0, any);
      }
      all->digests[rank] = digest_of(x, length * sizeof *x);
      await_ranks(&all->arrived, size, ++round);
      CHECK(all->digests[rank] == all->digests[0]);
      await_ranks(&all->left, size, round);
      buffer_free(memory, rank % 2 == 0);
    }
}

static void test_nans(void) {
  for (int size = 2; size <= 4; size++) {
    RUN_COMMS(size, reduce_nans, (common){0});
  }
}

/* ---- Without space ------------------------------------------------------------------------ */

/* An arena has more addresses than there is memory; the buffer that fills it here is never
 * touched. */
bool __wrap_ring_platform_memory_reserve(int fd, size_t at, size_t bytes);

bool __wrap_ring_platform_memory_reserve(int fd, size_t at, size_t bytes) {
  (void)fd, (void)at, (void)bytes;
  return true;
}

/* One rank's region is full, so the rank gets no bounce buffer: calls go over links. Integers,
 * since links combine in another order. */
static void try_without_capacity(ring_comm *comm, void *shared) {
  void *all = NULL;
  size_t region = ring_arena_region(comm->shm.arena);
  uint64_t at;
  (void)shared;
  if (ring_comm_rank(comm) == 1) {
    CHECK_INT(ring_alloc(comm, region - 4096, &all), RING_OK);
    CHECK(ring_arena_offset(comm->shm.arena, all, region - 4096, &at));
  }
  for (int k = 0; k < KINDS; k++)
    for (int places = 0; places < 6; places++) {
      trial t = {.kind = (kind)k,
                 .dtype = RING_INT32,
                 .root = (k + places) % ring_comm_size(comm),
                 .count = 70001,
                 .places = places,
                 .in_place = places % 2 == 1};
      try_one(comm, &t);
    }
  ring_free(all);
}

static void test_without_capacity(void) {
  run_comms(3, try_without_capacity, NULL);
}

int main(void) {
  RUN_WITHOUT_THREADS(test_every_size);
  RUN_WITHOUT_THREADS(test_every_reduction);
  RUN_WITHOUT_THREADS(test_every_place);
  RUN(test_requests_and_children);
  RUN_WITHOUT_THREADS(test_nans);
  RUN(test_without_capacity);
  return 0;
}
