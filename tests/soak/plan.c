/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <string.h>

/* Purposes of dice; 2 and 3 are the player's, plus 16 for each rank. */
enum { PLAN_PURPOSE_WORLD = 1, PLAN_PURPOSE_LINKS = 4 };
enum { PLAN_BYTES_OF_ROUNDS = 24 << 20, PLAN_ROUND_BYTES_MOST = 6 << 20 };

const char *plan_kind_name(plan_kind kind) {
  static const char *const names[] = {
#define PLAN_KIND_NAME(name, reduces) #name,
      PLAN_KIND_MAP(PLAN_KIND_NAME)
#undef PLAN_KIND_NAME
  };
  return names[kind];
}

bool plan_kind_reduces(plan_kind kind) {
  static const bool reducing[] = {
#define PLAN_KIND_REDUCES(name, reduces) reduces,
      PLAN_KIND_MAP(PLAN_KIND_REDUCES)
#undef PLAN_KIND_REDUCES
  };
  return reducing[kind];
}

const char *plan_fault_name(plan_fault_kind kind) {
  static const char *const names[] = {
#define PLAN_FAULT_NAME(name, family, moment, text) text,
      PLAN_FAULT_MAP(PLAN_FAULT_NAME)
#undef PLAN_FAULT_NAME
  };
  return names[kind];
}

plan_family plan_fault_family(plan_fault_kind kind) {
  static const plan_family families[] = {
#define PLAN_FAULT_FAMILY(name, family, moment, text) PLAN_FAMILY_##family,
      PLAN_FAULT_MAP(PLAN_FAULT_FAMILY)
#undef PLAN_FAULT_FAMILY
  };
  return families[kind];
}

plan_moment plan_fault_moment(plan_fault_kind kind) {
  static const plan_moment moments[] = {
#define PLAN_FAULT_MOMENT(name, family, moment, text) PLAN_MOMENT_##moment,
      PLAN_FAULT_MAP(PLAN_FAULT_MOMENT)
#undef PLAN_FAULT_MOMENT
  };
  return moments[kind];
}

const char *plan_family_name(plan_family family) {
  static const char *const names[] = {"any", "killed", "stopped", "ended", "disagreed"};
  return names[family];
}

/* ---- The ranks ---------------------------------------------------------------------------- */

static void plan_swap(int *a, int *b) {
  int kept = *a;
  *a = *b;
  *b = kept;
}

/* Who plays whom: anybody, but that an elder does not play who dies. */
static void plan_cast(plan_world *world, dice *from) {
  int *worker = world->worker;
  for (int i = 0; i < PLAN_RANKS; i++) worker[i] = i;
  for (int i = PLAN_RANKS - 1; i > 0; i--)
    plan_swap(&worker[i], &worker[dice_below(from, (uint64_t)i + 1)]);
  int *victim = &worker[world->fault.rank];
  bool dies = plan_fault_family(world->fault.kind) == PLAN_FAMILY_KILLED;
  for (int i = 0; *victim < PLAN_ELDERS && dies; i++)
    if (worker[i] >= PLAN_ELDERS) plan_swap(&worker[i], victim);
}

static void plan_place(plan_world *world, const plan_bounds *bounds, dice *from) {
  bool shares = dice_chance(from, 0.6);
  int hosts = dice_chance(from, 0.3) ? 2 + (int)dice_below(from, 2) : 1;
  world->shares = bounds->link == PLAN_LINK_ANY ? shares : bounds->link == PLAN_LINK_SHM;
  world->splits = dice_chance(from, 0.5);
  for (int i = 0; i < PLAN_RANKS; i++) {
    world->host[i] = (int)dice_below(from, (uint64_t)hosts);
    world->color[i] = (int)dice_below(from, PLAN_COLORS);
    world->key[i] = (int)dice_below(from, 4);
  }
}

/* With dice of its own, so that the rest of a world does not depend on it. */
static void plan_connect(plan_world *world, const plan_bounds *bounds) {
  dice from = dice_of(bounds->seed, PLAN_PURPOSE_LINKS, world->number);
  world->connections = 1 + (int)dice_below(&from, PLAN_LANES);
  bool encrypts = dice_chance(&from, 0.4), may = bounds->link != PLAN_LINK_TCP;
  world->encrypts = bounds->link == PLAN_LINK_TLS || (may && encrypts);
  world->exchanges = dice_chance(&from, 0.4);
}

