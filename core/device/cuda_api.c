/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda_api.h"

#include <stdio.h>

#include "base/library.h"

const char *ring_cuda_text(const ring_cuda *cuda, ring_cuda_result result) {
  const char *text = NULL;
  if (cuda->error_string(result, &text) != RING_CUDA_SUCCESS || text == NULL)
    return "unknown error";
  return text;
}

bool ring_cuda_load(ring_cuda *cuda, const char *libraries, char *problem, size_t size) {
  void *library =
      ring_library_load(libraries != NULL ? libraries : RING_CUDA_LIBRARIES, problem, size);
  if (library == NULL) return false;
  const char *missing = NULL;
#define CUDA_FIND(field, function, result, arguments)                                              \
  ring_library_find(library, #function, &cuda->field);                                             \
  if (cuda->field == NULL) missing = #function;
  RING_CUDA_FUNCTION_MAP(CUDA_FIND)
#undef CUDA_FIND
  if (missing != NULL) {
    snprintf(problem, size, "the library has no function %s: the driver is older than CUDA 11",
             missing);
    return false;
  }
  ring_cuda_result result = cuda->init(0);
  if (result == RING_CUDA_SUCCESS) return true;
  snprintf(problem, size, "cuInit failed with %d (%s)", (int)result, ring_cuda_text(cuda, result));
  return false;
}
