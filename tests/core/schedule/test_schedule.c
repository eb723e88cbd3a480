/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic verifier: runs the schedules of all ranks on values that say which contributions
 * they hold, and checks that each element of each output holds each contribution exactly once. A
 * lane may be ahead of or behind any other as far as its watermarks allow, so every case runs under
 * several orders (receives first, sends first, random pieces), with input and output apart and in
 * place. A send copies its values when it happens, as a socket does.
 */
#include "check.h"
#include "schedule/schedule.h"

#define RANKS (SPARKRING_SANITIZED ? 24 : 40) /* 24 for all splits; sanitizers are slow */

/* Contributions (a bit a rank) and the element they belong to. */
typedef struct value {
  uint64_t ranks;
  uint64_t element;
  bool wide; /* an accumulator */
} value;

typedef struct pipe {
  value *values;
  uint64_t written, read;
  uint64_t steps_sent, steps_received; /* ends of steps travel, too */
} pipe;

typedef struct machine {
  int size;
  bool widen; /* scratch holds accumulators, and the flags of all steps have to say so */
  ring_schedule schedules[RANKS];
  value *spaces[RANKS][3];
  pipe pipes[RANKS][RANKS];
  uint64_t *watermarks[RANKS];
  uint64_t *elements[RANKS]; /* done of the lane's current step */
  size_t *steps[RANKS];
  unsigned order;
  uint64_t random;
} machine;

enum { RECEIVES_FIRST, SENDS_FIRST, RANDOM_PIECES, ORDERS };

static uint64_t draw(machine *m) {
  m->random ^= m->random << 13;
  m->random ^= m->random >> 7;
  m->random ^= m->random << 17;
  return m->random;
}

static bool may_move(const machine *m, int rank, const ring_step *step, uint64_t element,
                     bool end) {
  if (step->after == RING_STEP_FREE) return true;
  if (step->flags & RING_STEP_WHOLE) return m->watermarks[rank][step->after] >= step->mark;
  uint64_t needed = end ? step->mark + step->count + 1 : step->mark + element + 1;
  return m->watermarks[rank][step->after] >= needed;
}

static pipe *lane_pipe(machine *m, int rank, const ring_lane *lane) {
  if (lane->kind == RING_LANE_SEND) return &m->pipes[rank][lane->peer];
  return &m->pipes[lane->peer][rank];
}

/* Adds what `from` holds to `came`: the same element, and no contribution twice. */
static void reduce(value *came, const value *from) {
  CHECK_INT(came->element, from->element);
  CHECK_INT(came->ranks & from->ranks, 0);
  came->ranks |= from->ranks;
}

static void check_width(const machine *m, const ring_step *step, unsigned flag, const value *v) {
  if (m->widen) CHECK_INT((step->flags & flag) != 0, v->wide);
}

/* Moves one element; false when it cannot move now. */
static bool move_element(machine *m, int rank, const ring_lane *lane, const ring_step *step,
                         uint64_t element) {
  value *from = &m->spaces[rank][step->source][step->from + element];
  value *to = &m->spaces[rank][step->destination][step->to + element];
  if (!may_move(m, rank, step, element, false)) return false;
  if (step->op == RING_STEP_COPY) {
    *to = *from;
    return true;
  }
  if (step->op == RING_STEP_COMBINE) {
    value combined = m->spaces[rank][RING_SPACE_SCRATCH][step->with + element];
    check_width(m, step, RING_STEP_WIDE, &combined);
    check_width(m, step, RING_STEP_SOURCE_WIDE, from);
    reduce(&combined, from);
    combined.wide = step->destination == RING_SPACE_SCRATCH;
    *to = combined;
    return true;
  }
  pipe *p = lane_pipe(m, rank, lane);
  if (step->op == RING_STEP_SEND) {
    if (m->widen) CHECK_INT(from->wide, step->source == RING_SPACE_SCRATCH);
    p->values[p->written++] = *from;
    return true;
  }
  if (p->read == p->written) return false;
  value came = p->values[p->read++];
  check_width(m, step, RING_STEP_WIDE, &came);
  if (step->op == RING_STEP_REDUCE) {
    reduce(&came, from);
    came.wide = step->destination == RING_SPACE_SCRATCH;
  }
  *to = came;
  return true;
}

