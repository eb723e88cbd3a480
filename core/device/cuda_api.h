/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of CUDA's driver API that the core uses, declared here and loaded at run time.
 * tests/core/device/test_cuda_header.c compares the declarations with cuda.h.
 */
#ifndef RING_DEVICE_CUDA_API_H
#define RING_DEVICE_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_CUDA_LIBRARIES "libcuda.so.1"

/* A test puts CUDA's own types here. */
#ifndef RING_CUDA_TYPES_ARE_GIVEN
typedef int ring_cuda_result, ring_cuda_attribute, ring_cuda_capture_status, ring_cuda_capture_mode;
typedef int ring_cuda_pointer_attribute;
typedef int ring_cuda_gpu;
typedef unsigned long long ring_cuda_memory;
typedef struct CUctx_st *ring_cuda_context;
typedef struct CUstream_st *ring_cuda_stream;
typedef struct CUevent_st *ring_cuda_event;
typedef struct CUmod_st *ring_cuda_module;
typedef struct CUfunc_st *ring_cuda_function;
#endif

enum {
  RING_CUDA_SUCCESS = 0,
  RING_CUDA_NO_MEMORY = 2,
  RING_CUDA_DEINITIALIZED = 4,
  RING_CUDA_NOT_READY = 600,
  RING_CUDA_CONTEXT_IS_DESTROYED = 709,
  RING_CUDA_CAPTURE_IMPLICIT = 906, /* of the default stream, while another stream captures */
  RING_CUDA_STREAM_NON_BLOCKING = 1,
  RING_CUDA_EVENT_DISABLE_TIMING = 2,
  RING_CUDA_HOST_REGISTER_PORTABLE = 1,
  RING_CUDA_CAPTURE_STATUS_NONE = 0,
  RING_CUDA_CAPTURE_MODE_RELAXED = 2,
  RING_CUDA_MULTIPROCESSOR_COUNT = 16,
  RING_CUDA_CAPABILITY_MAJOR = 75,
  RING_CUDA_CAPABILITY_MINOR = 76,
  RING_CUDA_POINTER_GPU = 9
};

/* The handle of the default stream of the calling thread. */
#define RING_CUDA_STREAM_OF_THREAD ((uintptr_t)2)

/* X(field, function, result, arguments). */
#define RING_CUDA_FUNCTION_MAP(X)                                                                  \
  X(init, cuInit, ring_cuda_result, (unsigned))                                                    \
  X(driver_version, cuDriverGetVersion, ring_cuda_result, (int *))                                 \
  X(error_string, cuGetErrorString, ring_cuda_result, (ring_cuda_result, const char **))           \
  X(gpu_count, cuDeviceGetCount, ring_cuda_result, (int *))                                        \
  X(gpu_get, cuDeviceGet, ring_cuda_result, (ring_cuda_gpu *, int))                                \
  X(gpu_name, cuDeviceGetName, ring_cuda_result, (char *, int, ring_cuda_gpu))                     \
  X(gpu_attribute, cuDeviceGetAttribute, ring_cuda_result,                                         \
    (int *, ring_cuda_attribute, ring_cuda_gpu))                                                   \
  X(context_retain, cuDevicePrimaryCtxRetain, ring_cuda_result,                                    \
    (ring_cuda_context *, ring_cuda_gpu))                                                          \
  X(context_release, cuDevicePrimaryCtxRelease_v2, ring_cuda_result, (ring_cuda_gpu))              \
  X(context_current, cuCtxGetCurrent, ring_cuda_result, (ring_cuda_context *))                     \
  X(context_gpu, cuCtxGetDevice, ring_cuda_result, (ring_cuda_gpu *))                              \
  X(context_push, cuCtxPushCurrent_v2, ring_cuda_result, (ring_cuda_context))                      \
  X(context_pop, cuCtxPopCurrent_v2, ring_cuda_result, (ring_cuda_context *))                      \
  X(stream_create, cuStreamCreate, ring_cuda_result, (ring_cuda_stream *, unsigned))               \
  X(stream_destroy, cuStreamDestroy_v2, ring_cuda_result, (ring_cuda_stream))                      \
  X(stream_query, cuStreamQuery, ring_cuda_result, (ring_cuda_stream))                             \
  X(stream_wait, cuStreamWaitEvent, ring_cuda_result,                                              \
    (ring_cuda_stream, ring_cuda_event, unsigned))                                                 \
  X(stream_capturing, cuStreamIsCapturing, ring_cuda_result,                                       \
    (ring_cuda_stream, ring_cuda_capture_status *))                                                \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, ring_cuda_result, (ring_cuda_capture_mode *)) \
  X(event_create, cuEventCreate, ring_cuda_result, (ring_cuda_event *, unsigned))                  \
  X(event_destroy, cuEventDestroy_v2, ring_cuda_result, (ring_cuda_event))                         \
  X(event_record, cuEventRecord, ring_cuda_result, (ring_cuda_event, ring_cuda_stream))            \
  X(event_query, cuEventQuery, ring_cuda_result, (ring_cuda_event))                                \
  X(memory_alloc, cuMemAlloc_v2, ring_cuda_result, (ring_cuda_memory *, size_t))                   \
  X(memory_free, cuMemFree_v2, ring_cuda_result, (ring_cuda_memory))                               \
  X(pointer_attribute, cuPointerGetAttribute, ring_cuda_result,                                    \
    (void *, ring_cuda_pointer_attribute, ring_cuda_memory))                                       \
  X(host_register, cuMemHostRegister_v2, ring_cuda_result, (void *, size_t, unsigned))             \
  X(host_unregister, cuMemHostUnregister, ring_cuda_result, (void *))                              \
  X(copy_down, cuMemcpyDtoHAsync_v2, ring_cuda_result,                                             \
    (void *, ring_cuda_memory, size_t, ring_cuda_stream))                                          \
  X(copy_up, cuMemcpyHtoDAsync_v2, ring_cuda_result,                                               \
    (ring_cuda_memory, const void *, size_t, ring_cuda_stream))                                    \
  X(fill, cuMemsetD8Async, ring_cuda_result,                                                       \
    (ring_cuda_memory, unsigned char, size_t, ring_cuda_stream))                                   \
  X(module_load, cuModuleLoadData, ring_cuda_result, (ring_cuda_module *, const void *))           \
  X(module_unload, cuModuleUnload, ring_cuda_result, (ring_cuda_module))                           \
  X(module_function, cuModuleGetFunction, ring_cuda_result,                                        \
    (ring_cuda_function *, ring_cuda_module, const char *))                                        \
  X(launch, cuLaunchKernel, ring_cuda_result,                                                      \
    (ring_cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
     ring_cuda_stream, void **, void **))

typedef struct ring_cuda {
#define CUDA_FIELD(field, function, result, arguments) result(*field) arguments;
  RING_CUDA_FUNCTION_MAP(CUDA_FIELD)
#undef CUDA_FIELD
} ring_cuda;

/* Loads the first of the libraries, with colons between their names; NULL: RING_CUDA_LIBRARIES. Initialises the
 * driver. Else returns false, and `problem` has the reason. */
bool ring_cuda_load(ring_cuda *cuda, const char *libraries, char *problem, size_t size);

/* The meaning of a result. Static storage. */
const char *ring_cuda_text(const ring_cuda *cuda, ring_cuda_result result);

#endif
