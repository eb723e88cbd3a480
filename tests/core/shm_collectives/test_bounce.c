/* SPDX-License-Identifier: Apache-2.0
 *
 * Large calls in shared memory with parts of different lengths: ranks with nothing to send or to
 * receive in every combination, buffers in the arena on some ranks only, parts of one piece and of
 * many, small calls before and after. No rank may wait in a circle, so ranks come late at random.
 * An element encodes the rank that sends it, the rank that receives it, and its index.
 */
#include <unistd.h>

#include "api/comm_state.h"
#include "buffers.h"
#include "check.h"
#include "ranks.h"

enum { SIZE_MOST = 8, ANY = 77 };

typedef enum kind { GATHERV, SCATTERV, ALLGATHERV, ALLTOALL, BROADCAST, KINDS } kind;

/* A call, the same on all ranks. Sets of ranks are bits. */
typedef struct trial {
  kind kind;
  int root;
  size_t parts[SIZE_MOST]; /* parts[0] counts for all ranks where all parts are equal */
  unsigned input_arena, output_arena;
} trial;

static int32_t element(int from, int to, size_t i) {
  return (int32_t)((size_t)from * 100000000u + (size_t)to * 1000000u + i % 999983u);
}

/* Pseudorandom numbers, the same on all ranks. */
static uint32_t draw(uint64_t *state, uint32_t most) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (uint32_t)(*state >> 32) % most;
}

/* ---- One call ----------------------------------------------------------------------------- */

static size_t total_of(const trial *t, int size) {
  size_t total = 0;
  for (int i = 0; i < size; i++) total += t->kind == ALLTOALL ? t->parts[0] : t->parts[i];
  return total;
}

/* The number of elements of a rank's input and output. */
static void shape_of(const trial *t, int rank, int size, size_t *input, size_t *output) {
  size_t total = total_of(t, size);
  bool root = rank == t->root;
  *input = t->kind == SCATTERV ? (root ? total : 0) : t->parts[rank];
  *output = t->kind == SCATTERV ? t->parts[rank] : total;
  if (t->kind == GATHERV && !root) *output = 0;
  if (t->kind == ALLTOALL) *input = *output = total;
  if (t->kind != BROADCAST) return;
  *input = root ? t->parts[0] : 0;
  *output = t->parts[0];
}

static void fill(const trial *t, int rank, int size, int32_t *input) {
  bool deals = t->kind == SCATTERV || t->kind == ALLTOALL;
  if (t->kind == SCATTERV && rank != t->root) return;
  if (t->kind == BROADCAST && rank != t->root) return;
  for (int to = 0; to < (deals ? size : 1); to++) {
    size_t count =
        t->kind == ALLTOALL || t->kind == BROADCAST ? t->parts[0] : t->parts[deals ? to : rank];
    for (size_t i = 0; i < count; i++) *input++ = element(rank, deals ? to : ANY, i);
  }
}

static void check(const trial *t, int rank, int size, const int32_t *output) {
  bool gathers = t->kind == GATHERV || t->kind == ALLGATHERV || t->kind == ALLTOALL;
  bool deals = t->kind == SCATTERV || t->kind == ALLTOALL;
  if (t->kind == GATHERV && rank != t->root) return;
  for (int from = 0; from < (gathers ? size : 1); from++) {
    size_t count =
        t->kind == ALLTOALL || t->kind == BROADCAST ? t->parts[0] : t->parts[gathers ? from : rank];
    int sender = gathers ? from : t->root;
    for (size_t i = 0; i < count; i++) CHECK_INT(*output++, element(sender, deals ? rank : ANY, i));
  }
}

static ring_status call(ring_comm *comm, const trial *t, const int32_t *in, int32_t *out) {
  switch (t->kind) {
  case GATHERV:
    return ring_gatherv(comm, in, out, t->parts, RING_INT32, t->root);
  case SCATTERV:
    return ring_scatterv(comm, in, out, t->parts, RING_INT32, t->root);
  case ALLGATHERV:
    return ring_allgatherv(comm, in, out, t->parts, RING_INT32);
  case ALLTOALL:
    return ring_alltoall(comm, in, out, t->parts[0], RING_INT32);
  default:
    return ring_broadcast(comm, in, out, t->parts[0], RING_INT32, t->root);
  }
}

