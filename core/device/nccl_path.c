/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nccl_path.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/half.h"
#include "device/device_hub.h"
#include "device/nccl_comm.h"
#include "device/pending.h"

/* ---- Types and operations ------------------------------------------------------------------ */

/* NCCL's dtype of the numbers that an element is made of; -1: it has none. */
static ring_nccl_dtype nccl_dtype_of(ring_dtype dtype) {
  static const int8_t dtypes[RING_DTYPE_COUNT] = {[RING_INT8] = RING_NCCL_INT8,
                                                  [RING_UINT8] = RING_NCCL_UINT8,
                                                  [RING_INT32] = RING_NCCL_INT32,
                                                  [RING_INT64] = RING_NCCL_INT64,
                                                  [RING_FLOAT16] = RING_NCCL_FLOAT16,
                                                  [RING_BFLOAT16] = RING_NCCL_BFLOAT16,
                                                  [RING_FLOAT32] = RING_NCCL_FLOAT32,
                                                  [RING_FLOAT64] = RING_NCCL_FLOAT64,
                                                  [RING_BOOL] = -1,
                                                  [RING_INT16] = -1,
                                                  [RING_UINT16] = -1,
                                                  [RING_UINT32] = RING_NCCL_UINT32,
                                                  [RING_UINT64] = RING_NCCL_UINT64,
                                                  [RING_COMPLEX64] = RING_NCCL_FLOAT32,
                                                  [RING_COMPLEX128] = RING_NCCL_FLOAT64};
  return dtypes[dtype];
}

/* -1: NCCL has none. */
static ring_nccl_op nccl_op_of(ring_op op) {
  switch (op) {
  case RING_SUM:
    return RING_NCCL_SUM;
  case RING_PROD:
    return RING_NCCL_PROD;
  case RING_MIN:
    return RING_NCCL_MIN;
  case RING_MAX:
    return RING_NCCL_MAX;
  case RING_AVG:
    return RING_NCCL_AVG;
  default:
    return -1;
  }
}

/* ---- Factors ------------------------------------------------------------------------------- */

/* A factor in the dtype of the elements. */
typedef union nccl_scalar {
  float f32;
  double f64;
  uint16_t half;
} nccl_scalar;

/* The factor of each input in a sum that stands for both factors and, of an average, for the number of ranks. False
 * where NCCL has none: for other dtypes and ops, and in a half for a factor that the half would round, which would bend
 * all results alike. */
static bool nccl_scalar_of(const ring_device *device, const ring_device_args *args,
                           nccl_scalar *scalar) {
  double factor = args->prescale * args->postscale;
  if (args->op == RING_AVG) factor /= device->size;
  if (args->op != RING_SUM && args->op != RING_AVG) return false;
  switch (args->dtype) {
  case RING_FLOAT32:
    scalar->f32 = (float)factor;
    return true;
  case RING_FLOAT64:
    scalar->f64 = factor;
    return true;
  case RING_FLOAT16:
    scalar->half = ring_float16_from_float32((float)factor);
    return ring_float16_to_float32(scalar->half) == factor;
  case RING_BFLOAT16:
    scalar->half = ring_bfloat16_from_float32((float)factor);
    return ring_bfloat16_to_float32(scalar->half) == factor;
  default:
    return false;
  }
}

/* The op of a reduction. One with factors is made, to be destroyed after the call. Called with the mutex of NCCL. */
static ring_nccl_result nccl_make_op(const ring_device *device, const ring_device_args *args,
                                     ring_nccl_op *op) {
  nccl_scalar scalar;
  *op = nccl_op_of(args->op);
  if (!args->scaled || !nccl_scalar_of(device, args, &scalar)) return RING_NCCL_SUCCESS;
  return device->nccl.op_create(op, &scalar, nccl_dtype_of(args->dtype), RING_NCCL_SCALAR_OF_HOST,
                                device->nccl_comm);
}

static void nccl_end_op(ring_device *device, const ring_device_args *args, ring_nccl_op op) {
  if (op == nccl_op_of(args->op)) return;
  pthread_mutex_lock(&device->nccl_mutex);
  if (device->nccl_comm != NULL) device->nccl.op_destroy(op, device->nccl_comm);
  pthread_mutex_unlock(&device->nccl_mutex);
}

bool ring_nccl_serves(const ring_device *device, const ring_device_args *args) {
  nccl_scalar scalar;
  if (device->path != RING_DEVICE_NCCL || args->casts || args->converts) return false;
  if (!ring_collective_reduces((uint8_t)args->collective)) return true;
  if (args->scaled && !nccl_scalar_of(device, args, &scalar)) return false;
  if (nccl_dtype_of(args->dtype) < 0 || nccl_op_of(args->op) < 0) return false;
  if (ring_dtype_is_complex(args->dtype)) return args->op == RING_SUM || args->op == RING_AVG;
  return args->op != RING_AVG || !ring_dtype_is_integer(args->dtype);
}

/* ---- Issuing ------------------------------------------------------------------------------- */