int plan_child_rank(const plan_world *world, int rank) {
  int before = 0;
  for (int i = 0; i < world->size; i++) {
    bool lower =
        world->key[i] < world->key[rank] || (world->key[i] == world->key[rank] && i < rank);
    before += world->color[i] == world->color[rank] && lower;
  }
  return before;
}

int plan_child_size(const plan_world *world, int rank) {
  int size = 0;
  for (int i = 0; i < world->size; i++) size += world->color[i] == world->color[rank];
  return size;
}

/* ---- The algorithms ----------------------------------------------------------------------- */

static void plan_force(plan_world *world, dice *from) {
  static const char *const rules[] = {
      "allreduce:direct",       "allreduce:doubling",    "allreduce:halving",   "allreduce:ring",
      "allreduce:hierarchical", "reduce:tree",           "reduce:chain",        "broadcast:tree",
      "broadcast:chain",        "reduce_scatter:direct", "reduce_scatter:ring", "allgather:bruck",
      "allgather:ring",         "allgatherv:bruck",      "allgatherv:ring",     "gather:tree",
      "gather:direct",          "gatherv:tree",          "gatherv:direct",      "scatter:tree",
      "scatter:direct",         "scatterv:tree",         "scatterv:direct",     "alltoall:bruck",
      "alltoall:pairwise"};
  static const char *const ranges[] = {"", "", ":-4KiB", ":4KiB-", ":1KiB-1MiB"};
  world->algorithms[0] = '\0';
  int count = dice_chance(from, 0.5) ? 1 + (int)dice_below(from, 8) : 0;
  for (int i = 0; i < count; i++) {
    size_t length = strlen(world->algorithms);
    snprintf(world->algorithms + length, sizeof world->algorithms - length, "%s%s%s",
             i == 0 ? "" : ",", rules[dice_below(from, sizeof rules / sizeof *rules)],
             ranges[dice_below(from, sizeof ranges / sizeof *ranges)]);
  }
}

/* ---- The calls ---------------------------------------------------------------------------- */

static size_t plan_count(dice *from) {
  static const size_t reaches[] = {1, 64, 64, 4096, 4096, 4096, 70001, 70001, 1500000};
  if (dice_chance(from, 0.05)) return 0;
  return 1 + dice_below(from, reaches[dice_below(from, sizeof reaches / sizeof *reaches)]);
}

/* Elements that all ranks together hold of one call, about. */
static size_t plan_load(const plan_call *call, int size) {
  switch (call->kind) {
  case PLAN_barrier:
    return 0;
  case PLAN_message:
    return call->count;
  case PLAN_alltoall:
  case PLAN_alltoallv:
  case PLAN_allgather:
  case PLAN_allgatherv:
  case PLAN_reduce_scatter:
    return call->count * (size_t)(size * size);
  case PLAN_allreduce_group:
    return call->count * (size_t)(size * call->buffers);
  default:
    return call->count * (size_t)size;
  }
}

static plan_call plan_throw_call(const plan_world *world, dice *from) {
  plan_call call = {.kind = (plan_kind)dice_below(from, PLAN_KINDS)};
  call.child = world->splits && dice_chance(from, 0.4);
  call.dtype = (ring_dtype)dice_below(from, RING_FLOAT64 + 1);
  bool whole = call.dtype <= RING_INT64;
  call.op = (ring_op)dice_below(from, whole ? RING_LOR + 1 : RING_AVG + 1);
  call.rough = !whole && (call.op == RING_SUM || call.op == RING_AVG) && dice_chance(from, 0.5);
  call.count = plan_count(from);
  call.salt = dice_next(from);
  call.root = (int)dice_below(from, PLAN_RANKS);
  call.peer = (int)dice_below(from, PLAN_RANKS);
  call.buffers = 1 + (int)dice_below(from, PLAN_BUFFERS);
  return call;
}