static void try_one(ring_comm *comm, const trial *t) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  bool in_arena = t->input_arena >> rank & 1, out_arena = t->output_arena >> rank & 1;
  size_t input, output;
  shape_of(t, rank, size, &input, &output);
  int32_t *in = buffer_alloc(comm, in_arena, input * sizeof *in);
  int32_t *out = buffer_alloc(comm, out_arena, output * sizeof *out);
  fill(t, rank, size, in);
  ring_status status = call(comm, t, in, out);
  if (status != RING_OK)
    fprintf(stderr, "rank %d of %d: kind %d root %d parts %zu %zu %zu arena %#x %#x: %s\n", rank,
            size, t->kind, t->root, t->parts[0], t->parts[1], t->parts[2], t->input_arena,
            t->output_arena, ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  check(t, rank, size, out);
  buffer_free(in, in_arena);
  buffer_free(out, out_arena);
}

/* ---- Which calls -------------------------------------------------------------------------- */

/* Two pieces from or to a root, one piece of all ranks. */
enum { PART = 20001 };

/* Every combination of ranks with a part, ranks with an input in the arena, and the root. */
static void try_every_gap(ring_comm *comm, void *shared) {
  int size = ring_comm_size(comm), turn = 0;
  unsigned sets = 1u << size;
  (void)shared;
  CHECK(comm->shm.formed);
  for (int k = 0; k <= ALLGATHERV; k++)
    for (int root = 0; root < (k == ALLGATHERV ? 1 : size); root++)
      for (unsigned have = 0; have < sets; have++)
        for (unsigned arena = 0; arena < sets; arena++, turn++) {
          trial t = {.kind = (kind)k, .root = root, .input_arena = arena};
          t.output_arena = (unsigned)turn * 5 / 3 % sets;
          for (int i = 0; i < size; i++) t.parts[i] = have >> i & 1 ? PART + (size_t)i : 0;
          try_one(comm, &t);
        }
}

static void test_every_gap(void) {
  run_comms(2, try_every_gap, NULL);
  run_comms(3, try_every_gap, NULL);
}

/* Small calls, of which some wait for no rank. */
static void be_short(ring_comm *comm, uint64_t *state) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (uint32_t i = draw(state, 7); i > 0; i--) {
    int root = (int)draw(state, (uint32_t)size);
    size_t count = draw(state, 2) == 0 ? 2 : 300;
    int64_t x[300] = {rank}, sum[300] = {0};
    if (draw(state, 2) == 0) {
      CHECK_INT(ring_broadcast(comm, x, x, count, RING_INT64, root), RING_OK);
      CHECK_INT(x[0], root);
    } else {
      CHECK_INT(ring_reduce(comm, x, sum, count, RING_INT64, RING_SUM, root), RING_OK);
      if (rank == root) CHECK_INT(sum[0], size * (size - 1) / 2);
    }
  }
}

static trial draw_trial(uint64_t *state, int size) {
  static const size_t counts[] = {0, 0, 0, 1, 1500, 2100, 9000, 17000, 35000, 70001, 280001};
  trial t = {.kind = (kind)draw(state, KINDS), .root = (int)draw(state, (uint32_t)size)};
  t.input_arena = draw(state, 3) > 0 ? draw(state, 256) : 0;
  t.output_arena = draw(state, 3) > 0 ? draw(state, 256) : 0;
  for (int i = 0; i < SIZE_MOST; i++) t.parts[i] = counts[draw(state, 11)];
  if (t.kind == ALLTOALL) t.parts[0] = t.parts[0] / (size_t)size + 600;
  return t;
}

static void try_at_random(ring_comm *comm, void *shared) {
  enum { ROUNDS = 60 };
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  uint64_t state = UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)size;
  (void)shared;
  for (int round = 0; round < ROUNDS; round++) {
    be_short(comm, &state);
    trial t = draw_trial(&state, size);
    uint32_t late = draw(&state, 2 * SIZE_MOST), by = draw(&state, 2000);
    if (late == (uint32_t)rank) usleep(by);
    try_one(comm, &t);
  }
}

static void test_at_random(void) {
  for (int size = 1; size <= SIZE_MOST; size++) run_comms(size, try_at_random, NULL);
}

int main(void) {
  RUN(test_every_gap);
  RUN(test_at_random);
  return 0;
}
