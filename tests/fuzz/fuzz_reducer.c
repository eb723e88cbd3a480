/* SPDX-License-Identifier: Apache-2.0
 *
 * Cycles of a reducer among hostile ranks. The input is what this rank submits, whether it joins, and the other ranks'
 * votes, states, announcements and numbers of rows. Whatever they are, no operation runs that this rank has not
 * submitted unless it has joined, memory that is not its own is left alone, and the communicator ends with an error.
 */
#include <pthread.h>

#include "base/dtype.h"
#include "forgeries.h"
#include "reducer/execution.h"
#include "reducer/fusion_plan.h"
#include "reducer/stall.h"

enum { SIZE = 3, ROWS = 6, CYCLES = 4, NAMES = 4, ZEROS_MOST = 1 << 16 };

typedef struct target {
  pthread_mutex_t mutex;
  ring_negotiation negotiation;
  ring_execution execution;
  ring_stall stall;
  ring_submission *mine[NAMES];
  int64_t data[NAMES][ROWS];
  int64_t result[NAMES][ROWS];
} target;

/* Submits under one of the names, unless it is in flight. */
static void submit(target *to, unsigned which) {
  static const char *const names[NAMES] = {"a", "b", "loss", "layer.0"};
  static const int64_t shape[2] = {ROWS / 2, 2};
  static const int64_t splits[SIZE] = {1, 0, 2};
  static const ring_dtype dtypes[2] = {RING_INT64, RING_FLOAT64};
  unsigned at = which % NAMES;
  ring_buffer buffers[2] = {{to->data[at], to->result[at], 2},
                            {to->data[at] + 2, to->result[at] + 2, 4}};
  ring_operation operation = RING_OPERATION_INIT;
  ring_error error;
  if (to->mine[at] != NULL) return;
  operation.name = names[at];
  operation.kind = (ring_operation_kind)(which / NAMES % 7);
  operation.dtype = RING_INT64;
  operation.root = (int)(which / 32 % SIZE);
  operation.input = to->data[at];
  operation.output = to->result[at];
  operation.shape = shape;
  operation.dimensions = 2;
  operation.buffers = buffers;
  operation.buffer_count = 2;
  operation.splits = operation.kind == RING_OPERATION_ALLTOALL ? splits : NULL;
  operation.dtypes = which >= 128 ? dtypes : NULL;
  operation.note = which >= 192 ? "a note" : NULL;
  FUZZ_PROMISE(ring_tensor_check(&operation, to->negotiation.rank, SIZE, &error) == RING_OK);
  to->mine[at] = ring_submission_make(NULL, &operation, SIZE);
  ring_entry *entry = ring_cache_get(&to->negotiation.cache, names[at], strlen(names[at]));
  FUZZ_PROMISE(to->mine[at] != NULL && entry != NULL);
  if (entry->state == ENTRY_FAILED)
    ring_submission_complete(to->mine[at], NULL);
  else
    FUZZ_PROMISE(ring_cache_submit(&to->negotiation.cache, entry, to->mine[at]));
}

static void drop_done(target *to) {
  for (int at = 0; at < NAMES; at++) {
    if (to->mine[at] == NULL || !submission_is_done(to->mine[at])) continue;
    ring_submission_clear(to->mine[at]);
    ring_submission_destroy(to->mine[at]);
    to->mine[at] = NULL;
  }
}

/* Zeros of a rank that has joined are as large as what the others have: small here. */
static bool is_large(const ring_ready *ready) {
  uint64_t elements =
      ring_tensor_elements(&ready->tensor, ready->tensor.kind == RING_OPERATION_ALLGATHER ||
                                               ready->tensor.kind == RING_OPERATION_ALLTOALL);
  return ready->submission == NULL && elements * ring_dtype_size(ready->tensor.dtype) > ZEROS_MOST;
}

static ring_status run_ready(target *to) {
  ring_negotiation *negotiation = &to->negotiation;
  ring_fusion_plan plan = {
      .ready = negotiation->ready, .count = negotiation->ready_count, .threshold = 1 << 20};
  ring_ready *items[64];
  ring_status status = RING_OK;
  for (size_t i = 0; i < plan.count; i++) {
    bool joined = negotiation->members[negotiation->rank] == MEMBER_JOINED;
    FUZZ_PROMISE(plan.ready[i].submission != NULL || joined);
    bool on_gpu = plan.ready[i].tensor.memory == RING_MEMORY_GPU; /* there is none here */
    if (is_large(&plan.ready[i]) || on_gpu || plan.count > 64) return RING_NO_MEMORY;
  }
  for (size_t count; status == RING_OK && (count = ring_fusion_plan_next(&plan, items)) > 0;) {
    ring_error refusal;
    status = ring_execution_run(&to->execution, items, count, &refusal);
    for (size_t i = 0; i < count && status == RING_OK; i++) {
      if (items[i]->submission == NULL) continue;
      ring_cache_withdraw(&negotiation->cache, items[i]->entry);
      ring_submission_complete(items[i]->submission, NULL);
    }
  }
  return status;
}

static ring_status run_cycle(target *to, input *from) {
  for (unsigned i = input_byte(from) % 3; i > 0; i--) submit(to, input_byte(from));
  unsigned state = input_byte(from);
  bool in_flight = false;
  for (int at = 0; at < NAMES; at++) in_flight = in_flight || to->mine[at] != NULL;
  if (state % 8 == 1 && !in_flight) to->negotiation.mine = MEMBER_JOINED;
  uint64_t flags = state % 16 == 2 ? NEGOTIATION_STALL : 0;
  ring_status status = ring_negotiation_run(&to->negotiation, &flags);
  if (status == RING_OK) status = run_ready(to);
  if (status == RING_OK && (flags & NEGOTIATION_STALL) != 0)
    status = ring_stall_run(&to->stall, &to->negotiation);
  drop_done(to);
  return status;
}

static void finish(target *to) {
  for (int at = 0; at < NAMES; at++)
    if (to->mine[at] != NULL && !submission_is_done(to->mine[at]))
      ring_submission_complete(to->mine[at], NULL);
  drop_done(to);
  ring_execution_destroy(&to->execution);
  ring_negotiation_destroy(&to->negotiation);
  free(to->stall.gathered.bytes);
  pthread_mutex_destroy(&to->mutex);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  target to = {.mine = {NULL}};
  ring_comm *comm = make_comm((int)(input_byte(&from) % SIZE), SIZE);
  forgeries_begin(&from);
  pthread_mutex_init(&to.mutex, NULL);
  FUZZ_PROMISE(ring_negotiation_init(&to.negotiation, comm, &to.mutex, 2) == RING_OK);
  FUZZ_PROMISE(ring_execution_init(&to.execution, &to.negotiation, NULL));
  ring_status status = RING_OK;
  for (int i = 0; i < CYCLES && status == RING_OK; i++) status = run_cycle(&to, &from);
  if (status != RING_OK && comm->state != RING_COMM_OPEN) check_error(comm, comm->failure.status);
  finish(&to);
  ring_comm_free(comm);
  world_end();
  return 0;
}
