/* SPDX-License-Identifier: Apache-2.0 */
#include "forgeries.h"

#include "base/dtype.h"
#include "base/error.h"

enum { LIES_SPARE = 4096, LIES_MOST = 1 << 20 };

static input *forgeries;

void forgeries_begin(input *from) {
  forgeries = from;
}

/* The calls of a communicator that has failed return its error. */
static ring_status forgeries_enter(ring_comm *comm, size_t bytes) {
  ring_error error;
  if (comm->state != RING_COMM_OPEN) return comm->failure.status;
  if (bytes <= forgeries->left + LIES_SPARE) return RING_OK;
  ring_error_set(&error, RING_PEER_LOST, -1, 0, "a rank sends less than it has announced");
  ring_comm_break(comm, &error);
  comm->error = comm->failure;
  return RING_PEER_LOST;
}

/* The next bytes; zeros after the end of the input. */
static void forgeries_fill(uint8_t *to, size_t length) {
  input piece = input_cut(forgeries, length);
  if (length > 0) memset(to, 0, length);
  if (piece.left > 0) memcpy(to, piece.at, piece.left);
}

/* A part of this rank, which it reads: mostly as it is. */
static void forgeries_copy(uint8_t *to, const void *own, size_t length) {
  if (length > 0) memmove(to, own, length);
  if (input_byte(forgeries) % 8 == 7) forgeries_fill(to, length);
}

/* Parts of `counts` elements, or of `count` each. `own` is this rank's. */
static ring_status forgeries_gather(ring_comm *comm, const void *own, uint8_t *to, size_t count,
                                    const size_t *counts, ring_dtype dtype) {
  size_t width = ring_dtype_size(dtype), total = 0;
  for (int rank = 0; rank < comm->peers.size; rank++)
    total += counts != NULL ? counts[rank] : count;
  ring_status status = forgeries_enter(comm, total * width);
  if (status != RING_OK) return status;
  for (int rank = 0; rank < comm->peers.size; rank++) {
    size_t length = (counts != NULL ? counts[rank] : count) * width;
    if (rank == comm->peers.rank)
      forgeries_copy(to, own, length);
    else
      forgeries_fill(to, length);
    if (length > 0) to += length; /* nothing is gathered to NULL */
  }
  return RING_OK;
}

#define LIES(name) __wrap_##name
#define LIES_DECLARE(name, ...)                                                                    \
  ring_status LIES(name)(ring_comm * comm, __VA_ARGS__);                                           \
  ring_status LIES(name)(ring_comm * comm, __VA_ARGS__)

LIES_DECLARE(ring_allgather, const void *in, void *out, size_t count, ring_dtype dtype) {
  return forgeries_gather(comm, in, out, count, NULL, dtype);
}

LIES_DECLARE(ring_allgatherv, const void *in, void *out, const size_t *counts, ring_dtype dtype) {
  return forgeries_gather(comm, in, out, 0, counts, dtype);
}

LIES_DECLARE(ring_alltoall, const void *in, void *out, size_t count, ring_dtype dtype) {
  const uint8_t *own =
      (const uint8_t *)in + (size_t)comm->peers.rank * count * ring_dtype_size(dtype);
  return forgeries_gather(comm, own, out, count, NULL, dtype);
}

LIES_DECLARE(ring_alltoallv, const void *in, const size_t *sends, void *out, const size_t *receives,
             ring_dtype dtype) {
  size_t at = 0;
  for (int rank = 0; rank < comm->peers.rank; rank++) at += sends[rank];
  FUZZ_PROMISE(sends[comm->peers.rank] == receives[comm->peers.rank]);
  const uint8_t *own = in; /* NULL on a rank that sends nothing */
  if (own != NULL) own += at * ring_dtype_size(dtype);
  return forgeries_gather(comm, own, out, 0, receives, dtype);
}

LIES_DECLARE(ring_allreduce, const void *in, void *out, size_t count, ring_dtype dtype,
             ring_op op) {
  size_t bytes = count * ring_dtype_size(dtype);
  ring_status status = forgeries_enter(comm, bytes);
  if (status != RING_OK) return status;
  if (bytes > 0) memmove(out, in, bytes);
  unsigned how = input_byte(forgeries) % 8;
  for (size_t i = 0; i < bytes && how == 1 && op == RING_BAND; i++)
    ((uint8_t *)out)[i] &= (uint8_t)~input_byte(forgeries);
  if (how == 2) forgeries_fill(out, bytes);
  return RING_OK;
}

LIES_DECLARE(ring_allreduce_group, const ring_buffer *buffers, size_t buffer_count,
             ring_dtype dtype, ring_op op) {
  ring_status status = RING_OK;
  for (size_t i = 0; i < buffer_count && status == RING_OK; i++)
    status = LIES(ring_allreduce)(comm, buffers[i].input, buffers[i].output, buffers[i].count,
                                  dtype, op);
  return status;
}

LIES_DECLARE(ring_reduce_scatter, const void *in, void *out, size_t count, ring_dtype dtype,
             ring_op op) {
  size_t bytes = count * ring_dtype_size(dtype);
  (void)op;
  ring_status status = forgeries_enter(comm, bytes);
  if (status == RING_OK && bytes > 0)
    memcpy(out, (const uint8_t *)in + (size_t)comm->peers.rank * bytes, bytes);
  return status;
}

LIES_DECLARE(ring_broadcast, const void *in, void *out, size_t count, ring_dtype dtype, int root) {
  size_t bytes = count * ring_dtype_size(dtype);
  ring_status status = forgeries_enter(comm, bytes);
  if (status != RING_OK) return status;
  FUZZ_PROMISE(root >= 0 && root < comm->peers.size);
  if (root != comm->peers.rank)
    forgeries_fill(out, bytes);
  else if (bytes > 0 && out != NULL)
    memmove(out, in, bytes);
  return RING_OK;
}

LIES_DECLARE(ring_recv, void *out, size_t count, ring_dtype dtype, int peer) {
  size_t bytes = count * ring_dtype_size(dtype);
  ring_status status = forgeries_enter(comm, bytes);
  FUZZ_PROMISE(peer >= 0 && peer < comm->peers.size);
  if (status == RING_OK) forgeries_fill(out, bytes);
  return status;
}

LIES_DECLARE(ring_send, const void *in, size_t count, ring_dtype dtype, int peer) {
  (void)in, (void)count, (void)dtype;
  FUZZ_PROMISE(peer >= 0 && peer < comm->peers.size);
  return forgeries_enter(comm, 0);
}

/* Memory for what the other ranks announce. */
ring_status __real_ring_alloc(ring_comm *comm, size_t bytes, void **memory);
ring_status LIES(ring_alloc)(ring_comm *comm, size_t bytes, void **memory);
ring_status LIES(ring_alloc)(ring_comm *comm, size_t bytes, void **memory) {
  return bytes > LIES_MOST ? RING_NO_MEMORY : __real_ring_alloc(comm, bytes, memory);
}
