/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"

enum { TENSOR_HEAD = 28, TENSOR_TEXT_EXTENTS = 8, TENSOR_TEXT_NOTE = 100 };

enum { TENSOR_KINDS = RING_OPERATION_BARRIER + 1 };

static const char *const tensor_kinds[TENSOR_KINDS] = {
    [RING_OPERATION_ALLREDUCE] = "allreduce",
    [RING_OPERATION_ALLREDUCE_GROUP] = "allreduce_group",
    [RING_OPERATION_REDUCE_SCATTER] = "reduce_scatter",
    [RING_OPERATION_BROADCAST] = "broadcast",
    [RING_OPERATION_ALLGATHER] = "allgather",
    [RING_OPERATION_ALLTOALL] = "alltoall",
    [RING_OPERATION_BARRIER] = "barrier"};

const char *ring_operation_name(ring_operation_kind kind) {
  return (unsigned)kind < TENSOR_KINDS ? tensor_kinds[kind] : "unknown operation";
}

ring_status ring_operation_parse(const char *name, ring_operation_kind *kind) {
  for (int i = 0; name != NULL && kind != NULL && i < TENSOR_KINDS; i++)
    if (strcmp(name, tensor_kinds[i]) == 0) {
      *kind = (ring_operation_kind)i;
      return RING_OK;
    }
  return RING_INVALID;
}

bool ring_operation_reduces(ring_operation_kind kind) {
  return kind == RING_OPERATION_ALLREDUCE || kind == RING_OPERATION_ALLREDUCE_GROUP ||
         kind == RING_OPERATION_REDUCE_SCATTER;
}

/* Whether the library finds out the first extent of each rank. */
static bool tensor_is_ragged(ring_operation_kind kind) {
  return kind == RING_OPERATION_ALLGATHER || kind == RING_OPERATION_ALLTOALL;
}

/* ---- Checking ----------------------------------------------------------------------------- */

/* The dtype of buffer number `index` of a group; of another operation its dtype. */
static ring_dtype tensor_dtype_of(const ring_operation *operation, size_t index) {
  bool group = operation->kind == RING_OPERATION_ALLREDUCE_GROUP;
  return group && operation->dtypes != NULL ? operation->dtypes[index] : operation->dtype;
}

static ring_status tensor_check_reduction(const ring_operation *operation, ring_dtype dtype,
                                          int rank, ring_error *error) {
  if (ring_dtype_size(dtype) == 0)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %d is no dtype", operation->name,
                          (int)dtype);
  if (!ring_op_allowed(operation->op, dtype))
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": op %s does not work on %s",
                          operation->name, ring_op_name(operation->op), ring_dtype_name(dtype));
  if (dtype == RING_BOOL && (operation->prescale != 1 || operation->postscale != 1))
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": bool has no factors",
                          operation->name);
  return RING_OK;
}

/* Whether a device carries out an operation of this kind, `plain` without factors. */
static bool tensor_suits_gpu(ring_operation_kind kind, ring_dtype dtype, bool plain) {
  if (kind == RING_OPERATION_BROADCAST) return true;
  if (kind != RING_OPERATION_ALLREDUCE && kind != RING_OPERATION_ALLREDUCE_GROUP) return false;
  return plain || dtype == RING_FLOAT16 || dtype == RING_BFLOAT16 || dtype == RING_FLOAT32 ||
         dtype == RING_FLOAT64;
}

static ring_status tensor_check_gpu(const ring_operation *operation, ring_dtype dtype, int rank,
                                    ring_error *error) {
  bool plain = operation->prescale == 1 && operation->postscale == 1;
  if (tensor_suits_gpu(operation->kind, dtype, plain)) return RING_OK;
  if (tensor_suits_gpu(operation->kind, dtype, true))
    return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                          "\"%s\": %s on GPUs has no factors: multiply the array", operation->name,
                          ring_dtype_name(dtype));
  return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                        "\"%s\": %s takes no arrays on GPUs: copy the array to the host",
                        operation->name, ring_operation_name(operation->kind));
}