/* Finishes a step; both ends of a send must finish theirs at the same place in the stream. */
static bool end_step(machine *m, int rank, const ring_lane *lane, const ring_step *step) {
  if (!may_move(m, rank, step, 0, true)) return false;
  if (lane->kind == RING_LANE_LOCAL) return true;
  pipe *p = lane_pipe(m, rank, lane);
  if (lane->kind == RING_LANE_SEND) {
    p->steps_sent++;
    return true;
  }
  if (p->steps_received == p->steps_sent) return false;
  p->steps_received++;
  return true;
}

/* Gives a lane one turn of up to `most` elements; true when anything moved. */
static bool turn(machine *m, int rank, size_t index, uint64_t most) {
  const ring_schedule *schedule = &m->schedules[rank];
  const ring_lane *lane = &schedule->lanes[index];
  bool moved = false;
  while (m->steps[rank][index] < lane->count && most-- > 0) {
    const ring_step *step = &schedule->steps[lane->first + m->steps[rank][index]];
    uint64_t *done = &m->elements[rank][index];
    if (*done < step->count) {
      if (!move_element(m, rank, lane, step, *done)) return moved;
      ++*done;
    } else {
      if (!end_step(m, rank, lane, step)) return moved;
      *done = 0;
      m->steps[rank][index]++;
    }
    m->watermarks[rank][index]++;
    moved = true;
  }
  return moved;
}

static bool lane_is(const machine *m, int rank, size_t index, ring_lane_kind kind) {
  return m->schedules[rank].lanes[index].kind == kind;
}

static bool pass(machine *m, bool all, ring_lane_kind only) {
  bool moved = false;
  for (int i = 0; i < m->size; i++) {
    int rank = m->order == RANDOM_PIECES ? (int)(draw(m) % (uint64_t)m->size) : i;
    for (size_t lane = 0; lane < m->schedules[rank].lane_count; lane++) {
      if (!all && !lane_is(m, rank, lane, only)) continue;
      uint64_t most = m->order == RANDOM_PIECES ? 1 + draw(m) % 7 : UINT64_MAX;
      moved = turn(m, rank, lane, most) || moved;
    }
  }
  return moved;
}

static bool finished(const machine *m) {
  for (int rank = 0; rank < m->size; rank++)
    for (size_t lane = 0; lane < m->schedules[rank].lane_count; lane++)
      if (m->steps[rank][lane] < m->schedules[rank].lanes[lane].count) return false;
  return true;
}

/* Runs until all lanes of all ranks have finished. A pass in which nothing moves is a deadlock. */
static void run_machine(machine *m) {
  int idle = 0;
  while (!finished(m)) {
    bool moved = false;
    if (m->order == RECEIVES_FIRST) moved = pass(m, false, RING_LANE_RECV);
    if (m->order == SENDS_FIRST) moved = pass(m, false, RING_LANE_SEND);
    if (!moved) moved = pass(m, true, RING_LANE_LOCAL);
    idle = moved ? 0 : idle + 1;
    CHECK(idle < (m->order == RANDOM_PIECES ? 10000 : 1));
  }
}

/* ---- Cases -------------------------------------------------------------------------------- */

/* The call to plan: the part of each rank in `parts`; of collectives without parts, all of
 * count. */
typedef struct plan_case {
  int size, root;
  bool in_place;
  uint64_t count;
  ring_parts parts;
  bool widen;
  const int *node; /* of hierarchical ones: rank by rank, the host */
  ring_hierarchy shape;
} plan_case;

/* A kind of collective: how many elements a rank has, and what its output is to be. `place` is where
 * in the output the input lies when in place; NOWHERE where there is no such thing. */
