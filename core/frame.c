/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <stdio.h>

#include "bytes.h"

void ring_frame_pack(const ring_frame *frame, uint8_t header[RING_HEADER_BYTES]) {
  uint8_t *to = header;
  to = bytes_put(to, frame->length, 4);
  to = bytes_put(to, frame->kind, 1);
  to = bytes_put(to, frame->call.collective, 1);
  to = bytes_put(to, frame->call.op, 1);
  to = bytes_put(to, frame->call.dtype, 1);
  to = bytes_put(to, frame->call.sequence, 4);
  to = bytes_put(to, (uint32_t)frame->call.root, 4);
  to = bytes_put(to, frame->call.count, 8);
  bytes_put(to, 0, 8);
}

bool ring_frame_unpack(const uint8_t header[RING_HEADER_BYTES], ring_frame *frame) {
  const uint8_t *from = header;
  frame->length = (uint32_t)bytes_get(&from, 4);
  frame->kind = (uint8_t)bytes_get(&from, 1);
  frame->call.collective = (uint8_t)bytes_get(&from, 1);
  frame->call.op = (uint8_t)bytes_get(&from, 1);
  frame->call.dtype = (uint8_t)bytes_get(&from, 1);
  frame->call.sequence = (uint32_t)bytes_get(&from, 4);
  frame->call.root = (int32_t)(uint32_t)bytes_get(&from, 4);
  frame->call.count = bytes_get(&from, 8);
  uint64_t zero = bytes_get(&from, 8);
  return zero == 0 && (frame->kind == RING_FRAME_DATA || frame->kind == RING_FRAME_FAIL);
}

static const char *frame_collective_name(uint8_t collective) {
  switch (collective) {
#define FRAME_COLLECTIVE_NAME(name, value, text)                                                   \
  case RING_COLLECTIVE_##name:                                                                     \
    return text;
    RING_COLLECTIVE_MAP(FRAME_COLLECTIVE_NAME)
#undef FRAME_COLLECTIVE_NAME
  default:
    return "unknown";
  }
}

void ring_call_describe(const ring_call *call, char *text, size_t size) {
  const char *name = frame_collective_name(call->collective);
  const char *dtype = ring_dtype_name((ring_dtype)call->dtype);
  unsigned long long count = call->count;
  unsigned sequence = call->sequence;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    snprintf(text, size, "%s(count %llu, %s, %s) as call %u", name, count, dtype,
             ring_op_name((ring_op)call->op), sequence);
    return;
  case RING_COLLECTIVE_BROADCAST:
    snprintf(text, size, "%s(count %llu, %s, root %d) as call %u", name, count, dtype,
             (int)call->root, sequence);
    return;
  case RING_COLLECTIVE_ALLGATHER:
    snprintf(text, size, "%s(count %llu, %s) as call %u", name, count, dtype, sequence);
    return;
  default:
    snprintf(text, size, "%s() as call %u", name, sequence);
  }
}
