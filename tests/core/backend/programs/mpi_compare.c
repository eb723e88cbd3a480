/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_compare.h"

#include "base/dtype.h"
#include "check.h"
#include "fold.h"
#include "mpi_calls.h"
#include "values.h"

static void fill(uint8_t *buffer, ring_dtype dtype, int rank, size_t count) {
  size_t width = ring_dtype_size(dtype);
  for (size_t i = 0; i < count; i++)
    if (ring_dtype_is_integer(dtype) || dtype == RING_BOOL)
      fold_put(dtype, buffer + i * width, rank, i);
    else
      put(buffer, dtype, i, exact(rank, i) + 1);
}

/* Makes a call on both communicators, and compares all that it could have written. */
static void compare(ring_comm *comms[2], const mpi_call *call) {
  int rank = ring_comm_rank(comms[0]), size = ring_comm_size(comms[0]);
  size_t count = call_elements(call, size), bytes = count * ring_dtype_size(call->dtype);
  uint8_t *inputs[2], *outputs[2];
  for (int i = 0; i < 2; i++) {
    inputs[i] = malloc(bytes);
    outputs[i] = malloc(bytes);
    fill(inputs[i], call->dtype, rank, count);
    fill(outputs[i], call->dtype, rank + size, count);
    ring_status status = call_make(comms[i], call, inputs[i], outputs[i]);
    if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comms[i])->message);
    CHECK_INT(status, RING_OK);
  }
  bool same =
      memcmp(inputs[0], inputs[1], bytes) == 0 && memcmp(outputs[0], outputs[1], bytes) == 0;
  if (!same)
    fprintf(stderr,
            "rank %d of %d: collective %d differs: %s, %s, root %d, count %zu, in place %d\n", rank,
            size, (int)call->which, ring_dtype_name(call->dtype), ring_op_name(call->op),
            call->root, call->count, call->in_place);
  CHECK(same);
  for (int i = 0; i < 2; i++) {
    free(inputs[i]);
    free(outputs[i]);
  }
}

static void compare_counts(ring_comm *comms[2], mpi_call call, bool all) {
  static const size_t counts[] = {0, 1, 7, 1000, 30011};
  int size = ring_comm_size(comms[0]);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (int place = 0; place < 2; place++) {
      bool common = call.dtype == RING_FLOAT32 || call.dtype == RING_INT16;
      if (counts[i] != 7 && !common) continue;
      if (!all && ((size_t)call.op + i) % 2 != (size_t)place) continue;
      call.count = counts[i];
      call.in_place = place;
      call.root = (int)(i + (size_t)place) % size;
      compare(comms, &call);
    }
}

void compare_all(ring_comm *comms[2], bool all) {
  for (int which = 0; which < COLLECTIVES; which++)
    for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
      for (int op = 0; op < RING_OP_COUNT; op++) {
        bool scans = which == SCAN || which == EXSCAN;
        bool allowed =
            ring_op_allowed((ring_op)op, (ring_dtype)dtype) && !(scans && op == RING_AVG);
        if (which > LAST_REDUCTION ? op > 0 : !allowed) continue;
        if (!all && which <= LAST_REDUCTION && (which + dtype + op) % 3 != 0) continue;
        compare_counts(
            comms,
            (mpi_call){.which = (collective)which, .dtype = (ring_dtype)dtype, .op = (ring_op)op},
            all);
      }
}

/* Long enough for several pieces in a chain, too. */
void compare_places(ring_comm *comms[2]) {
  int rank = ring_comm_rank(comms[0]);
  for (int which = 0; which < COLLECTIVES; which++)
    for (int odd = 0; odd < 2; odd++)
      compare(comms, &(mpi_call){.which = (collective)which,
                                 .dtype = RING_INT32,
                                 .op = RING_SUM,
                                 .count = 80000,
                                 .in_place = rank % 2 == odd});
}