typedef struct collective {
  uint64_t (*inputs)(const plan_case *c, int rank);
  uint64_t (*outputs)(const plan_case *c, int rank);
  value (*expected)(const plan_case *c, int rank, uint64_t i);
  int64_t (*place)(const plan_case *c, int rank);
} collective;

#define NOWHERE (-1)

typedef ring_status (*planner)(ring_schedule *s, int rank, const plan_case *c);

static uint64_t part_begin(const plan_case *c, int rank) {
  return c->parts.offsets != NULL ? c->parts.offsets[rank] : (uint64_t)rank * c->parts.count;
}

static uint64_t one_part(const plan_case *c, int rank) {
  return part_begin(c, rank + 1) - part_begin(c, rank);
}

static uint64_t all_parts(const plan_case *c, int rank) {
  (void)rank;
  return part_begin(c, c->size);
}

static uint64_t whole(const plan_case *c, int rank) {
  (void)rank;
  return c->count;
}

static uint64_t whole_at_root(const plan_case *c, int rank) {
  return rank == c->root ? c->count : 0;
}

static uint64_t all_parts_at_root(const plan_case *c, int rank) {
  return rank == c->root ? all_parts(c, rank) : 0;
}

static value everybody(const plan_case *c, int rank, uint64_t i) {
  (void)rank;
  return (value){.ranks = (UINT64_C(1) << c->size) - 1, .element = i};
}

static value everybody_here(const plan_case *c, int rank, uint64_t i) {
  return everybody(c, rank, part_begin(c, rank) + i);
}

static value from_root(const plan_case *c, int rank, uint64_t i) {
  (void)rank;
  return (value){.ranks = UINT64_C(1) << c->root, .element = i};
}

static value from_root_here(const plan_case *c, int rank, uint64_t i) {
  return from_root(c, rank, part_begin(c, rank) + i);
}

static int owner(const plan_case *c, uint64_t i) {
  int rank = 0;
  while (part_begin(c, rank + 1) <= i) rank++;
  return rank;
}

static value gathered(const plan_case *c, int rank, uint64_t i) {
  (void)rank;
  int from = owner(c, i);
  return (value){.ranks = UINT64_C(1) << from, .element = i - part_begin(c, from)};
}

static value exchanged(const plan_case *c, int rank, uint64_t i) {
  int from = owner(c, i);
  return (value){.ranks = UINT64_C(1) << from,
                 .element = part_begin(c, rank) + i - part_begin(c, from)};
}

static int64_t at_start(const plan_case *c, int rank) {
  (void)c;
  (void)rank;
  return 0;
}

static int64_t at_own_part(const plan_case *c, int rank) {
  return (int64_t)part_begin(c, rank);
}

static int64_t at_roots_part(const plan_case *c, int rank) {
  return rank == c->root ? at_own_part(c, rank) : NOWHERE;
}

static int64_t nowhere(const plan_case *c, int rank) {
  (void)c;
  (void)rank;
  return NOWHERE;
}

static const collective allreduce = {whole, whole, everybody, at_start};
static const collective reduce_to_root = {whole, whole_at_root, everybody, at_start};
static const collective broadcast = {whole_at_root, whole, from_root, at_start};
static const collective allgather = {one_part, all_parts, gathered, at_own_part};
static const collective gather = {one_part, all_parts_at_root, gathered, at_roots_part};
static const collective scatter = {all_parts_at_root, one_part, from_root_here, nowhere};
static const collective reduce_scatter = {all_parts, one_part, everybody_here, nowhere};
static const collective alltoall = {all_parts, all_parts, exchanged, nowhere};

/* ---- Machines ----------------------------------------------------------------------------- */

