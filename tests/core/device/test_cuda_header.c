/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's declarations of CUDA's driver API are those of cuda.h: the compiler compares each function and
 * each number. CMake builds this where it finds the header.
 */
#include <cuda.h>

#define RING_CUDA_TYPES_ARE_GIVEN
typedef CUresult ring_cuda_result;
typedef CUdevice_attribute ring_cuda_attribute;
typedef CUstreamCaptureStatus ring_cuda_capture_status;
typedef CUstreamCaptureMode ring_cuda_capture_mode;
typedef CUpointer_attribute ring_cuda_pointer_attribute;
typedef CUdevice ring_cuda_gpu;
typedef CUdeviceptr ring_cuda_memory;
typedef CUcontext ring_cuda_context;
typedef CUstream ring_cuda_stream;
typedef CUevent ring_cuda_event;
typedef CUmodule ring_cuda_module;
typedef CUfunction ring_cuda_function;
#include "device/cuda_api.h"

#define SAME_FUNCTION(field, function, result, arguments)                                          \
  _Static_assert(                                                                                  \
      __builtin_types_compatible_p(__typeof__(&(function)), __typeof__(((ring_cuda *)0)->field)),  \
      #function);
RING_CUDA_FUNCTION_MAP(SAME_FUNCTION)

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_NUMBER(RING_CUDA_SUCCESS, CUDA_SUCCESS);
SAME_NUMBER(RING_CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(RING_CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME_NUMBER(RING_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_NUMBER(RING_CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_NUMBER(RING_CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_NUMBER(RING_CUDA_POINTER_GPU, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(RING_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(RING_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(RING_CUDA_HOST_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME_NUMBER(RING_CUDA_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_NUMBER(RING_CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(RING_CUDA_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(RING_CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(RING_CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

int main(void) {
  return (uintptr_t)CU_STREAM_PER_THREAD != RING_CUDA_STREAM_OF_THREAD;
}
