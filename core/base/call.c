/* SPDX-License-Identifier: Apache-2.0 */
#include "base/call.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"

uint8_t *ring_call_pack(const ring_call *call, uint8_t *to) {
  to = bytes_put(to, call->collective, 1);
  to = bytes_put(to, call->op, 1);
  to = bytes_put(to, call->dtype, 1);
  to = bytes_put(to, call->sequence, 4);
  to = bytes_put(to, (uint32_t)call->root, 4);
  to = bytes_put(to, call->count, 8);
  return bytes_put(to, call->digest, 8);
}

ring_call ring_call_unpack(const uint8_t **from) {
  ring_call call = {.collective = (uint8_t)bytes_get(from, 1)};
  call.op = (uint8_t)bytes_get(from, 1);
  call.dtype = (uint8_t)bytes_get(from, 1);
  call.sequence = (uint32_t)bytes_get(from, 4);
  call.root = (int32_t)(uint32_t)bytes_get(from, 4);
  call.count = bytes_get(from, 8);
  call.digest = bytes_get(from, 8);
  return call;
}

const char *ring_collective_name(uint8_t collective) {
  switch (collective) {
#define CALL_COLLECTIVE_NAME(name, value, text)                                                    \
  case RING_COLLECTIVE_##name:                                                                     \
    return text;
    RING_COLLECTIVE_MAP(CALL_COLLECTIVE_NAME)
#undef CALL_COLLECTIVE_NAME
  default:
    return "unknown";
  }
}

bool ring_collective_reduces(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_ALLREDUCE:
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_REDUCE_SCATTERV:
  case RING_COLLECTIVE_ALLREDUCE_GROUP:
  case RING_COLLECTIVE_REDUCE_SCATTER_GROUP:
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return true;
  default:
    return false;
  }
}

bool ring_collective_has_root(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_BROADCAST:
  case RING_COLLECTIVE_BROADCAST_GROUP:
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return true;
  default:
    return false;
  }
}

bool ring_collective_has_counts(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_GATHERV:
  case RING_COLLECTIVE_SCATTERV:
  case RING_COLLECTIVE_ALLTOALLV:
  case RING_COLLECTIVE_REDUCE_SCATTERV:
    return true;
  default:
    return false;
  }
}

uint8_t ring_collective_of_group(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_ALLREDUCE_GROUP:
    return RING_COLLECTIVE_ALLREDUCE;
  case RING_COLLECTIVE_ALLGATHER_GROUP:
    return RING_COLLECTIVE_ALLGATHER;
  case RING_COLLECTIVE_REDUCE_SCATTER_GROUP:
    return RING_COLLECTIVE_REDUCE_SCATTER;
  case RING_COLLECTIVE_BROADCAST_GROUP:
    return RING_COLLECTIVE_BROADCAST;
  default:
    return 0;
  }
}

/* Whether the digest of a call is that of its counts. */
static bool call_has_counts(uint8_t collective) {
  return ring_collective_has_counts(collective) || ring_collective_of_group(collective) != 0;
}

bool ring_call_is_same(const ring_call *one, const ring_call *other) {
  return one->collective == other->collective && one->op == other->op &&
         one->dtype == other->dtype && one->root == other->root && one->count == other->count &&
         one->digest == other->digest && one->sequence == other->sequence;
}

/* A call without data, or none that is known. */
static bool call_is_empty(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_OPEN:
  case RING_COLLECTIVE_CLOSE:
  case RING_COLLECTIVE_BARRIER:
  case RING_COLLECTIVE_SPLIT:
  case RING_COLLECTIVE_OPEN_ALLGATHER:
    return true;
  default:
    return collective == 0 || collective > RING_COLLECTIVE_LAST;
  }
}

void ring_call_describe(const ring_call *call, char *text, size_t size) {
  const char *name = ring_collective_name(call->collective);
  const char *dtype =
      call->dtype == RING_CALL_MIXED ? "several dtypes" : ring_dtype_name((ring_dtype)call->dtype);
  unsigned long long count = call->count;
  unsigned sequence = call->sequence;
  char op[16] = "", root[24] = "", counts[32] = "";
  bool empty = call_is_empty(call->collective);
  if (call->collective == RING_COLLECTIVE_OPEN) {
    if (call->digest != 0)
      snprintf(counts, sizeof counts, " with algorithms #%08x", (unsigned)call->digest);
    snprintf(text, size, "open()%s", counts);
    return;
  }
  if (empty) {
    snprintf(text, size, "%s() as call %u", name, sequence);
    return;
  }
  if (call->collective == RING_COLLECTIVE_MESSAGE) {
    snprintf(text, size, "message %u from rank %d (count %llu, %s)", sequence, (int)call->root,
             count, dtype);
    return;
  }
  if (ring_collective_reduces(call->collective))
    snprintf(op, sizeof op, ", %s", ring_op_name((ring_op)call->op));
  if (ring_collective_has_root(call->collective))
    snprintf(root, sizeof root, ", root %d", (int)call->root);
  /* Counts are too many to show; four digits of their digest show that they differ. */
  if (call_has_counts(call->collective) && call->digest != 0)
    snprintf(counts, sizeof counts, " in parts #%04x", (unsigned)(call->digest & 0xffff));
  snprintf(text, size, "%s(count %llu%s, %s%s%s) as call %u", name, count, counts, dtype, op, root,
           sequence);
}

void ring_call_describe_array(const ring_call *call, const char *description, char *text,
                              size_t size) {
  ring_call_describe(call, text, size);
  size_t length = strlen(text);
  if (description != NULL && description[0] != '\0')
    snprintf(text + length, size - length, ", of %s", description);
  else if (call->digest != 0 && call->collective != RING_COLLECTIVE_MESSAGE &&
           call->collective != RING_COLLECTIVE_OPEN && !call_has_counts(call->collective))
    snprintf(text + length, size - length, ", of an array #%04x",
             (unsigned)(call->digest & 0xffff));
}
