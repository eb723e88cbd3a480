/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value.h"
#include "values.h"

enum { CALL_GUARD = 64, CALL_GUARD_BYTE = 0xa5, CALL_UNWRITTEN = 0x5a, CALL_COMPARED = 65536 };

/* ---- Shapes ------------------------------------------------------------------------------- */

/* What `from` has for `to` where counts are uneven: nothing at all for some. */
static size_t call_uneven(const plan_call *plan, int from, int to) {
  uint64_t hash = dice_mix(plan->salt + (uint64_t)(from * PLAN_RANKS + to));
  return hash % 4 == 0 ? 0 : (size_t)(plan->count * (hash >> 8 & 3) / 4 + (hash >> 16 & 1));
}

static size_t call_before(const size_t *parts, int rank) {
  size_t before = 0;
  for (int i = 0; i < rank; i++) before += parts[i];
  return before;
}

static void call_divide(call_live *live) {
  const plan_call *plan = live->plan;
  for (int i = 0; i < live->size; i++) {
    live->parts[i] = live->receives[i] = plan->count;
    if (plan->kind == PLAN_alltoallv) {
      live->parts[i] = call_uneven(plan, live->rank, i);
      live->receives[i] = call_uneven(plan, i, live->rank);
    } else if (plan->kind == PLAN_allgatherv || plan->kind == PLAN_gatherv ||
               plan->kind == PLAN_scatterv) {
      live->parts[i] = call_uneven(plan, i, i);
    }
  }
}

/* Elements of the rank's buffers, and where they lie in each other when in place; whether they
 * may. */
static bool call_shape(const call_live *live, call_pair *pair) {
  const size_t count = live->plan->count, total = call_before(live->parts, live->size);
  const size_t mine = live->parts[live->rank], at = call_before(live->parts, live->rank);
  const bool root = live->rank == live->root;
  switch (live->plan->kind) {
  case PLAN_allreduce:
  case PLAN_allreduce_group:
    *pair = (call_pair){.input = count, .output = count};
    return true;
  case PLAN_reduce:
    *pair = (call_pair){.input = count, .output = root ? count : 0};
    return root;
  case PLAN_reduce_scatter:
    *pair = (call_pair){.input = total, .output = mine, .output_at = at};
    return true;
  case PLAN_broadcast:
    *pair = (call_pair){.input = root ? count : 0, .output = count};
    return root;
  case PLAN_allgather:
  case PLAN_allgatherv:
    *pair = (call_pair){.input = mine, .output = total, .input_at = at};
    return true;
  case PLAN_gather:
  case PLAN_gatherv:
    *pair = (call_pair){.input = mine, .output = root ? total : 0, .input_at = at};
    return root;
  case PLAN_scatter:
  case PLAN_scatterv:
    *pair = (call_pair){.input = root ? total : 0, .output = mine, .output_at = at};
    return root;
  case PLAN_alltoall:
  case PLAN_alltoallv:
    *pair = (call_pair){.input = total, .output = call_before(live->receives, live->size)};
    return false;
  case PLAN_message:
    *pair = (call_pair){.input = root ? count : 0, .output = root ? 0 : count};
    return false;
  default:
    *pair = (call_pair){0};
    return false;
  }
}

/* ---- Buffers ------------------------------------------------------------------------------ */

static bool call_alloc(const call_live *live, call_memory *memory, size_t size, dice *from) {
  size_t shift = dice_below(from, 8) * ring_dtype_size(live->plan->dtype);
  void *block = NULL;
  *memory = (call_memory){.size = size, .arena = dice_chance(from, 0.5)};
  if (size == 0 && dice_chance(from, 0.5)) return true; /* nothing may be NULL */
  size_t room = shift + size + CALL_GUARD;
  if (memory->arena && ring_alloc(live->comm, room, &block) != RING_OK) return false;
  memory->block = memory->arena ? block : malloc(room);
  if (memory->block == NULL) return false;
  memory->bytes = memory->block + shift;
  memset(memory->bytes, CALL_UNWRITTEN, size);
  memset(memory->bytes + size, CALL_GUARD_BYTE, CALL_GUARD);
  return true;
}

static uint8_t *call_at(const call_live *live, const call_memory *memory, size_t element) {
  size_t width = ring_dtype_size(live->plan->dtype);
  return memory->bytes == NULL ? NULL : memory->bytes + element * width;
}

static uint8_t *call_input(const call_live *live, const call_pair *pair) {
  return call_at(live, &pair->memory[0], pair->in_place ? pair->input_at : 0);
}

static uint8_t *call_output(const call_live *live, const call_pair *pair) {
  const call_memory *memory = &pair->memory[pair->in_place ? 0 : 1];
  return call_at(live, memory, pair->in_place ? pair->output_at : 0);
}

