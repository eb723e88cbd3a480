/* SPDX-License-Identifier: Apache-2.0
 *
 * Events are kept in a heap by time, and in the order of their making where times are equal. A
 * frame makes three: it has left, its head is there, it has come.
 */
#include "simulation.h"

#include <stdlib.h>

#define FRAMES_MOST UINT64_C(2000000) /* more than there are steps; both ends count */
#define STEPS_MOST UINT64_C(40000000)
#define COMPARED 16 /* hosts with which one is compared where there are more */

typedef enum event_kind { EVENT_DONE, EVENT_HEAD, EVENT_CAME } event_kind;

typedef struct event {
  double time;
  uint64_t order, elements;
  event_kind kind;
  int rank, lane;
} event;

typedef struct lane {
  size_t step;
  uint64_t elements, watermark;
  bool busy;
  bool local;
  int to_rank, to_lane;  /* of a send: its receiver */
  size_t came;           /* of what is received: the step of the next frame, */
  uint64_t came_already; /* what came of it, */
  double taken;          /* and when all before has been dealt with */
} lane;

typedef struct simulation {
  const cluster *cluster;
  const workload *work;
  symmetry symmetry;
  int actors; /* ranks that are run: all, or those of one host */
  ring_schedule *schedules;
  lane **lanes;
  double *out, *in;           /* by host: when the interface is free again */
  double *copy_out, *copy_in; /* by rank, the same for local messages */
  double *processor;          /* by rank */
  event *heap;
  size_t events, room;
  uint64_t order, chunk;
  double now;
  outcome outcome;
} simulation;

static void simulation_fail(simulation *s, const char *why) {
  if (s->outcome.error == NULL) s->outcome.error = why;
}

/* ---- Events ------------------------------------------------------------------------------- */

static bool event_before(const event *a, const event *b) {
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void event_add(simulation *s, event_kind kind, double time, int rank, int lane_index,
                      uint64_t elements) {
  if (s->events == s->room) {
    size_t room = s->room == 0 ? 1024 : 2 * s->room;
    event *grown = realloc(s->heap, room * sizeof *grown);
    if (grown == NULL) {
      simulation_fail(s, "out of memory");
      return;
    }
    s->heap = grown;
    s->room = room;
  }
  event new = {time, s->order++, elements, kind, rank, lane_index};
  size_t i = s->events++;
  while (i > 0 && event_before(&new, &s->heap[(i - 1) / 2])) {
    s->heap[i] = s->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  s->heap[i] = new;
}

static event event_take(simulation *s) {
  event first = s->heap[0], last = s->heap[--s->events];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= s->events) break;
    if (child + 1 < s->events && event_before(&s->heap[child + 1], &s->heap[child])) child++;
    if (!event_before(&s->heap[child], &last)) break;
    s->heap[i] = s->heap[child];
    i = child;
  }
  s->heap[i] = last;
  return first;
}

/* ---- Running ------------------------------------------------------------------------------ */

static const ring_lane *lane_shape(const simulation *s, int rank, int index) {
  return &s->schedules[rank].lanes[index];
}

static const ring_step *lane_step(const simulation *s, int rank, int index) {
  return &s->schedules[rank].steps[lane_shape(s, rank, index)->first + s->lanes[rank][index].step];
}

/* As engine_may_move. */
static bool step_may_move(const simulation *s, int rank, const ring_step *step, uint64_t end) {
  if (step->after == RING_STEP_FREE) return true;
  uint64_t needed = step->mark + end + (end == step->count ? 1 : 0);
  if (step->flags & RING_STEP_WHOLE) needed = step->mark;
  return s->lanes[rank][step->after].watermark >= needed;
}

static uint64_t next_frame(const simulation *s, int rank, int index) {
  uint64_t left = lane_step(s, rank, index)->count - s->lanes[rank][index].elements;
  return left < s->chunk ? left : s->chunk;
}

/* Takes a resource for a while, as soon as it is free. Returns when that begins. */
static double occupy(const simulation *s, double *free_at, double seconds) {
  double begin = *free_at > s->now ? *free_at : s->now;
  *free_at = begin + seconds;
  return begin;
}