static ring_status tensor_check_splits(const ring_operation *operation, int rank, int size,
                                       ring_error *error) {
  int64_t sum = 0;
  if (operation->splits == NULL)
    return operation->shape[0] % size == 0
               ? RING_OK
               : ring_error_set(
                     error, RING_INVALID, rank, 0,
                     "\"%s\": %lld rows cannot be split into %d equal parts: pass splits",
                     operation->name, (long long)operation->shape[0], size);
  for (int r = 0; r < size; r++) {
    if (operation->splits[r] < 0 || operation->splits[r] > operation->shape[0] - sum)
      sum = INT64_MIN;
    if (sum < 0) break;
    sum += operation->splits[r];
  }
  if (sum == operation->shape[0]) return RING_OK;
  return ring_error_set(error, RING_INVALID, rank, 0,
                        "\"%s\": splits must be 0 or more and add up to the %lld rows",
                        operation->name, (long long)operation->shape[0]);
}

/* Whether an operation of this kind has a first dimension. */
static bool tensor_has_rows(ring_operation_kind kind) {
  return tensor_is_ragged(kind) || kind == RING_OPERATION_REDUCE_SCATTER;
}

/* Multiplies by an extent. The bytes of as many elements, and of a part for each rank, fit into an int64. An extent of
 * 0 does not count, so that a shape fits or not whatever its first extent is. */
static bool tensor_multiply(int64_t *elements, int64_t extent, int size) {
  return extent >= 0 && !__builtin_mul_overflow(*elements, extent > 0 ? extent : 1, elements) &&
         *elements <= INT64_MAX / 16 / size;
}

static ring_status tensor_check_shape(const ring_operation *operation, int rank, int size,
                                      ring_error *error) {
  int64_t elements = 1;
  if (operation->dimensions < 0 || operation->dimensions > TENSOR_DIMENSIONS)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %d dimensions: pass 0 to %d",
                          operation->name, operation->dimensions, TENSOR_DIMENSIONS);
  if (tensor_has_rows(operation->kind) && operation->dimensions == 0)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %s needs a first dimension",
                          operation->name, ring_operation_name(operation->kind));
  for (int i = 0; i < operation->dimensions; i++)
    if (!tensor_multiply(&elements, operation->shape[i], size))
      return ring_error_set(error, RING_INVALID, rank, 0,
                            "\"%s\": dimension %d is negative, or the shape is too large",
                            operation->name, i);
  return RING_OK;
}

static ring_status tensor_check_counts(const ring_operation *operation, int rank, int size,
                                       ring_error *error) {
  uint64_t most = (uint64_t)(INT64_MAX / 16 / size);
  for (size_t i = 0; i < operation->buffer_count; most -= operation->buffers[i++].count)
    if (operation->buffers[i].count > most)
      return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": the group is too large",
                            operation->name);
  return RING_OK;
}

/* The dtypes of a group, or the only one. */
static ring_status tensor_check_dtypes(const ring_operation *operation, int rank,
                                       ring_error *error) {
  bool group = operation->kind == RING_OPERATION_ALLREDUCE_GROUP && operation->dtypes != NULL;
  ring_status status = RING_OK;
  for (size_t i = 0; i < (group ? operation->buffer_count : 1) && status == RING_OK; i++) {
    const ring_dtype dtype = tensor_dtype_of(operation, i);
    if (ring_operation_reduces(operation->kind))
      status = tensor_check_reduction(operation, dtype, rank, error);
    if (status == RING_OK && operation->memory == RING_MEMORY_GPU)
      status = tensor_check_gpu(operation, dtype, rank, error);
  }
  return status;
}

