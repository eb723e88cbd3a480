/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic verifier: runs the schedules of all ranks on values that say which contributions
 * they hold, and checks that each element of each output holds each contribution exactly once. A
 * lane may be ahead of or behind any other as far as its watermarks allow, so every case runs under
 * several orders (receives first, sends first, random pieces), with input and output apart and in
 * place. A send copies its values when it happens, as a socket does.
 */
#include "check.h"
#include "schedule.h"

#define RANKS 33

/* Contributions (a bit a rank) and the element they belong to. */
typedef struct value {
  uint64_t ranks;
  uint64_t element;
} value;

typedef struct pipe {
  value *values;
  uint64_t written, read;
  uint64_t steps_sent, steps_received; /* ends of steps travel, too */
} pipe;

typedef struct machine {
  int size;
  ring_schedule schedules[RANKS];
  value *spaces[RANKS][3];
  pipe pipes[RANKS][RANKS];
  uint64_t *watermarks[RANKS];
  uint64_t *elements[RANKS]; /* done of the lane's current step */
  size_t *steps[RANKS];
  uint64_t sent[RANKS];
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
  uint64_t needed = end ? step->mark + step->count + 1 : step->mark + element + 1;
  return m->watermarks[rank][step->after] >= needed;
}

static pipe *lane_pipe(machine *m, int rank, const ring_lane *lane) {
  if (lane->kind == RING_LANE_SEND) return &m->pipes[rank][lane->peer];
  return &m->pipes[lane->peer][rank];
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
  pipe *p = lane_pipe(m, rank, lane);
  if (step->op == RING_STEP_SEND) {
    p->values[p->written++] = *from;
    m->sent[rank]++;
    return true;
  }
  if (p->read == p->written) return false;
  value came = p->values[p->read++];
  if (step->op == RING_STEP_REDUCE) {
    CHECK_INT(came.element, from->element);
    CHECK_INT(came.ranks & from->ranks, 0);
    came.ranks |= from->ranks;
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

typedef ring_status (*planner)(ring_schedule *, int rank, int size, uint64_t count, int root);

static ring_status plan_allreduce(ring_schedule *s, int rank, int size, uint64_t count, int root) {
  (void)root;
  return ring_schedule_allreduce(s, rank, size, count, false);
}

static ring_status plan_wide(ring_schedule *s, int rank, int size, uint64_t count, int root) {
  (void)root;
  return ring_schedule_allreduce(s, rank, size, count, true);
}

static ring_status plan_allgather(ring_schedule *s, int rank, int size, uint64_t count, int root) {
  (void)root;
  return ring_schedule_allgather(s, rank, size, count);
}

static ring_status plan_barrier(ring_schedule *s, int rank, int size, uint64_t count, int root) {
  (void)count;
  (void)root;
  return ring_schedule_barrier(s, rank, size);
}

/* A machine whose rank r holds, as input, `count` elements of contribution r. When in place, the
 * input lies in the output at `in_place_at` times the rank. */
static machine *make_machine(int size, uint64_t count, uint64_t outputs, bool in_place,
                             uint64_t in_place_at) {
  machine *m = calloc(1, sizeof *m);
  m->size = size;
  m->random = 88172645463325252u;
  for (int rank = 0; rank < size; rank++) {
    m->spaces[rank][RING_SPACE_OUTPUT] = calloc(outputs + 1, sizeof(value));
    m->spaces[rank][RING_SPACE_SCRATCH] = calloc(count + 1, sizeof(value));
    m->spaces[rank][RING_SPACE_INPUT] =
        in_place ? m->spaces[rank][RING_SPACE_OUTPUT] + in_place_at * (uint64_t)rank
                 : calloc(count + 1, sizeof(value));
    for (uint64_t i = 0; i < count; i++)
      m->spaces[rank][RING_SPACE_INPUT][i] = (value){UINT64_C(1) << rank, i};
  }
  return m;
}

static void plan_machine(machine *m, planner plan, uint64_t count, int root) {
  for (int rank = 0; rank < m->size; rank++) {
    ring_schedule *s = &m->schedules[rank];
    CHECK_INT(plan(s, rank, m->size, count, root), RING_OK);
    m->watermarks[rank] = calloc(s->lane_count + 1, sizeof(uint64_t));
    m->elements[rank] = calloc(s->lane_count + 1, sizeof(uint64_t));
    m->steps[rank] = calloc(s->lane_count + 1, sizeof(size_t));
    for (size_t lane = 0; lane < s->lane_count; lane++) {
      uint64_t total = 0;
      for (size_t i = 0; i < s->lanes[lane].count; i++)
        total += s->steps[s->lanes[lane].first + i].count;
      if (s->lanes[lane].kind != RING_LANE_SEND) continue;
      CHECK(m->pipes[rank][s->lanes[lane].peer].values == NULL);
      m->pipes[rank][s->lanes[lane].peer].values = calloc(total + 1, sizeof(value));
    }
  }
}

static void free_machine(machine *m, bool in_place) {
  for (int rank = 0; rank < m->size; rank++) {
    ring_schedule_free(&m->schedules[rank]);
    free(m->watermarks[rank]);
    free(m->elements[rank]);
    free(m->steps[rank]);
    free(m->spaces[rank][RING_SPACE_OUTPUT]);
    free(m->spaces[rank][RING_SPACE_SCRATCH]);
    if (!in_place) free(m->spaces[rank][RING_SPACE_INPUT]);
    for (int peer = 0; peer < m->size; peer++) free(m->pipes[rank][peer].values);
  }
  free(m);
}

/* Runs one case in every order; `check` then looks at one rank's output. */
static void verify(planner plan, int size, uint64_t count, uint64_t outputs, int root,
                   bool in_place, uint64_t in_place_at,
                   void (*check)(const machine *m, int rank, uint64_t count, int root)) {
  for (unsigned order = 0; order < ORDERS; order++) {
    machine *m = make_machine(size, count, outputs, in_place, in_place_at);
    m->order = order;
    plan_machine(m, plan, count, root);
    run_machine(m);
    for (int rank = 0; rank < size; rank++) check(m, rank, count, root);
    free_machine(m, in_place);
  }
}

static void check_allreduce(const machine *m, int rank, uint64_t count, int root) {
  (void)root;
  for (uint64_t i = 0; i < count; i++) {
    CHECK(m->spaces[rank][RING_SPACE_OUTPUT][i].ranks == (UINT64_C(1) << m->size) - 1);
    CHECK(m->spaces[rank][RING_SPACE_OUTPUT][i].element == i);
  }
  /* 2(N-1)K/N elements a rank; parts differ by one element, so up to one more a step. */
  uint64_t rounds = 2 * (uint64_t)(m->size - 1);
  CHECK(m->sent[rank] <= rounds * ((count + (uint64_t)m->size - 1) / (uint64_t)m->size));
  if (count % (uint64_t)m->size == 0)
    CHECK_INT(m->sent[rank], rounds * (count / (uint64_t)m->size));
}

static void check_broadcast(const machine *m, int rank, uint64_t count, int root) {
  for (uint64_t i = 0; i < count; i++) {
    CHECK(m->spaces[rank][RING_SPACE_OUTPUT][i].ranks == UINT64_C(1) << root);
    CHECK(m->spaces[rank][RING_SPACE_OUTPUT][i].element == i);
  }
}

static void check_allgather(const machine *m, int rank, uint64_t count, int root) {
  (void)root;
  for (int from = 0; from < m->size; from++)
    for (uint64_t i = 0; i < count; i++) {
      const value *found = &m->spaces[rank][RING_SPACE_OUTPUT][(uint64_t)from * count + i];
      CHECK(found->ranks == UINT64_C(1) << from);
      CHECK(found->element == i);
    }
}

static void for_all_cases(void (*verify_case)(int size, uint64_t count)) {
  for (int size = 1; size <= RANKS; size++) {
    uint64_t n = (uint64_t)size;
    uint64_t counts[] = {0, 1, n - 1, n, n + 1, 40 * n, 1021};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) verify_case(size, counts[i]);
  }
}

static void allreduce_case(int size, uint64_t count) {
  verify(plan_allreduce, size, count, count, 0, false, 0, check_allreduce);
  verify(plan_allreduce, size, count, count, 0, true, 0, check_allreduce);
}

static void test_allreduce(void) {
  for_all_cases(allreduce_case);
}

static void wide_case(int size, uint64_t count) {
  verify(plan_wide, size, count, count, 0, false, 0, check_allreduce);
  verify(plan_wide, size, count, count, 0, true, 0, check_allreduce);
}

static void test_allreduce_with_accumulators(void) {
  for_all_cases(wide_case);
}

static void broadcast_case(int size, uint64_t count) {
  int roots[] = {0, size / 2, size - 1};
  for (int i = 0; i < 3; i++) {
    verify(ring_schedule_broadcast, size, count, count, roots[i], false, 0, check_broadcast);
    verify(ring_schedule_broadcast, size, count, count, roots[i], true, 0, check_broadcast);
  }
}

static void test_broadcast(void) {
  for_all_cases(broadcast_case);
}

static void allgather_case(int size, uint64_t count) {
  uint64_t few = count > 100 ? 100 : count; /* the output has size times as many */
  verify(plan_allgather, size, few, few * (uint64_t)size, 0, false, 0, check_allgather);
  verify(plan_allgather, size, few, few * (uint64_t)size, 0, true, few, check_allgather);
}

static void test_allgather(void) {
  for_all_cases(allgather_case);
}

/* With one rank held back, nobody may leave a barrier. */
static void test_barrier_waits_for_everybody(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int absent = 0; absent < size; absent++) {
      machine *m = make_machine(size, 0, 0, false, 0);
      plan_machine(m, plan_barrier, 0, 0);
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
      free_machine(m, false);
    }
}