static void plan_rank(machine *m, int rank, planner plan, const plan_case *c) {
  ring_schedule *s = &m->schedules[rank];
  CHECK_INT(plan(s, rank, c), RING_OK);
  CHECK(s->lane_count <= s->lane_capacity && s->step_count <= s->step_capacity);
  m->watermarks[rank] = calloc(s->lane_count + 1, sizeof(uint64_t));
  m->elements[rank] = calloc(s->lane_count + 1, sizeof(uint64_t));
  m->steps[rank] = calloc(s->lane_count + 1, sizeof(size_t));
  m->spaces[rank][RING_SPACE_SCRATCH] = calloc(s->scratch + 1, sizeof(value));
  for (size_t lane = 0; lane < s->lane_count; lane++) {
    uint64_t total = 0;
    CHECK(s->lanes[lane].count > 0); /* the engine counts lanes as they end their last step */
    for (size_t i = 0; i < s->lanes[lane].count; i++)
      total += s->steps[s->lanes[lane].first + i].count;
    if (s->lanes[lane].kind != RING_LANE_SEND) continue;
    CHECK(m->pipes[rank][s->lanes[lane].peer].values == NULL);
    m->pipes[rank][s->lanes[lane].peer].values = calloc(total + 1, sizeof(value));
  }
}

/* A machine whose rank r holds as input elements of contribution r. */
static machine *make_machine(const collective *kind, planner plan, const plan_case *c) {
  machine *m = calloc(1, sizeof *m);
  m->size = c->size;
  m->widen = c->widen;
  m->random = 88172645463325252u;
  for (int rank = 0; rank < c->size; rank++) {
    uint64_t inputs = kind->inputs(c, rank);
    int64_t place = c->in_place ? kind->place(c, rank) : NOWHERE;
    /* In place a root's buffer also has the input of ranks that have no output. */
    uint64_t outputs = kind->outputs(c, rank);
    if (place != NOWHERE && outputs < (uint64_t)place + inputs) outputs = (uint64_t)place + inputs;
    m->spaces[rank][RING_SPACE_OUTPUT] = calloc(outputs + 1, sizeof(value));
    m->spaces[rank][RING_SPACE_INPUT] = place == NOWHERE
                                            ? calloc(inputs + 1, sizeof(value))
                                            : m->spaces[rank][RING_SPACE_OUTPUT] + place;
    for (uint64_t i = 0; i < inputs; i++)
      m->spaces[rank][RING_SPACE_INPUT][i] = (value){.ranks = UINT64_C(1) << rank, .element = i};
    plan_rank(m, rank, plan, c);
  }
  return m;
}

static void free_machine(machine *m, const collective *kind, const plan_case *c) {
  for (int rank = 0; rank < m->size; rank++) {
    ring_schedule_free(&m->schedules[rank]);
    free(m->watermarks[rank]);
    free(m->elements[rank]);
    free(m->steps[rank]);
    if (!c->in_place || kind->place(c, rank) == NOWHERE) free(m->spaces[rank][RING_SPACE_INPUT]);
    free(m->spaces[rank][RING_SPACE_OUTPUT]);
    free(m->spaces[rank][RING_SPACE_SCRATCH]);
    for (int peer = 0; peer < m->size; peer++) free(m->pipes[rank][peer].values);
  }
  free(m);
}

/* ---- Verifying ---------------------------------------------------------------------------- */

static void verify_order(const collective *kind, planner plan, const plan_case *c, unsigned order) {
  machine *m = make_machine(kind, plan, c);
  m->order = order;
  run_machine(m);
  for (int rank = 0; rank < c->size; rank++)
    for (uint64_t i = 0; i < kind->outputs(c, rank); i++) {
      value expected = kind->expected(c, rank, i), found = m->spaces[rank][RING_SPACE_OUTPUT][i];
      CHECK(found.ranks == expected.ranks);
      CHECK(found.element == expected.element);
    }
  free_machine(m, kind, c);
}

static void verify_case(const collective *kind, planner plan, const plan_case *c) {
  for (unsigned order = 0; order < ORDERS; order++) verify_order(kind, plan, c, order);
}

/* Parts of 0 to 6 elements, the first and the last ones of which may be empty. */
static void uneven(uint64_t *offsets, int size) {
  offsets[0] = 0;
  for (int rank = 0; rank < size; rank++)
    offsets[rank + 1] = offsets[rank] + (uint64_t)(rank * 5 + size) % 7;
}