/* Parts of `sends` and `receives` elements, or of `count` each, to and from every rank. */
static ring_nccl_result nccl_issue_alltoall(const ring_device *device,
                                            const ring_device_args *args) {
  const ring_nccl *nccl = &device->nccl;
  size_t width = ring_dtype_size(args->dtype), from = 0, to = 0;
  ring_nccl_result failed = RING_NCCL_SUCCESS, result = nccl->group_start();
  if (result != RING_NCCL_SUCCESS) return result;
  for (int rank = 0; rank < device->size; rank++) {
    size_t sends = args->sends != NULL ? args->sends[rank] : args->count;
    size_t receives = args->receives != NULL ? args->receives[rank] : args->count;
    if (sends > 0)
      result = nccl->send(device_args_input(args, from), sends * width, RING_NCCL_UINT8, rank,
                          device->nccl_comm, args->stream);
    if (result != RING_NCCL_SUCCESS && result != RING_NCCL_IN_PROGRESS) failed = result;
    if (receives > 0)
      result = nccl->recv(device_args_output(args, to), receives * width, RING_NCCL_UINT8, rank,
                          device->nccl_comm, args->stream);
    if (result != RING_NCCL_SUCCESS && result != RING_NCCL_IN_PROGRESS) failed = result;
    from += sends;
    to += receives;
  }
  result = nccl->group_end();
  return failed != RING_NCCL_SUCCESS ? failed : result;
}

/* An allreduce of each buffer, as one launch. */
static ring_nccl_result nccl_issue_group(const ring_device *device, const ring_device_args *args,
                                         ring_nccl_op op) {
  const ring_nccl *nccl = &device->nccl;
  size_t parts = ring_dtype_is_complex(args->dtype) ? 2 : 1;
  ring_nccl_result failed = RING_NCCL_SUCCESS, result = nccl->group_start();
  if (result != RING_NCCL_SUCCESS) return result;
  for (size_t i = 0; i < args->buffer_count; i++) {
    const ring_buffer *buffer = &args->buffers[i];
    if (buffer->count > 0)
      result = nccl->allreduce(buffer->input, buffer->output, parts * buffer->count,
                               nccl_dtype_of(args->dtype), op, device->nccl_comm, args->stream);
    if (result != RING_NCCL_SUCCESS && result != RING_NCCL_IN_PROGRESS) failed = result;
  }
  result = nccl->group_end();
  return failed != RING_NCCL_SUCCESS ? failed : result;
}

static ring_nccl_result nccl_issue_reduction(const ring_device *device,
                                             const ring_device_args *args, ring_nccl_op op) {
  const ring_nccl *nccl = &device->nccl;
  size_t count = ring_dtype_is_complex(args->dtype) ? 2 * args->count : args->count;
  ring_nccl_dtype dtype = nccl_dtype_of(args->dtype);
  if (args->collective == RING_COLLECTIVE_ALLREDUCE_GROUP)
    return nccl_issue_group(device, args, op);
  if (args->collective == RING_COLLECTIVE_ALLREDUCE)
    return nccl->allreduce(args->input, args->output, count, dtype, op, device->nccl_comm,
                           args->stream);
  if (args->collective == RING_COLLECTIVE_REDUCE)
    return nccl->reduce(args->input, args->output, count, dtype, op, args->root, device->nccl_comm,
                        args->stream);
  return nccl->reduce_scatter(args->input, args->output, count, dtype, op, device->nccl_comm,
                              args->stream);
}

/* Called with the mutex of NCCL. */
static ring_nccl_result nccl_issue(const ring_device *device, const ring_device_args *args,
                                   ring_nccl_op op) {
  const ring_nccl *nccl = &device->nccl;
  size_t bytes = args->count * ring_dtype_size(args->dtype);
  if (ring_collective_reduces((uint8_t)args->collective))
    return nccl_issue_reduction(device, args, op);
  if (args->collective == RING_COLLECTIVE_BROADCAST)
    return nccl->broadcast(device->rank == args->root ? args->input : args->output,
                           device->rank == args->root && args->output == NULL ? (void *)args->input
                                                                              : args->output,
                           bytes, RING_NCCL_UINT8, args->root, device->nccl_comm, args->stream);
  if (args->collective == RING_COLLECTIVE_ALLGATHER)
    return nccl->allgather(args->input, args->output, bytes, RING_NCCL_UINT8, device->nccl_comm,
                           args->stream);
  if (args->collective != RING_COLLECTIVE_MESSAGE) return nccl_issue_alltoall(device, args);
  if (args->sending)
    return nccl->send(args->input, bytes, RING_NCCL_UINT8, args->root, device->nccl_comm,
                      args->stream);
  return nccl->recv(args->output, bytes, RING_NCCL_UINT8, args->root, device->nccl_comm,
                    args->stream);
}

/* ---- Running ------------------------------------------------------------------------------- */

ring_status ring_nccl_run(ring_device *device, const ring_device_args *args,
                          const ring_call *call) {
  int peer = args->collective == RING_COLLECTIVE_MESSAGE ? args->root : -1;
  ring_nccl_op op = nccl_op_of(args->op);
  ring_nccl_result result =
      RING_NCCL_IN_PROGRESS; /* until the device fails, where NCCL has ended */
  if (!ring_pending_add(device, call, peer)) {
    ring_error error;
    ring_error_no_memory(&error, device->rank);
    return ring_device_hub_report(device, &error);
  }
  pthread_mutex_lock(&device->nccl_mutex);
  if (device->nccl_comm != NULL) result = nccl_make_op(device, args, &op);
  if (device->nccl_comm != NULL && result == RING_NCCL_SUCCESS)
    result = nccl_issue(device, args, op);
  pthread_mutex_unlock(&device->nccl_mutex);
  ring_status status = ring_nccl_complete(device, result, ring_collective_name(call->collective));
  nccl_end_op(device, args, op);
  if (status != RING_OK) {
    ring_pending_drop(device);
    return status;
  }
  ring_cuda_result recorded = ring_pending_record(device, args->stream);
  if (recorded == RING_CUDA_SUCCESS) return RING_OK;
  return ring_device_hub_report_cuda(device, recorded, "cuEventRecord");
}
