/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"

#include <string.h>

size_t ring_dtype_size(ring_dtype dtype) {
  switch (dtype) {
    /* NOLINTBEGIN(bugprone-branch-clone): some sizes are equal */
#define DTYPE_SIZE(name, text, bytes)                                                              \
  case RING_##name:                                                                                \
    return bytes;
    RING_DTYPE_MAP(DTYPE_SIZE)
#undef DTYPE_SIZE
    /* NOLINTEND(bugprone-branch-clone) */
  }
  return 0;
}

const char *ring_dtype_name(ring_dtype dtype) {
  switch (dtype) {
#define DTYPE_NAME(name, text, bytes)                                                              \
  case RING_##name:                                                                                \
    return text;
    RING_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
  }
  return "unknown";
}

ring_status ring_dtype_parse(const char *name, ring_dtype *dtype) {
  if (name == NULL || dtype == NULL) return RING_INVALID;
#define DTYPE_PARSE(dtype_name, text, bytes)                                                       \
  if (strcmp(name, text) == 0) {                                                                   \
    *dtype = RING_##dtype_name;                                                                    \
    return RING_OK;                                                                                \
  }
  RING_DTYPE_MAP(DTYPE_PARSE)
#undef DTYPE_PARSE
  return RING_INVALID;
}

bool ring_dtype_is_integer(ring_dtype dtype) {
  switch (dtype) {
  case RING_INT8:
  case RING_UINT8:
  case RING_INT16:
  case RING_UINT16:
  case RING_INT32:
  case RING_UINT32:
  case RING_INT64:
  case RING_UINT64:
    return true;
  default:
    return false;
  }
}

bool ring_dtype_is_complex(ring_dtype dtype) {
  return dtype == RING_COMPLEX64 || dtype == RING_COMPLEX128;
}

bool ring_dtype_is_half(ring_dtype dtype) {
  return dtype == RING_FLOAT16 || dtype == RING_BFLOAT16;
}

size_t ring_dtype_wide_size(ring_dtype dtype) {
  return ring_dtype_size(ring_dtype_is_half(dtype) ? RING_FLOAT32 : dtype);
}

bool ring_op_valid(ring_op op) {
  switch (op) {
#define DTYPE_OP_VALID(name, text) case RING_##name:
    RING_OP_MAP(DTYPE_OP_VALID)
#undef DTYPE_OP_VALID
    return true;
  }
  return false;
}

const char *ring_op_name(ring_op op) {
  switch (op) {
#define DTYPE_OP_NAME(name, text)                                                                  \
  case RING_##name:                                                                                \
    return text;
    RING_OP_MAP(DTYPE_OP_NAME)
#undef DTYPE_OP_NAME
  }
  return "unknown";
}

ring_status ring_op_parse(const char *name, ring_op *op) {
  if (name == NULL || op == NULL) return RING_INVALID;
#define DTYPE_OP_PARSE(op_name, text)                                                              \
  if (strcmp(name, text) == 0) {                                                                   \
    *op = RING_##op_name;                                                                          \
    return RING_OK;                                                                                \
  }
  RING_OP_MAP(DTYPE_OP_PARSE)
  RING_OP_ALIAS_MAP(DTYPE_OP_PARSE)
#undef DTYPE_OP_PARSE
  return RING_INVALID;
}

bool ring_op_is_logical(ring_op op) {
  return op == RING_LAND || op == RING_LOR || op == RING_LXOR;
}

bool ring_op_is_bitwise(ring_op op) {
  return op == RING_BAND || op == RING_BOR || op == RING_BXOR;
}

bool ring_op_allowed(ring_op op, ring_dtype dtype) {
  if (!ring_op_valid(op) || ring_dtype_size(dtype) == 0) return false;
  if (ring_op_is_logical(op) || ring_op_is_bitwise(op))
    return ring_dtype_is_integer(dtype) || dtype == RING_BOOL;
  if (op == RING_AVG) return dtype != RING_BOOL;
  return !ring_dtype_is_complex(dtype) || op == RING_SUM || op == RING_PROD;
}