static bool call_make_pair(call_live *live, call_pair *pair, int number, dice *from) {
  size_t width = ring_dtype_size(live->plan->dtype);
  bool overlays = call_shape(live, pair);
  if (live->plan->kind == PLAN_allreduce_group && number > 0)
    pair->input = pair->output = call_uneven(live->plan, number, number);
  pair->first = (uint64_t)number << 32;
  pair->in_place = overlays && dice_chance(from, 0.5);
  size_t most = pair->input > pair->output ? pair->input : pair->output;
  size_t input = pair->in_place ? most : pair->input, output = pair->in_place ? 0 : pair->output;
  if (!call_alloc(live, &pair->memory[0], input * width, from)) return false;
  if (!call_alloc(live, &pair->memory[1], output * width, from)) return false;
  if (pair->input > 0)
    value_fill(live->plan, live->size, live->rank, pair->first, call_input(live, pair),
               pair->input);
  return true;
}

bool call_concerns(const plan_call *plan, int rank, int size) {
  int root = plan->root % size, peer = plan->peer % size;
  return plan->kind != PLAN_message || (root != peer && (rank == root || rank == peer));
}

bool call_prepare(call_live *live, const plan_call *plan, ring_comm *comm, dice *from) {
  int size = ring_comm_size(comm);
  *live = (call_live){.plan = plan,
                      .comm = comm,
                      .rank = ring_comm_rank(comm),
                      .size = size,
                      .root = plan->root % size,
                      .peer = plan->peer % size};
  int pairs = plan->kind == PLAN_allreduce_group ? plan->buffers : 1;
  call_divide(live);
  for (int i = 0; i < pairs; i++) {
    live->pair_count++;
    if (!call_make_pair(live, &live->pairs[i], i, from)) return false;
  }
  return true;
}

void call_end(call_live *live) {
  for (int i = 0; i < 2 * live->pair_count; i++) {
    call_memory *memory = &live->pairs[i / 2].memory[i % 2];
    if (memory->arena)
      ring_free(memory->block);
    else
      free(memory->block);
  }
  live->pair_count = 0;
}

/* ---- Calling ------------------------------------------------------------------------------ */

#define CALL_EITHER(name, ...)                                                                     \
  return starts ? ring_##name##_start(live->comm, __VA_ARGS__, &live->request)                     \
                : ring_##name(live->comm, __VA_ARGS__)

static ring_status call_run_group(call_live *live, bool starts) {
  ring_buffer buffers[PLAN_BUFFERS];
  for (int i = 0; i < live->pair_count; i++) {
    const call_pair *pair = &live->pairs[i];
    buffers[i] = (ring_buffer){call_input(live, pair), call_output(live, pair), pair->input};
  }
  CALL_EITHER(allreduce_group, buffers, (size_t)live->pair_count, live->plan->dtype,
              live->plan->op);
}

static ring_status call_run_message(const call_live *live, const void *input, void *output) {
  size_t count = live->plan->count;
  ring_dtype dtype = live->plan->dtype;
  return live->rank == live->root ? ring_send(live->comm, input, count, dtype, live->peer)
                                  : ring_recv(live->comm, output, count, dtype, live->root);
}

static ring_status call_run_parts(call_live *live, bool starts, void *input, void *output) {
  const size_t *parts = live->parts;
  ring_dtype dtype = live->plan->dtype;
  switch (live->plan->kind) {
  case PLAN_allgatherv:
    CALL_EITHER(allgatherv, input, output, parts, dtype);
  case PLAN_gatherv:
    CALL_EITHER(gatherv, input, output, parts, dtype, live->root);
  case PLAN_scatterv:
    CALL_EITHER(scatterv, input, output, parts, dtype, live->root);
  default:
    CALL_EITHER(alltoallv, input, parts, output, live->receives, dtype);
  }
}

ring_status call_run(call_live *live, bool starts) {
  const plan_call *plan = live->plan;
  void *input = call_input(live, &live->pairs[0]), *output = call_output(live, &live->pairs[0]);
  size_t count = plan->count;
  switch (plan->kind) {
  case PLAN_allreduce:
    CALL_EITHER(allreduce, input, output, count, plan->dtype, plan->op);
  case PLAN_allreduce_group:
    return call_run_group(live, starts);
  case PLAN_reduce:
    CALL_EITHER(reduce, input, output, count, plan->dtype, plan->op, live->root);
  case PLAN_reduce_scatter:
    CALL_EITHER(reduce_scatter, input, output, count, plan->dtype, plan->op);
  case PLAN_broadcast:
    CALL_EITHER(broadcast, input, output, count, plan->dtype, live->root);
  case PLAN_allgather:
    CALL_EITHER(allgather, input, output, count, plan->dtype);
  case PLAN_gather:
    CALL_EITHER(gather, input, output, count, plan->dtype, live->root);
  case PLAN_scatter:
    CALL_EITHER(scatter, input, output, count, plan->dtype, live->root);
  case PLAN_alltoall:
    CALL_EITHER(alltoall, input, output, count, plan->dtype);
  case PLAN_barrier:
    return starts ? ring_barrier_start(live->comm, &live->request) : ring_barrier(live->comm);
  case PLAN_message:
    return call_run_message(live, input, output);
  default:
    return call_run_parts(live, starts, input, output);
  }
}