static void plan_throw_calls(plan_world *world, dice *from) {
  size_t bytes = 0;
  world->rounds = 4 + (int)dice_below(from, PLAN_ROUNDS - 3);
  for (int round = 0; round < world->rounds; round++) {
    plan_call *call = &world->calls[round];
    *call = plan_throw_call(world, from);
    size_t width = ring_dtype_size(call->dtype);
    size_t most = bytes < PLAN_BYTES_OF_ROUNDS ? PLAN_ROUND_BYTES_MOST : 4096;
    while (plan_load(call, world->size) * width > most) call->count /= 2;
    bytes += plan_load(call, world->size) * width;
  }
}

/* ---- The fault ---------------------------------------------------------------------------- */

static plan_fault_kind plan_throw_fault(plan_family only, dice *from) {
  for (;;) {
    plan_fault_kind kind = (plan_fault_kind)(1 + dice_below(from, PLAN_FAULTS - 1));
    if (only == PLAN_FAMILY_NONE || plan_fault_family(kind) == only) return kind;
  }
}

/* A message concerns two ranks only, so it is not where all of them could wait report. */
static void plan_strike(plan_world *world, plan_family only, dice *from) {
  plan_fault *fault = &world->fault;
  fault->kind = plan_throw_fault(only, from);
  if (plan_fault_family(fault->kind) == PLAN_FAMILY_STOPPED)
    world->exchanges = false; /* which has no deadline */
  world->splits = world->splits || plan_fault_moment(fault->kind) == PLAN_MOMENT_SPLITTING;
  fault->rank = (int)dice_below(from, (uint64_t)world->size);
  fault->round = (int)dice_below(from, (uint64_t)world->rounds);
  fault->delay_us = (int)dice_below(from, 1u << dice_below(from, 16));
  if (world->calls[fault->round].kind == PLAN_message)
    world->calls[fault->round].kind = PLAN_barrier;
}

void plan_make(plan_world *world, const plan_bounds *bounds, uint64_t number) {
  dice from = dice_of(bounds->seed, PLAN_PURPOSE_WORLD, number);
  *world = (plan_world){.seed = bounds->seed, .number = number};
  uint64_t sizes = (uint64_t)bounds->ranks_to - (uint64_t)bounds->ranks_from + 1;
  world->size = bounds->ranks_from + (int)dice_below(&from, sizes);
  world->depth = (int)dice_below(&from, 9);
  plan_place(world, bounds, &from);
  plan_connect(world, bounds);
  plan_force(world, &from);
  plan_throw_calls(world, &from);
  if (dice_chance(&from, bounds->faults)) plan_strike(world, bounds->only, &from);
  world->twice = world->fault.kind == PLAN_FAULT_NONE && dice_chance(&from, 0.2);
  plan_cast(world, &from);
}

const char *plan_link_name(const plan_world *world) {
  static const char *const names[2][2][2] = {
      {{"tcp", "tcp, connections"}, {"tls", "tls, connections"}},
      {{"shm and tcp", "shm and tcp, connections"}, {"shm and tls", "shm and tls, connections"}}};
  bool hosts = false;
  for (int i = 1; i < world->size; i++) hosts = hosts || world->host[i] != world->host[0];
  if (world->shares && !hosts) return "shm";
  return names[world->shares][world->encrypts][world->connections > 1];
}

void plan_describe(const plan_world *world, char *text, size_t size) {
  char fault[96] = "nothing goes wrong", hosts[PLAN_RANKS + 1] = "";
  const plan_fault *planned = &world->fault;
  for (int i = 0; i < world->size; i++) hosts[i] = (char)('0' + world->host[i]);
  if (planned->kind != PLAN_FAULT_NONE)
    snprintf(fault, sizeof fault, "rank %d: %s in round %d, %d us", planned->rank,
             plan_fault_name(planned->kind), planned->round, planned->delay_us);
  snprintf(text, size,
           "world %llu: %d ranks on hosts %s, %s, connections %d%s%s%s, %d rounds, algorithms "
           "\"%s\", %s",
           (unsigned long long)world->number, world->size, hosts, world->shares ? "shm" : "tcp",
           world->connections, world->encrypts ? ", encrypted" : "",
           world->exchanges ? ", by an exchange" : "", world->splits ? ", split" : "",
           world->rounds, world->algorithms, fault);
}