static void test_a_ring_needs_two_links(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int rank = 0; rank < size; rank++) {
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_allreduce(&s, rank, size, 100, false), RING_OK);
      CHECK_INT(s.lane_count, 2);
      CHECK_INT(s.lanes[0].peer, (rank + size - 1) % size);
      CHECK_INT(s.lanes[1].peer, (rank + 1) % size);
      ring_schedule_free(&s);
    }
}

static void test_a_tree_has_logarithmic_depth(void) {
  for (int size = 1; size <= RANKS; size++) {
    size_t most = 0;
    for (int rank = 0; rank < size; rank++) {
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_broadcast(&s, rank, size, 1, 0), RING_OK);
      most = s.lane_count > most ? s.lane_count : most;
      ring_schedule_free(&s);
    }
    size_t rounds = 0;
    while ((1 << rounds) < size) rounds++;
    CHECK_INT(most, rounds + 1); /* the root's sends and its copy */
  }
}

int main(void) {
  RUN(test_allreduce);
  RUN(test_allreduce_with_accumulators);
  RUN(test_broadcast);
  RUN(test_allgather);
  RUN(test_barrier_waits_for_everybody);
  RUN(test_a_ring_needs_two_links);
  RUN(test_a_tree_has_logarithmic_depth);
  return 0;
}