static void begin_send(simulation *s, int rank, int index, uint64_t elements) {
  const cluster *c = s->cluster;
  const lane *l = &s->lanes[rank][index];
  double bytes = (double)elements * s->work->element_bytes;
  double *port = l->local ? &s->copy_out[rank] : &s->out[rank / c->per_host];
  double begin = occupy(s, port, bytes / (l->local ? c->local_bandwidth : c->bandwidth));
  s->outcome.frames++;
  event_add(s, EVENT_DONE, *port, rank, index, elements);
  event_add(s, EVENT_HEAD, begin + (l->local ? c->local_alpha : c->alpha), l->to_rank, l->to_lane,
            elements);
}

/* Returns when it is done. */
static double compute(simulation *s, int rank, int index, uint64_t elements) {
  double bytes = (double)elements * s->work->element_bytes;
  occupy(s, &s->processor[rank], bytes * s->cluster->gamma);
  event_add(s, EVENT_DONE, s->processor[rank], rank, index, elements);
  return s->processor[rank];
}

/* Begins the next frame of a lane that sends or is local, if it may. */
static void lane_begin(simulation *s, int rank, int index) {
  const ring_lane *shape = lane_shape(s, rank, index);
  lane *l = &s->lanes[rank][index];
  if (l->busy || shape->kind == RING_LANE_RECV || l->step == shape->count) return;
  uint64_t elements = next_frame(s, rank, index);
  if (!step_may_move(s, rank, lane_step(s, rank, index), l->elements + elements)) return;
  l->busy = true;
  if (shape->kind == RING_LANE_SEND)
    begin_send(s, rank, index, elements);
  else
    compute(s, rank, index, elements);
}

static void lanes_begin(simulation *s, int rank) {
  for (int i = 0; i < (int)s->schedules[rank].lane_count; i++) lane_begin(s, rank, i);
}

static void frame_head(simulation *s, const event *e) {
  const cluster *c = s->cluster;
  bool local = s->lanes[e->rank][e->lane].local;
  double bytes = (double)e->elements * s->work->element_bytes;
  double *port = local ? &s->copy_in[e->rank] : &s->in[e->rank / c->per_host];
  occupy(s, port, bytes / (local ? c->local_bandwidth : c->bandwidth));
  event_add(s, EVENT_CAME, *port, e->rank, e->lane, e->elements);
}

static void frame_came(simulation *s, const event *e) {
  const ring_lane *shape = lane_shape(s, e->rank, e->lane);
  lane *l = &s->lanes[e->rank][e->lane];
  const ring_step *step = &s->schedules[e->rank].steps[shape->first + l->came];
  if (l->came == shape->count || l->came_already + e->elements > step->count) {
    simulation_fail(s, "the two ends of a link cut their steps differently");
    return;
  }
  l->came_already += e->elements;
  if (l->came_already == step->count) {
    l->came++;
    l->came_already = 0;
  }
  if (step->op == RING_STEP_REDUCE)
    l->taken = compute(s, e->rank, e->lane, e->elements);
  else
    event_add(s, EVENT_DONE, l->taken > s->now ? l->taken : s->now, e->rank, e->lane, e->elements);
}

static void frame_done(simulation *s, const event *e) {
  lane *l = &s->lanes[e->rank][e->lane];
  l->busy = false;
  l->elements += e->elements;
  l->watermark += e->elements;
  if (l->elements == lane_step(s, e->rank, e->lane)->count) {
    l->watermark++;
    l->elements = 0;
    l->step++;
  }
  lanes_begin(s, e->rank);
}

static void simulation_run(simulation *s) {
  for (int rank = 0; rank < s->actors; rank++) lanes_begin(s, rank);
  while (s->events > 0 && s->outcome.error == NULL) {
    event e = event_take(s);
    s->now = e.time;
    if (e.kind == EVENT_HEAD)
      frame_head(s, &e);
    else if (e.kind == EVENT_CAME)
      frame_came(s, &e);
    else
      frame_done(s, &e);
  }
  for (int rank = 0; rank < s->actors; rank++)
    for (size_t i = 0; i < s->schedules[rank].lane_count; i++)
      if (s->lanes[rank][i].step < s->schedules[rank].lanes[i].count)
        simulation_fail(s, "the schedule does not end");
  s->outcome.seconds = s->now;
}

