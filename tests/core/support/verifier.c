/* SPDX-License-Identifier: Apache-2.0 */
#include "verifier.h"

#include "check.h"

/* ---- Running ------------------------------------------------------------------------------ */

uint64_t draw(machine *m) {
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
    check_width(m, step, RING_STEP_SOURCE_WIDE, from);
    *to = *from;
    to->wide = from->wide && step->destination == RING_SPACE_SCRATCH;
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

bool turn(machine *m, int rank, size_t index, uint64_t most) {
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

void run_machine(machine *m) {
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

/* ---- Collectives -------------------------------------------------------------------------- */

#define NOWHERE (-1)

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

uint64_t whole(const plan_case *c, int rank) {
  (void)rank;
  return c->count;
}

static uint64_t whole_at_root(const plan_case *c, int rank) {
  return rank == c->root ? c->count : 0;
}

static uint64_t whole_but_on_first(const plan_case *c, int rank) {
  return rank > 0 ? c->count : 0;
}

static uint64_t all_parts_at_root(const plan_case *c, int rank) {
  return rank == c->root ? all_parts(c, rank) : 0;
}

static value everybody(const plan_case *c, int rank, uint64_t i) {
  (void)rank;
  return (value){.ranks = (UINT64_C(1) << c->size) - 1, .element = i};
}

static value up_to_here(const plan_case *c, int rank, uint64_t i) {
  (void)c;
  return (value){.ranks = (UINT64_C(2) << rank) - 1, .element = i};
}

static value before_here(const plan_case *c, int rank, uint64_t i) {
  (void)c;
  return (value){.ranks = (UINT64_C(1) << rank) - 1, .element = i};
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

const collective verified_allreduce = {whole, whole, everybody, at_start};
const collective verified_reduce = {whole, whole_at_root, everybody, at_start};
const collective verified_broadcast = {whole_at_root, whole, from_root, at_start};
const collective verified_allgather = {one_part, all_parts, gathered, at_own_part};
const collective verified_gather = {one_part, all_parts_at_root, gathered, at_roots_part};
const collective verified_scatter = {all_parts_at_root, one_part, from_root_here, nowhere};
const collective verified_reduce_scatter = {all_parts, one_part, everybody_here, nowhere};
const collective verified_scan = {whole, whole, up_to_here, at_start};
const collective verified_exscan = {whole, whole_but_on_first, before_here, at_start};
const collective verified_alltoall = {all_parts, all_parts, exchanged, nowhere};

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

machine *make_machine(const collective *kind, planner plan, const plan_case *c) {
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

void free_machine(machine *m, const collective *kind, const plan_case *c) {
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

void verify_order(const collective *kind, planner plan, const plan_case *c, unsigned order) {
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

void verify_case(const collective *kind, planner plan, const plan_case *c) {
  for (unsigned order = 0; order < ORDERS; order++) verify_order(kind, plan, c, order);
}