/* One algorithm for every size, several counts, in place and not, and several roots. */
static void verify(const collective *kind, planner plan, bool rooted, bool takes_uneven) {
  uint64_t offsets[RANKS + 1];
  for (int size = 1; size <= RANKS; size++) {
    uint64_t n = (uint64_t)size;
    bool parts = kind->inputs != whole && kind->outputs != whole;
    uint64_t counts[] = {0, 1, parts ? 5 : n - 1, parts ? 3 : n, n + 1, 211};
    int roots[] = {0, size / 2, size - 1};
    uneven(offsets, size);
    for (int variant = 0; variant < 2 * 3; variant++) {
      if (!rooted && variant >= 2) break;
      if (variant >= 2 && roots[variant / 2] == roots[variant / 2 - 1]) continue;
      plan_case c = {.size = size, .root = roots[variant / 2], .in_place = variant % 2 == 1};
      for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c.count = c.parts.count = counts[i];
        if (parts && c.count > 5) continue;
        verify_case(kind, plan, &c);
      }
      c.parts = (ring_parts){offsets, 0};
      if (takes_uneven) verify_case(kind, plan, &c);
    }
  }
}

#define PLAN(name, ...)                                                                            \
  static ring_status plan_##name(ring_schedule *s, int rank, const plan_case *c) {                 \
    return ring_schedule_##name(s, rank, c->size, __VA_ARGS__);                                    \
  }
#define PLAN_REDUCTION(name, ...)                                                                  \
  PLAN(name, __VA_ARGS__, false)                                                                   \
  static ring_status plan_##name##_wide(ring_schedule *s, int rank, const plan_case *c) {          \
    return ring_schedule_##name(s, rank, c->size, __VA_ARGS__, true);                              \
  }

PLAN_REDUCTION(allreduce_ring, c->count)
PLAN_REDUCTION(allreduce_direct, c->count)
PLAN_REDUCTION(allreduce_doubling, c->count)
PLAN(allreduce_halving, c->count)
PLAN_REDUCTION(reduce_scatter_ring, c->count)
PLAN_REDUCTION(reduce_scatter_direct, c->count)
PLAN(broadcast_tree, c->count, c->root)
PLAN(broadcast_chain, c->count, c->root)
PLAN_REDUCTION(reduce_tree, c->count, c->root)
PLAN_REDUCTION(reduce_chain, c->count, c->root)
PLAN(allgather_ring, c->parts)
PLAN(allgather_bruck, c->parts)
PLAN(gather_tree, c->parts, c->root)
PLAN(gather_direct, c->parts, c->root)
PLAN(scatter_tree, c->parts, c->root)
PLAN(scatter_direct, c->parts, c->root)
PLAN(alltoall_bruck, c->count)

static ring_status plan_alltoall_pairwise(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_alltoall_pairwise(s, rank, c->size, c->parts, c->parts);
}

static ring_status plan_barrier(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_barrier(s, rank, c->size);
}

static void test_allreduce(void) {
  verify(&allreduce, plan_allreduce_ring, false, false);
  verify(&allreduce, plan_allreduce_direct, false, false);
  verify(&allreduce, plan_allreduce_doubling, false, false);
  verify(&allreduce, plan_allreduce_halving, false, false);
}

static void test_reductions_with_accumulators(void) {
  verify(&allreduce, plan_allreduce_ring_wide, false, false);
  verify(&allreduce, plan_allreduce_direct_wide, false, false);
  verify(&allreduce, plan_allreduce_doubling_wide, false, false);
  verify(&reduce_scatter, plan_reduce_scatter_ring_wide, false, false);
  verify(&reduce_scatter, plan_reduce_scatter_direct_wide, false, false);
  verify(&reduce_to_root, plan_reduce_tree_wide, true, false);
  verify(&reduce_to_root, plan_reduce_chain_wide, true, false);
}

static void test_reduce(void) {
  verify(&reduce_to_root, plan_reduce_tree, true, false);
  verify(&reduce_to_root, plan_reduce_chain, true, false);
}