ring_status ring_tensor_check(const ring_operation *operation, int rank, int size,
                              ring_error *error) {
  ring_operation_kind kind = operation->kind;
  if (operation->name == NULL || operation->name[0] == '\0')
    return ring_error_set(error, RING_INVALID, rank, 0, "submit: the name is empty");
  if ((int)kind < 0 || kind > RING_OPERATION_BARRIER)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %d is no kind of operation",
                          operation->name, (int)kind);
  if (kind == RING_OPERATION_BARRIER) return RING_OK;
  if (ring_dtype_size(operation->dtype) == 0)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %d is no dtype", operation->name,
                          (int)operation->dtype);
  if (kind == RING_OPERATION_BROADCAST && (operation->root < 0 || operation->root >= size))
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": root %d is not in 0 to %d",
                          operation->name, operation->root, size - 1);
  if (operation->memory != RING_MEMORY_HOST && operation->memory != RING_MEMORY_GPU)
    return ring_error_set(error, RING_INVALID, rank, 0, "\"%s\": %d is not a kind of memory",
                          operation->name, (int)operation->memory);
  ring_status status = tensor_check_dtypes(operation, rank, error);
  if (status == RING_OK)
    status = kind == RING_OPERATION_ALLREDUCE_GROUP
                 ? tensor_check_counts(operation, rank, size, error)
                 : tensor_check_shape(operation, rank, size, error);
  if (status == RING_OK && kind == RING_OPERATION_ALLTOALL)
    status = tensor_check_splits(operation, rank, size, error);
  return status;
}

/* ---- Encoding ----------------------------------------------------------------------------- */

static size_t tensor_extent_count(const ring_operation *operation) {
  if (operation->kind == RING_OPERATION_BARRIER) return 0;
  if (operation->kind == RING_OPERATION_ALLREDUCE_GROUP) return operation->buffer_count;
  return (size_t)operation->dimensions;
}

static size_t tensor_note_length(const ring_operation *operation) {
  return operation->note == NULL ? 0 : strlen(operation->note);
}

/* Bytes of an extent, and of a group's dtype for it. */
static size_t tensor_extent_bytes(ring_operation_kind kind) {
  return kind == RING_OPERATION_ALLREDUCE_GROUP ? 9 : 8;
}

size_t ring_tensor_length(const ring_operation *operation) {
  size_t each = tensor_extent_bytes(operation->kind);
  return TENSOR_HEAD + each * tensor_extent_count(operation) + tensor_note_length(operation);
}

static uint8_t *tensor_put_factor(uint8_t *to, double factor) {
  uint64_t bits;
  memcpy(&bits, &factor, sizeof bits);
  return bytes_put(to, bits, 8);
}

void ring_tensor_encode(const ring_operation *operation, uint8_t *to) {
  ring_operation_kind kind = operation->kind;
  bool reduces = ring_operation_reduces(kind), group = kind == RING_OPERATION_ALLREDUCE_GROUP;
  size_t count = tensor_extent_count(operation), note = tensor_note_length(operation);
  ring_dtype first = group && count == 0 ? operation->dtype : tensor_dtype_of(operation, 0);
  to = bytes_put(to, (uint64_t)kind, 1);
  to = bytes_put(to, kind == RING_OPERATION_BARRIER ? 0 : (uint64_t)first, 1);
  to = bytes_put(to, reduces ? (uint64_t)operation->op : 0, 1);
  to = bytes_put(to, kind == RING_OPERATION_BARRIER ? 0 : (uint64_t)operation->memory, 1);
  to = bytes_put(to, kind == RING_OPERATION_BROADCAST ? (uint64_t)operation->root : 0, 4);
  to = tensor_put_factor(to, reduces ? operation->prescale : 1);
  to = tensor_put_factor(to, reduces ? operation->postscale : 1);
  to = bytes_put(to, count, 4);
  for (size_t i = 0; i < count; i++) {
    int64_t extent = group ? (int64_t)operation->buffers[i].count : operation->shape[i];
    to = bytes_put(to, (uint64_t)(i == 0 && tensor_is_ragged(kind) ? -1 : extent), 8);
  }
  for (size_t i = 0; group && i < count; i++)
    to = bytes_put(to, (uint64_t)tensor_dtype_of(operation, i), 1);
  if (note > 0) memcpy(to, operation->note, note);
}

/* ---- Decoding ----------------------------------------------------------------------------- */

static double tensor_get_factor(bytes_cursor *from) {
  uint64_t bits = bytes_cursor_get(from, 8);
  double factor;
  memcpy(&factor, &bits, sizeof factor);
  return factor;
}

/* A dtype and the fields that belong to a reduction. */
static bool tensor_reduces_well(const ring_tensor *tensor, ring_dtype dtype) {
  bool plain = tensor->prescale == 1 && tensor->postscale == 1;
  if (tensor->memory == RING_MEMORY_GPU && !tensor_suits_gpu(tensor->kind, dtype, plain))
    return false;
  if (!ring_operation_reduces(tensor->kind)) return tensor->op == (ring_op)0 && plain;
  return ring_op_allowed(tensor->op, dtype) && (plain || dtype != RING_BOOL);
}