/* ---- Symmetry ----------------------------------------------------------------------------- */

/* Where the symmetry that takes host `host` to the first one takes a rank. */
static int image(const simulation *s, int rank, int host) {
  int per_host = s->cluster->per_host, hosts = s->cluster->ranks / per_host;
  if (s->symmetry == SYMMETRY_ROTATE)
    return ((rank / per_host - host + hosts) % hosts) * per_host + rank % per_host;
  if (s->symmetry == SYMMETRY_XOR) return ((rank / per_host) ^ host) * per_host + rank % per_host;
  return rank;
}

/* Whether a schedule of a rank on `host` is that of its image, up to where things lie. */
static bool same_schedule(const simulation *s, const ring_schedule *a, int host,
                          const ring_schedule *b) {
  if (a->lane_count != b->lane_count || a->step_count != b->step_count) return false;
  for (size_t i = 0; i < a->lane_count; i++) {
    const ring_lane *x = &a->lanes[i], *y = &b->lanes[i];
    if (x->kind != y->kind || x->count != y->count) return false;
    if (x->kind != RING_LANE_LOCAL && image(s, x->peer, host) != y->peer) return false;
  }
  for (size_t i = 0; i < a->step_count; i++) {
    const ring_step *x = &a->steps[i], *y = &b->steps[i];
    if (x->op != y->op || ((x->flags ^ y->flags) & ~RING_STEP_SWAPPED) != 0 ||
        x->after != y->after || x->mark != y->mark || x->count != y->count)
      return false;
  }
  return true;
}

static bool symmetry_holds(simulation *s) {
  int per_host = s->cluster->per_host, hosts = s->cluster->ranks / per_host;
  int stride = hosts > COMPARED ? hosts / COMPARED : 1;
  bool same = true;
  ring_schedule other = {0};
  /* An odd way through the hosts, which meets odd and even ones, and the last. */
  for (int host = hosts - 1; same && host > 0; host -= stride | 1)
    for (int place = 0; same && place < per_host; place++)
      same = s->work->build(&other, host * per_host + place, s->work) == RING_OK &&
             same_schedule(s, &other, host, &s->schedules[place]);
  ring_schedule_free(&other);
  return same;
}

/* ---- Preparing ---------------------------------------------------------------------------- */

static int lane_of(const ring_schedule *schedule, ring_lane_kind kind, int peer) {
  for (size_t i = 0; i < schedule->lane_count; i++)
    if (schedule->lanes[i].kind == kind && schedule->lanes[i].peer == peer) return (int)i;
  return -1;
}

/* Finds for a lane that receives the one that sends to it. */
static bool lane_connect(simulation *s, int rank, int index) {
  int peer = lane_shape(s, rank, index)->peer, per_host = s->cluster->per_host;
  bool local = peer / per_host == rank / per_host;
  int sender = s->symmetry == SYMMETRY_NONE ? peer : peer % per_host;
  int from = lane_of(&s->schedules[sender], RING_LANE_SEND, image(s, rank, peer / per_host));
  if (from < 0) return false;
  s->lanes[rank][index].local = s->lanes[sender][from].local = local;
  s->lanes[sender][from].to_rank = rank;
  s->lanes[sender][from].to_lane = index;
  return true;
}

static void simulation_connect(simulation *s) {
  for (int rank = 0; rank < s->actors; rank++)
    for (size_t i = 0; i < s->schedules[rank].lane_count; i++)
      if (lane_shape(s, rank, (int)i)->kind == RING_LANE_RECV && !lane_connect(s, rank, (int)i))
        simulation_fail(s, "a rank waits for one that sends it nothing");
}

static uint64_t frames_of(const simulation *s, uint64_t chunk) {
  uint64_t frames = 0;
  for (int rank = 0; rank < s->actors; rank++)
    for (size_t i = 0; i < s->schedules[rank].step_count; i++) {
      uint64_t count = s->schedules[rank].steps[i].count;
      frames += count == 0 ? 1 : (count - 1) / chunk + 1;
    }
  return frames;
}