static void test_reduce_scatter(void) {
  verify(&reduce_scatter, plan_reduce_scatter_ring, false, false);
  verify(&reduce_scatter, plan_reduce_scatter_direct, false, false);
}

static void test_broadcast(void) {
  verify(&broadcast, plan_broadcast_tree, true, false);
  verify(&broadcast, plan_broadcast_chain, true, false);
}

static void test_allgather(void) {
  verify(&allgather, plan_allgather_ring, false, true);
  verify(&allgather, plan_allgather_bruck, false, true);
}

static void test_gather(void) {
  verify(&gather, plan_gather_tree, true, true);
  verify(&gather, plan_gather_direct, true, true);
}

static void test_scatter(void) {
  verify(&scatter, plan_scatter_tree, true, true);
  verify(&scatter, plan_scatter_direct, true, true);
}

static void test_alltoall(void) {
  verify(&alltoall, plan_alltoall_bruck, false, false);
  verify(&alltoall, plan_alltoall_pairwise, false, false);
}

/* ---- Hosts -------------------------------------------------------------------------------- */

static ring_status plan_hierarchical(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_allreduce_hierarchical(s, rank, c->size, c->node, c->count, c->widen,
                                              c->shape);
}

/* A placement in one of WAYS ways: in place or not, with accumulators or without, with as many shards
 * as there can be and with fewer, across hosts by each algorithm. */
enum { WAYS = 24 };

static void verify_placement(const int *node, int size, uint64_t count, unsigned order,
                             unsigned way) {
  plan_case c = {.size = size, .count = count, .node = node};
  c.in_place = way & 1;
  c.widen = way & 2;
  c.shape.shards = way & 4 ? 1 + (int)count % 2 : size;
  c.shape.inter_host = (ring_inter_host_name)(way / 8);
  verify_order(&allreduce, plan_hierarchical, &c, order);
}

/* Random neighbours; labels, too, need not be in the order of ranks. */
static void shuffle(int *node, int size) {
  static machine dice = {.random = 2463534242u};
  for (int i = size - 1; i > 0; i--) {
    int other = (int)(draw(&dice) % (uint64_t)(i + 1)), kept = node[i];
    node[i] = node[other];
    node[other] = kept;
  }
}

/* Small splits are verified with everything, of others each with its share. */
static void verify_split(const int *node, int size) {
  static const uint64_t counts[] = {0, 1, 5, 23, 61};
  static unsigned turns = 0;
  bool all = size <= 6;
  for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (unsigned order = 0; order < ORDERS; order++)
      for (unsigned way = 0; way < WAYS; way++)
        if (all || (turns % 5 == i && turns % 3 == order && turns % 6 == way / 4))
          verify_placement(node, size, counts[i], order, way);
  turns++;
}

/* Gives the last `left` ranks to hosts from `host` on, none with more than `most`. */
static void verify_splits(int *node, int size, int left, int most, int host) {
  if (left == 0) {
    int shuffled[RANKS];
    verify_split(node, size);
    if (size > 16) return;
    memcpy(shuffled, node, sizeof shuffled);
    shuffle(shuffled, size);
    verify_split(shuffled, size);
  }
  for (int ranks = left < most ? left : most; ranks > 0; ranks--) {
    for (int i = 0; i < ranks; i++) node[size - left + i] = host;
    verify_splits(node, size, left - ranks, ranks, host + 1);
  }
}

static void test_every_split_over_hosts(void) {
  int node[RANKS];
  for (int size = 1; size <= 24; size++) verify_splits(node, size, size, size, 0);
}