/* The dtypes of a group, of which the first one stands in the head, too. */
static bool tensor_dtypes_fit(const ring_tensor *tensor) {
  for (uint32_t i = 0; i < tensor->extent_count; i++) {
    ring_dtype dtype = (ring_dtype)tensor->dtypes[i];
    if (ring_dtype_size(dtype) == 0 || !tensor_reduces_well(tensor, dtype)) return false;
  }
  return tensor->extent_count == 0 || tensor->dtypes[0] == (uint8_t)tensor->dtype;
}

/* The counts of a group: none is negative, and all together fit into memory. */
static bool tensor_counts_fit(const ring_tensor *tensor, int size) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < tensor->extent_count; i++) {
    int64_t count = ring_tensor_extent(tensor, i);
    if (count < 0 || count > INT64_MAX / 16 / size - sum) return false;
    sum += count;
  }
  return true;
}

static bool tensor_shape_fits(const ring_tensor *tensor, int size) {
  bool ragged = tensor_is_ragged(tensor->kind);
  int64_t elements = 1;
  if (tensor->extent_count > TENSOR_DIMENSIONS) return false;
  if (tensor_has_rows(tensor->kind) && tensor->extent_count == 0) return false;
  if (ragged && ring_tensor_extent(tensor, 0) != -1) return false;
  for (uint32_t i = ragged ? 1 : 0; i < tensor->extent_count; i++)
    if (!tensor_multiply(&elements, ring_tensor_extent(tensor, i), size)) return false;
  return true;
}

static bool tensor_is_good(const ring_tensor *tensor, int size) {
  ring_operation_kind kind = tensor->kind;
  if (kind > RING_OPERATION_BARRIER || tensor->memory > RING_MEMORY_GPU ||
      !tensor_reduces_well(tensor, tensor->dtype))
    return false;
  if (tensor->root != 0 &&
      (kind != RING_OPERATION_BROADCAST || tensor->root < 0 || tensor->root >= size))
    return false;
  if (kind == RING_OPERATION_BARRIER)
    return tensor->extent_count == 0 && tensor->dtype == (ring_dtype)0;
  if (ring_dtype_size(tensor->dtype) == 0) return false;
  return kind == RING_OPERATION_ALLREDUCE_GROUP
             ? tensor_counts_fit(tensor, size) && tensor_dtypes_fit(tensor)
             : tensor_shape_fits(tensor, size);
}

/* Finds the lists and the note that follow the head. False where they are longer than the description, or the note
 * has a zero. */
static bool tensor_find_lists(ring_tensor *tensor, const bytes_cursor *from) {
  size_t count = tensor->extent_count, lists = count * tensor_extent_bytes(tensor->kind);
  bool group = tensor->kind == RING_OPERATION_ALLREDUCE_GROUP;
  if (from->bad || lists > from->left || memchr(from->at + lists, '\0', from->left - lists) != NULL)
    return false;
  tensor->extents = from->at;
  tensor->dtypes = group ? from->at + 8 * count : NULL;
  tensor->mixed = false;
  for (size_t i = 1; group && i < count; i++)
    tensor->mixed = tensor->mixed || tensor->dtypes[i] != tensor->dtypes[0];
  tensor->note = (const char *)from->at + lists;
  tensor->note_length = from->left - lists;
  return true;
}

bool ring_tensor_decode(const uint8_t *bytes, size_t length, int size, ring_tensor *tensor) {
  bytes_cursor from = {.at = bytes, .left = length};
  tensor->kind = (ring_operation_kind)bytes_cursor_get(&from, 1);
  tensor->dtype = (ring_dtype)bytes_cursor_get(&from, 1);
  tensor->op = (ring_op)bytes_cursor_get(&from, 1);
  tensor->memory = (ring_memory)bytes_cursor_get(&from, 1);
  tensor->root = (int32_t)(uint32_t)bytes_cursor_get(&from, 4);
  tensor->prescale = tensor_get_factor(&from);
  tensor->postscale = tensor_get_factor(&from);
  tensor->extent_count = (uint32_t)bytes_cursor_get(&from, 4);
  return tensor_find_lists(tensor, &from) && tensor_is_good(tensor, size);
}