/* ---- Checking ----------------------------------------------------------------------------- */

static bool call_guards_hold(const call_pair *pair) {
  for (int i = 0; i < 2; i++) {
    const call_memory *memory = &pair->memory[i];
    for (size_t at = 0; memory->bytes != NULL && at < CALL_GUARD; at++)
      if (memory->bytes[memory->size + at] != CALL_GUARD_BYTE) return false;
  }
  return true;
}

/* Elements `at` to `at + count` of the output against those of a rank from `first` on. */
static bool call_check_run(const call_live *live, const call_pair *pair, int rank, uint64_t first,
                           size_t at, size_t count, char *why, size_t room) {
  size_t wrong, width = ring_dtype_size(live->plan->dtype);
  const uint8_t *from = count > 0 ? call_output(live, pair) + at * width : NULL;
  if (value_check(live->plan, live->size, rank, first, from, count, &wrong)) return true;
  snprintf(why, room, "element %zu of %zu of the output is wrong%s", at + wrong, pair->output,
           pair->in_place ? " (in place)" : "");
  return false;
}

/* Where parts of several ranks lie behind each other in the output. */
static bool call_check_parts(const call_live *live, const call_pair *pair, char *why, size_t room) {
  bool exchanged = live->plan->kind == PLAN_alltoall || live->plan->kind == PLAN_alltoallv;
  const size_t *parts = exchanged ? live->receives : live->parts;
  for (int rank = 0; rank < live->size; rank++) {
    uint64_t first = 0;
    for (int to = 0; exchanged && to < live->rank; to++)
      first += live->plan->kind == PLAN_alltoallv ? call_uneven(live->plan, rank, to)
                                                  : live->plan->count;
    if (!call_check_run(live, pair, rank, first, call_before(parts, rank), parts[rank], why, room))
      return false;
  }
  return true;
}

static bool call_check_pair(const call_live *live, const call_pair *pair, char *why, size_t room) {
  size_t own = call_before(live->parts, live->rank);
  if (pair->output == 0) return true;
  switch (live->plan->kind) {
  case PLAN_allreduce:
  case PLAN_allreduce_group:
  case PLAN_reduce:
    return call_check_run(live, pair, VALUE_REDUCED, pair->first, 0, pair->output, why, room);
  case PLAN_reduce_scatter:
    return call_check_run(live, pair, VALUE_REDUCED, own, 0, pair->output, why, room);
  case PLAN_broadcast:
  case PLAN_message:
    return call_check_run(live, pair, live->root, 0, 0, pair->output, why, room);
  case PLAN_scatter:
  case PLAN_scatterv:
    return call_check_run(live, pair, live->root, own, 0, pair->output, why, room);
  default:
    return call_check_parts(live, pair, why, room);
  }
}

static bool call_input_holds(const call_live *live, const call_pair *pair) {
  size_t wrong;
  if (pair->in_place || pair->input == 0 || pair->input > CALL_COMPARED) return true;
  return value_check(live->plan, live->size, live->rank, pair->first, call_input(live, pair),
                     pair->input, &wrong);
}

bool call_check(const call_live *live, char *why, size_t room) {
  for (int i = 0; i < live->pair_count; i++) {
    const call_pair *pair = &live->pairs[i];
    if (!call_check_pair(live, pair, why, room)) return false;
    if (!call_guards_hold(pair)) {
      snprintf(why, room, "it wrote beyond the end of a buffer");
      return false;
    }
    if (!call_input_holds(live, pair)) {
      snprintf(why, room, "it changed its input");
      return false;
    }
  }
  return true;
}

uint64_t call_digest(const call_live *live) {
  uint64_t digest = 0;
  for (int i = 0; i < live->pair_count; i++) {
    const call_pair *pair = &live->pairs[i];
    size_t bytes = pair->output * ring_dtype_size(live->plan->dtype);
    digest = dice_mix(digest + digest_of(call_output(live, pair), bytes));
  }
  return digest;
}

void call_describe(const plan_call *plan, char *text, size_t size) {
  bool rooted = plan->kind == PLAN_message || plan->kind == PLAN_reduce ||
                plan->kind == PLAN_broadcast ||
                (plan->kind >= PLAN_gather && //
                 plan->kind <= PLAN_scatterv);
  int length = snprintf(text, size, "%s%s(count %zu, %s", plan->child ? "the child's " : "",
                        plan_kind_name(plan->kind), plan->count, ring_dtype_name(plan->dtype));
  if (length < (int)size && plan_kind_reduces(plan->kind))
    length += snprintf(text + length, size - (size_t)length, ", %s%s", ring_op_name(plan->op),
                       plan->rough ? " of rough numbers" : "");
  if (length < (int)size && rooted)
    length += snprintf(text + length, size - (size_t)length, ", root %d", plan->root);
  if (length < (int)size) snprintf(text + length, size - (size_t)length, ")");
}