/* Long vectors, for which the builder chooses the shards and the ring itself. */
static void test_hosts_with_long_vectors(void) {
  static const int node[] = {0, 0, 0, 2, 2, 5, 5, 5};
  for (uint64_t count = 2047; count < 80000; count *= 6) {
    plan_case c = {.size = 8, .count = count, .node = node};
    verify_order(&allreduce, plan_hierarchical, &c, RECEIVES_FIRST);
  }
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* With one rank held back, nobody may leave a barrier. */
static void test_barrier_waits_for_everybody(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int absent = 0; absent < size; absent++) {
      plan_case c = {.size = size};
      machine *m = make_machine(&allreduce, plan_barrier, &c);
      for (int round = 0; round < 2 * size; round++)
        for (int rank = 0; rank < size; rank++)
          for (size_t lane = 0; rank != absent && lane < m->schedules[rank].lane_count; lane++)
            turn(m, rank, lane, UINT64_MAX);
      for (int rank = 0; rank < size; rank++) {
        bool left = true;
        for (size_t lane = 0; lane < m->schedules[rank].lane_count; lane++)
          left = left && m->steps[rank][lane] == m->schedules[rank].lanes[lane].count;
        CHECK(!left);
      }
      run_machine(m);
      free_machine(m, &allreduce, &c);
    }
}

static void test_a_ring_needs_two_links(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int rank = 0; rank < size; rank++) {
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_allreduce_ring(&s, rank, size, 100, false), RING_OK);
      CHECK_INT(s.lane_count, 2);
      CHECK_INT(s.lanes[0].peer, (rank + size - 1) % size);
      CHECK_INT(s.lanes[1].peer, (rank + 1) % size);
      ring_schedule_free(&s);
    }
}

/* Elements that a rank sends in a schedule. */
static uint64_t traffic(const ring_schedule *s) {
  uint64_t sent = 0;
  for (size_t lane = 0; lane < s->lane_count; lane++)
    for (size_t i = 0; s->lanes[lane].kind == RING_LANE_SEND && i < s->lanes[lane].count; i++)
      sent += s->steps[s->lanes[lane].first + i].count;
  return sent;
}

/* 2(N-1)K/N elements a rank for the ring, and for halving where no rank is folded. */
static void test_traffic_of_allreduce(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int rank = 0; rank < size; rank++) {
      uint64_t n = (uint64_t)size;
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_allreduce_ring(&s, rank, size, 40 * n, false), RING_OK);
      CHECK_INT(traffic(&s), 2 * (n - 1) * 40);
      CHECK_INT(ring_schedule_allreduce_halving(&s, rank, size, 40 * n), RING_OK);
      if ((size & (size - 1)) == 0) CHECK_INT(traffic(&s), 2 * (n - 1) * 40);
      ring_schedule_free(&s);
    }
}

/* Doubling, trees and Bruck's rounds: at most ceil(log2 N) partners each way, and one for folding. */
static void test_logarithmic_algorithms_need_few_links(void) {
  static const planner plans[] = {
      plan_allreduce_doubling, plan_allreduce_halving, plan_broadcast_tree, plan_reduce_tree,
      plan_allgather_bruck,    plan_gather_tree,       plan_scatter_tree,   plan_alltoall_bruck};
  for (int size = 1; size <= RANKS; size++) {
    size_t rounds = 0;
    while ((1 << rounds) < size) rounds++;
    for (int rank = 0; rank < size; rank++)
      for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        plan_case c = {.size = size, .count = 3, .parts = {.count = 3}};
        ring_schedule s = {0};
        CHECK_INT(plans[i](&s, rank, &c), RING_OK);
        CHECK(s.lane_count <= 2 * rounds + 3);
        ring_schedule_free(&s);
      }
  }
}

int main(void) {
  RUN(test_allreduce);
  RUN(test_reductions_with_accumulators);
  RUN(test_reduce);
  RUN(test_reduce_scatter);
  RUN(test_broadcast);
  RUN(test_allgather);
  RUN(test_gather);
  RUN(test_scatter);
  RUN(test_alltoall);
  RUN(test_every_split_over_hosts);
  RUN(test_hosts_with_long_vectors);
  RUN(test_barrier_waits_for_everybody);
  RUN(test_a_ring_needs_two_links);
  RUN(test_traffic_of_allreduce);
  RUN(test_logarithmic_algorithms_need_few_links);
  return 0;
}
