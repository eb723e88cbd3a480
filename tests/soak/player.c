/* SPDX-License-Identifier: Apache-2.0 */
#include "player.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "exchange.h"
#include "fault.h"

enum { PLAYER_PURPOSE = 2, PLAYER_ENDING_PURPOSE = 3, PLAYER_DEPTH = 8, PLAYER_TEXT = 1600 };

/* One of the two communicators. */
typedef struct player_comm {
  ring_comm *comm; /* NULL: there is none */
  bool lost;       /* it has failed, or the victim has left it */
  bool doomed;
  int victim;  /* the rank of the victim in it, or -1 */
  int barrier; /* its column of state.arrived */
} player_comm;

typedef struct player_request {
  call_live live;
  int round;
} player_request;

typedef struct player {
  const player_setting *setting;
  const plan_world *world;
  dice dice;
  int rank, round;
  player_comm comms[2];
  player_request requests[PLAYER_DEPTH + 1]; /* and the call that waits */
  int outstanding;
  plan_call odd; /* what only the victim calls */
  void *kept;    /* memory of the arena that outlives the communicator */
  bool failed;
} player;

__attribute__((format(printf, 2, 3))) static void player_blame(player *of, const char *format,
                                                               ...) {
  char text[PLAYER_TEXT], world[640], line[sizeof text + sizeof world + 64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  plan_describe(of->world, world, sizeof world);
  snprintf(line, sizeof line, "soak: rank %d, round %d: %s\n  in %s\n", of->rank, of->round, text,
           world);
  fputs(line, stderr);
  of->failed = true;
}

static bool player_is_victim(const player *of) {
  return of->world->fault.kind != PLAN_FAULT_NONE && of->world->fault.rank == of->rank;
}

/* The victim writes down what it does. */
static void player_does(const player *of, state_doing doing, int calling) {
  if (!player_is_victim(of) || atomic_load(&of->setting->state->over)) return;
  atomic_store(&of->setting->state->calling, calling);
  atomic_store(&of->setting->state->doing, doing);
}

static void player_does_nothing(const player *of) {
  player_does(of, of->outstanding > 0 ? STATE_REQUESTING : STATE_BETWEEN, 0);
}

/* From this moment on the fault may come. */
static void player_expose(const player *of, plan_moment moment) {
  const plan_fault *fault = &of->world->fault;
  if (player_is_victim(of) && plan_fault_moment(fault->kind) == moment)
    fault_strike_later(fault, of->setting->state);
}

/* ---- Failing ------------------------------------------------------------------------------ */

static fault_case player_case(const player *of, fault_phase phase, const player_comm *comm,
                              uint64_t begun) {
  return (fault_case){.world = of->world,
                      .state = of->setting->state,
                      .phase = phase,
                      .doomed = comm->doomed,
                      .victim = phase == FAULT_SPLITTING ? of->comms[0].victim : comm->victim,
                      .own = player_is_victim(of),
                      .begun = begun,
                      .patience = of->setting->patience};
}

/* A call on a communicator has failed: as it must, or not. */
static void player_judge(player *of, player_comm *comm, fault_phase phase, const ring_error *error,
                         uint64_t begun, const char *call) {
  state_worker *worker = &of->setting->state->workers[of->world->worker[of->rank]];
  fault_case judged = player_case(of, phase, comm, begun);
  char why[PLAYER_TEXT - 256];
  fault_finding finding;
  bool first = !comm->lost;
  comm->lost = true;
  if (!fault_judge(&judged, error, &finding, why, sizeof why)) player_blame(of, "%s %s", call, why);
  if (of->setting->prints && first)
    printf("rank %d, %s after %.3f s: %s: %s\n", of->rank, call, (double)finding.ns * 1e-9,
           ring_status_name(error->status), error->message);
  if (!first) return;
  of->setting->state->outcomes[of->rank][comm == &of->comms[1]] =
      (state_outcome){error->status, finding.named, finding.ns, finding.late_ns};
  worker->failures++;
  worker->timeouts += finding.by_timeout;
  if (!finding.by_timeout && !judged.own && finding.ns > worker->worst_ns)
    worker->worst_ns = finding.ns;
}

static void player_judge_call(player *of, const call_live *live, const ring_error *error,
                              uint64_t begun) {
  char call[160];
  call_describe(live->plan, call, sizeof call);
  player_judge(of, &of->comms[live->plan->child], FAULT_CALLING, error, begun, call);
}

/* ---- Calls -------------------------------------------------------------------------------- */

static int player_arrivals(const player *of, const call_live *live, int round, int more) {
  const player_comm *comm = &of->comms[live->plan->child];
  return atomic_fetch_add(&of->setting->state->arrived[round][comm->barrier], more);
}

/* A rank that leaves out a barrier before another one is in the one when the others are in the
 * other, and nobody can detect it. */
static bool player_barrier_holds(const player *of, const call_live *live, int round) {
  bool struck = atomic_load(&of->setting->state->struck) != 0;
  if (live->plan->kind != PLAN_barrier || (struck && of->comms[live->plan->child].doomed))
    return true;
  return player_arrivals(of, live, round, 0) == live->size;
}

static void player_check(player *of, const call_live *live, int round) {
  char why[160], call[160];
  call_describe(live->plan, call, sizeof call);
  if (!player_barrier_holds(of, live, round))
    player_blame(of, "%s of round %d returned before all ranks had called it", call, round);
  if (!call_check(live, why, sizeof why)) player_blame(of, "%s of round %d: %s", call, round, why);
  of->setting->state->digests[round][of->rank] = call_digest(live);
}

/* Waits, or tests until it is done. */
static ring_status player_await(player *of, ring_request *request) {
  int done = 0;
  ring_status status = RING_OK;
  if (dice_chance(&of->dice, 0.7)) return ring_request_wait(request);
  while (!done) {
    status = ring_request_test(request, &done);
    if (!done) sched_yield();
  }
  return status;
}

/* Any of those that are outstanding. */
static void player_finish_one(player *of) {
  int chosen = (int)dice_below(&of->dice, (uint64_t)of->outstanding);
  player_request *request = &of->requests[chosen];
  uint64_t begun = state_now();
  player_does(of, STATE_CALLING, request->live.plan->kind);
  if (player_await(of, request->live.request) == RING_OK)
    player_check(of, &request->live, request->round);
  else
    player_judge_call(of, &request->live, ring_request_error(request->live.request), begun);
  ring_request_free(request->live.request);
  call_end(&request->live);
  *request = of->requests[--of->outstanding];
  player_does_nothing(of);
}

static void player_finish_all(player *of) {
  while (of->outstanding > 0) player_finish_one(of);
}

static void player_make(player *of, const plan_call *plan) {
  player_comm *comm = &of->comms[plan->child];
  player_request *request = &of->requests[of->outstanding];
  call_live *live = &request->live;
  state_worker *worker = &of->setting->state->workers[of->world->worker[of->rank]];
  bool may_start = plan->kind != PLAN_message && of->outstanding < of->world->depth;
  bool starts = may_start && dice_chance(&of->dice, 0.6);
  if (!call_prepare(live, plan, comm->comm, &of->dice)) {
    player_blame(of, "out of memory");
    call_end(live);
    return;
  }
  request->round = of->round;
  player_arrivals(of, live, of->round, 1);
  worker->calls++;
  for (int i = 0; i < live->pair_count; i++)
    worker->bytes += (live->pairs[i].input + live->pairs[i].output) * ring_dtype_size(plan->dtype);
  uint64_t begun = state_now();
  if (!starts) player_does(of, STATE_CALLING, plan->kind);
  ring_status status = call_run(live, starts);
  of->outstanding += status == RING_OK && starts;
  player_does_nothing(of);
  if (status == RING_OK && starts) return;
  if (status == RING_OK)
    player_check(of, live, of->round);
  else
    player_judge_call(of, live, ring_comm_error(comm->comm), begun);
  call_end(live);
}

/* Calls that have to be refused, or that change nothing. */
static void player_pester(player *of, const player_comm *comm) {
  ring_explanation plan;
  ring_counters counters;
  if (ring_allreduce(comm->comm, NULL, NULL, 3, RING_FLOAT32, RING_SUM) != RING_INVALID)
    player_blame(of, "a call without buffers was not refused");
  if (ring_comm_explain(comm->comm, "allreduce", 1000, RING_FLOAT32, 0, &plan) != RING_OK)
    player_blame(of, "explain: %s", ring_comm_error(comm->comm)->message);
  if (ring_comm_counters(comm->comm, -1, &counters) != RING_OK) player_blame(of, "counters failed");
}

/* ---- The fault ---------------------------------------------------------------------------- */

/* The victim calls what nobody else does. */
static void player_differ(player *of, const plan_call *planned) {
  of->odd = *planned;
  of->odd.kind = planned->kind == PLAN_barrier ? PLAN_allreduce : PLAN_barrier;
  fault_mark(of->setting->state, 0);
  player_make(of, &of->odd);
}

static void player_leave(player *of, player_comm *comm) {
  uint64_t begun = state_now();
  fault_mark(of->setting->state, 0);
  if (ring_comm_close(comm->comm) != RING_OK)
    player_judge(of, comm, FAULT_CALLING, ring_comm_error(comm->comm), begun, "closing early");
  else if (comm->doomed)
    player_blame(of, "closing early succeeded");
  comm->lost = true;
}

static void player_abort(player *of, player_comm *comm, bool drops) {
  fault_mark(of->setting->state, 0);
  if (drops) ring_comm_free(comm->comm);
  if (drops) comm->comm = NULL;
  if (!drops) ring_comm_abort(comm->comm, "the soak wants it");
  comm->lost = true;
}

/* What the victim does instead of its call. */
static void player_strike(player *of, const plan_call *call) {
  const plan_fault *fault = &of->world->fault;
  player_comm *comm = &of->comms[call->child];
  switch (fault->kind) {
  case PLAN_FAULT_DIES:
    fault_die(of->setting->state);
    return;
  case PLAN_FAULT_ABORTS:
  case PLAN_FAULT_DROPS:
    player_abort(of, comm, fault->kind == PLAN_FAULT_DROPS);
    return;
  case PLAN_FAULT_DIFFERS:
    player_differ(of, call);
    return;
  case PLAN_FAULT_SKIPS:
    fault_mark(of->setting->state, 0);
    return;
  case PLAN_FAULT_LEAVES:
    player_leave(of, comm);
    return;
  default:
    player_make(of, call);
  }
}

/* ---- Rounds ------------------------------------------------------------------------------- */

static void player_round(player *of) {
  const plan_call *call = &of->world->calls[of->round];
  const plan_fault *fault = &of->world->fault;
  const player_comm *comm = &of->comms[call->child];
  bool strikes = player_is_victim(of) && fault->round == of->round;
  if (strikes) player_expose(of, PLAN_MOMENT_ROUND);
  if (comm->comm == NULL || comm->lost) return;
  bool sound = !comm->doomed && !fault_drags(of->world);
  if (sound && dice_chance(&of->dice, 0.03)) player_pester(of, comm);
  if (strikes)
    player_strike(of, call);
  else if (call_concerns(call, ring_comm_rank(comm->comm), ring_comm_size(comm->comm)))
    player_make(of, call);
  while (of->outstanding > 0 && dice_chance(&of->dice, 0.4)) player_finish_one(of);
}

/* ---- Opening and ending ------------------------------------------------------------------- */

static ring_options player_options(const player *of, char hosts[][24], const char **addresses) {
  ring_options options = RING_OPTIONS_INIT;
  for (int i = 0; i < of->world->size; i++) {
    snprintf(hosts[i], 24, "127.0.0.%d", 1 + of->world->host[i]);
    addresses[i] = hosts[i];
  }
  options.rank = of->rank;
  options.size = options.address_count = of->world->size;
  options.addresses = addresses;
  options.token = of->setting->token;
  options.token_length = strlen(options.token);
  options.timeout = fault_open_timeout(of->world);
  options.call_timeout = fault_call_timeout(of->world);
  options.shared_memory = of->world->shares ? RING_DEFAULT : RING_OFF;
  options.algorithms = of->world->algorithms;
  options.connections = of->world->connections;
  options.encryption = of->world->encrypts ? RING_ON : RING_OFF;
  options.exchange = of->world->exchanges ? exchange_texts : NULL;
  options.exchange_arg = (void *)(uintptr_t)of->setting;
  return options;
}

static void player_open(player *of) {
  char hosts[PLAN_RANKS][24];
  const char *addresses[PLAN_RANKS];
  player_comm *comm = &of->comms[0];
  int size = of->world->size;
  bool fails = of->world->fault.kind != PLAN_FAULT_NONE;
  ring_options options = player_options(of, hosts, addresses);
  ring_error error;
  comm->victim = fails ? of->world->fault.rank : -1;
  comm->doomed = fault_dooms(of->world, false, comm->victim, size);
  player_expose(of, PLAN_MOMENT_OPENING);
  uint64_t begun = state_now();
  player_does(of, STATE_OPENING, 0);
  if (ring_comm_open(&options, &comm->comm, &error) != RING_OK)
    player_judge(of, comm, FAULT_OPENING, &error, begun, "open");
  player_does(of, STATE_OPENED, 0);
}

/* A rank that is slow to open the child may get the victim's fault on it already there; then the
 * parent is as good as ever. Errors of split have the numbers of the parent. */
static void player_judge_split(player *of, uint64_t begun) {
  player_comm *parent = &of->comms[0], *child = &of->comms[1];
  const ring_error *error = ring_comm_error(parent->comm);
  bool only_child = child->doomed && !parent->doomed;
  if (only_child && !ring_comm_usable(parent->comm))
    player_blame(of, "split: a fault on the child broke its parent");
  player_judge(of, only_child ? child : parent, FAULT_SPLITTING, error, begun, "split");
}

/* The child exists where the split succeeded, and a fault may keep it from that. */
static void player_split(player *of) {
  const plan_world *world = of->world;
  player_comm *parent = &of->comms[0], *child = &of->comms[1];
  int color = world->color[of->rank], fault = world->fault.rank;
  bool fails = world->fault.kind != PLAN_FAULT_NONE && world->color[fault] == color;
  child->victim = fails ? plan_child_rank(world, fault) : -1;
  child->doomed = fault_dooms(world, true, child->victim, plan_child_size(world, of->rank));
  child->barrier = 1 + color;
  player_expose(of, PLAN_MOMENT_SPLITTING);
  if (!world->splits || parent->lost) return;
  uint64_t begun = state_now();
  player_does(of, STATE_SPLITTING, 0);
  ring_status status = ring_comm_split(parent->comm, color, world->key[of->rank], &child->comm);
  player_does(of, STATE_BETWEEN, 0);
  if (status != RING_OK) {
    player_judge_split(of, begun);
    return;
  }
  if (ring_comm_rank(child->comm) != plan_child_rank(world, of->rank) ||
      ring_comm_size(child->comm) != plan_child_size(world, of->rank))
    player_blame(of, "split: rank %d of %d", ring_comm_rank(child->comm),
                 ring_comm_size(child->comm));
}

/* What comes at any moment may come when the others have finished. */
static void player_close(player *of, player_comm *comm) {
  bool late = plan_fault_moment(of->world->fault.kind) != PLAN_MOMENT_NONE;
  if (comm->comm == NULL || comm->lost) return;
  uint64_t begun = state_now();
  if (ring_comm_close(comm->comm) != RING_OK)
    player_judge(of, comm, FAULT_CALLING, ring_comm_error(comm->comm), begun, "close");
  else if (comm->doomed && !late)
    player_blame(of, "close succeeded in spite of the fault");
}

/* All ranks close in the same order. */
static void player_end(player *of) {
  dice shared = dice_of(of->world->seed, PLAYER_ENDING_PURPOSE, of->world->number);
  int first = (int)dice_below(&shared, 2);
  if (dice_chance(&shared, 0.5)) player_finish_all(of); /* else close waits for them */
  player_expose(of, PLAN_MOMENT_CLOSING);
  player_does(of, STATE_CLOSING, 0);
  player_close(of, &of->comms[first]);
  player_close(of, &of->comms[!first]);
  player_finish_all(of);
  player_does(of, STATE_CLOSED, 0);
  ring_comm_free(of->comms[!first].comm);
  ring_comm_free(of->comms[first].comm);
  ring_free(of->kept);
}

bool player_play(const player_setting *setting) {
  player of = {.setting = setting,
               .world = setting->world,
               .dice = dice_of(setting->world->seed, PLAYER_PURPOSE + (uint64_t)setting->rank * 16,
                               setting->world->number),
               .rank = setting->rank,
               .round = -1};
  player_open(&of);
  if (of.comms[0].comm != NULL && ring_alloc(of.comms[0].comm, 4096, &of.kept) != RING_OK)
    player_blame(&of, "ring_alloc failed");
  player_split(&of);
  for (of.round = 0; of.round < of.world->rounds && !of.failed; of.round++) player_round(&of);
  if (of.failed) return false; /* the others may be waiting for what does not come any more */
  player_end(&of);
  if (player_is_victim(&of) && plan_fault_moment(of.world->fault.kind) != PLAN_MOMENT_NONE)
    fault_await(&of.world->fault);
  return !of.failed;
}
