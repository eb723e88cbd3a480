/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a named tensor: what all ranks have to pass alike. It is kept and sent as bytes, so
 * that two descriptions agree exactly when their bytes do.
 *
 *   kind u8, dtype u8, op u8, memory u8, root i32, prescale f64, postscale f64, extents u32, then i64 each,
 *   of a group a dtype u8 for each extent, then the note of the caller
 *
 * The extents are the shape or, of a group, the counts of its buffers. The first extent of an allgather
 * and an alltoall may differ between ranks and is -1. A field that a kind does not use is 0.
 */
#ifndef RING_REDUCER_TENSOR_H
#define RING_REDUCER_TENSOR_H

#include <stdbool.h>

#include "sparkring.h"

enum { TENSOR_DIMENSIONS = 32, TENSOR_TEXT = 320 };

typedef struct ring_tensor {
  ring_operation_kind kind;
  ring_dtype dtype;
  ring_op op;
  ring_memory memory;
  int root;
  double prescale, postscale;
  uint32_t extent_count;
  const uint8_t *extents; /* little-endian; ring_tensor_extent() reads one */
  const uint8_t *dtypes;  /* of a group: one for each extent */
  bool mixed;             /* a group whose dtypes differ */
  const char *note;       /* without an end */
  size_t note_length;
} ring_tensor;

const char *ring_operation_name(ring_operation_kind kind);

/* Whether an operation of this kind combines elements by an op; whether it has factors. */
bool ring_operation_reduces(ring_operation_kind kind);

/* Checks the fields of an operation that do not depend on the other ranks. `rank` is this rank. */
ring_status ring_tensor_check(const ring_operation *operation, int rank, int size,
                              ring_error *error);

/* Bytes of the description, and the description. */
size_t ring_tensor_length(const ring_operation *operation);
void ring_tensor_encode(const ring_operation *operation, uint8_t *to);

/* Reads a description; the tensor points into it. False for bytes that are not the description of an operation that
 * passes ring_tensor_check() on a rank of a communicator of `size` ranks. */
bool ring_tensor_decode(const uint8_t *bytes, size_t length, int size, ring_tensor *tensor);

int64_t ring_tensor_extent(const ring_tensor *tensor, uint32_t index);

/* The dtype of a buffer of a group; of another tensor its dtype. */
ring_dtype ring_tensor_dtype(const ring_tensor *tensor, uint32_t index);

/* The product of the extents from number `first` on; their sum for a group. */
uint64_t ring_tensor_elements(const ring_tensor *tensor, uint32_t first);

/* Bytes of the tensor or of all buffers of the group. */
uint64_t ring_tensor_bytes(const ring_tensor *tensor);

/* "allreduce of float32 [4, 3], sum, prescale 0.5", at most TENSOR_TEXT bytes. */
void ring_tensor_text(const ring_tensor *tensor, char *text, size_t size);

#endif