/* Makes frames longer than the engine's where there would be too many and it helps. */
static void simulation_cut(simulation *s) {
  double chunk = s->cluster->frame_bytes / s->work->element_bytes;
  s->chunk = chunk < (double)s->work->count ? (uint64_t)chunk : s->work->count;
  if (s->chunk == 0) s->chunk = 1;
  uint64_t least = s->work->count == 0 ? 0 : frames_of(s, s->work->count);
  while (frames_of(s, s->chunk) > least + FRAMES_MOST) s->chunk *= 2;
  s->outcome.frame_bytes = (double)s->chunk * s->work->element_bytes;
}

static bool simulation_build(simulation *s) {
  s->schedules = calloc((size_t)s->actors, sizeof *s->schedules);
  uint64_t steps = 0;
  for (int rank = 0; s->schedules != NULL && rank < s->actors; rank++) {
    if (s->work->build(&s->schedules[rank], rank, s->work) != RING_OK) break;
    steps += s->schedules[rank].step_count;
    if (steps > STEPS_MOST) {
      simulation_fail(s, "too many steps without symmetry: "
                         "choose a multiple of --per-host, or a power of two, as --ranks");
      return false;
    }
    if (rank == s->actors - 1) return true;
  }
  simulation_fail(s, "out of memory");
  return false;
}

static bool simulation_allocate(simulation *s) {
  size_t actors = (size_t)s->actors, hosts = (actors - 1) / (size_t)s->cluster->per_host + 1;
  s->out = calloc(2 * hosts + 3 * actors, sizeof *s->out);
  s->lanes = calloc(actors, sizeof *s->lanes);
  if (s->out == NULL || s->lanes == NULL) return false;
  s->in = s->out + hosts;
  s->copy_out = s->in + hosts;
  s->copy_in = s->copy_out + actors;
  s->processor = s->copy_in + actors;
  for (size_t rank = 0; rank < actors; rank++) {
    s->lanes[rank] = calloc(s->schedules[rank].lane_count + 1, sizeof *s->lanes[rank]);
    if (s->lanes[rank] == NULL) return false;
  }
  return true;
}

static void simulation_free(simulation *s) {
  for (int rank = 0; rank < s->actors; rank++) {
    if (s->schedules != NULL) ring_schedule_free(&s->schedules[rank]);
    if (s->lanes != NULL) free(s->lanes[rank]);
  }
  free(s->schedules);
  free(s->lanes);
  free(s->out);
  free(s->heap);
}

/* False when this symmetry does not hold. */
static bool simulate_as(const cluster *cluster, const workload *work, symmetry symmetry,
                        outcome *outcome) {
  simulation s = {.cluster = cluster, .work = work, .symmetry = symmetry};
  s.actors = symmetry == SYMMETRY_NONE ? cluster->ranks : cluster->per_host;
  s.outcome.symmetry = symmetry;
  bool holds = true;
  if (simulation_build(&s)) {
    holds = symmetry == SYMMETRY_NONE || symmetry_holds(&s);
    if (holds && !simulation_allocate(&s)) simulation_fail(&s, "out of memory");
    if (holds && s.outcome.error == NULL) simulation_connect(&s);
    if (holds && s.outcome.error == NULL) simulation_cut(&s);
    if (holds && s.outcome.error == NULL) simulation_run(&s);
  }
  simulation_free(&s);
  *outcome = s.outcome;
  return holds;
}

outcome simulate(const cluster *cluster, const workload *work, bool whole) {
  outcome o;
  int hosts = cluster->ranks / cluster->per_host;
  bool even = !whole && hosts > 1 && cluster->ranks % cluster->per_host == 0;
  bool power = (hosts & (hosts - 1)) == 0;
  if (even && simulate_as(cluster, work, SYMMETRY_ROTATE, &o)) return o;
  if (even && power && simulate_as(cluster, work, SYMMETRY_XOR, &o)) return o;
  simulate_as(cluster, work, SYMMETRY_NONE, &o);
  return o;
}