int64_t ring_tensor_extent(const ring_tensor *tensor, uint32_t index) {
  const uint8_t *from = tensor->extents + 8 * (size_t)index;
  return (int64_t)bytes_get(&from, 8);
}

ring_dtype ring_tensor_dtype(const ring_tensor *tensor, uint32_t index) {
  return tensor->mixed ? (ring_dtype)tensor->dtypes[index] : tensor->dtype;
}

uint64_t ring_tensor_bytes(const ring_tensor *tensor) {
  uint64_t bytes = 0;
  if (!tensor->mixed) return ring_tensor_elements(tensor, 0) * ring_dtype_size(tensor->dtype);
  for (uint32_t i = 0; i < tensor->extent_count; i++)
    bytes +=
        (uint64_t)ring_tensor_extent(tensor, i) * ring_dtype_size(ring_tensor_dtype(tensor, i));
  return bytes;
}

uint64_t ring_tensor_elements(const ring_tensor *tensor, uint32_t first) {
  bool group = tensor->kind == RING_OPERATION_ALLREDUCE_GROUP;
  uint64_t elements = group ? 0 : 1;
  for (uint32_t i = first; i < tensor->extent_count; i++) {
    uint64_t extent = (uint64_t)ring_tensor_extent(tensor, i);
    elements = group ? elements + extent : elements * extent;
  }
  return elements;
}

/* ---- Text --------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void tensor_append(char *text, size_t size,
                                                                const char *format, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, size - length, format, arguments);
  va_end(arguments);
}

static void tensor_append_extents(const ring_tensor *tensor, char *text, size_t size) {
  for (uint32_t i = 0; i < tensor->extent_count && i < TENSOR_TEXT_EXTENTS; i++) {
    int64_t extent = ring_tensor_extent(tensor, i);
    const char *comma = i == 0 ? "" : ", ";
    if (extent < 0)
      tensor_append(text, size, "%s*", comma);
    else
      tensor_append(text, size, "%s%lld", comma, (long long)extent);
    if (tensor->mixed)
      tensor_append(text, size, " %s", ring_dtype_name(ring_tensor_dtype(tensor, i)));
  }
  if (tensor->extent_count > TENSOR_TEXT_EXTENTS)
    tensor_append(text, size, ", ... (%u)", (unsigned)tensor->extent_count);
}

static void tensor_append_reduction(const ring_tensor *tensor, char *text, size_t size) {
  tensor_append(text, size, ", %s", ring_op_name(tensor->op));
  if (tensor->prescale != 1) tensor_append(text, size, ", prescale %.17g", tensor->prescale);
  if (tensor->postscale != 1) tensor_append(text, size, ", postscale %.17g", tensor->postscale);
}

static void tensor_append_note(const ring_tensor *tensor, char *text, size_t size) {
  int length = tensor->note_length < TENSOR_TEXT_NOTE ? (int)tensor->note_length : TENSOR_TEXT_NOTE;
  if (length > 0) tensor_append(text, size, ", %.*s", length, tensor->note);
}

void ring_tensor_text(const ring_tensor *tensor, char *text, size_t size) {
  bool group = tensor->kind == RING_OPERATION_ALLREDUCE_GROUP;
  snprintf(text, size, "%s", ring_operation_name(tensor->kind));
  if (tensor->kind != RING_OPERATION_BARRIER) {
    tensor_append(text, size, " of ");
    if (!tensor->mixed) tensor_append(text, size, "%s ", ring_dtype_name(tensor->dtype));
    tensor_append(text, size, group ? "counts [" : "[");
    tensor_append_extents(tensor, text, size);
    tensor_append(text, size, tensor->memory == RING_MEMORY_GPU ? "] on GPUs" : "]");
  }
  if (tensor->kind == RING_OPERATION_BROADCAST)
    tensor_append(text, size, ", root %d", tensor->root);
  if (ring_operation_reduces(tensor->kind)) tensor_append_reduction(tensor, text, size);
  tensor_append_note(tensor, text, size);
}
