/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC, CUDA's compiler as a library: the functions that the core uses, declared here and loaded at run time.
 * tests/core/device/test_nvrtc_header.c compares the declarations with nvrtc.h.
 */
#ifndef RING_DEVICE_NVRTC_API_H
#define RING_DEVICE_NVRTC_API_H

#include <stdbool.h>
#include <stddef.h>

/* A test puts NVRTC's own types here. */
#ifndef RING_NVRTC_TYPES_ARE_GIVEN
typedef int ring_nvrtc_result;
typedef struct nvrtc_program *ring_nvrtc_program;
#endif

enum { RING_NVRTC_SUCCESS = 0 };

/* X(field, function, result, arguments). */
#define RING_NVRTC_FUNCTION_MAP(X)                                                                 \
  X(error_string, nvrtcGetErrorString, const char *, (ring_nvrtc_result))                          \
  X(version, nvrtcVersion, ring_nvrtc_result, (int *, int *))                                      \
  X(arch_count, nvrtcGetNumSupportedArchs, ring_nvrtc_result, (int *))                             \
  X(archs, nvrtcGetSupportedArchs, ring_nvrtc_result, (int *))                                     \
  X(create, nvrtcCreateProgram, ring_nvrtc_result,                                                 \
    (ring_nvrtc_program *, const char *, const char *, int, const char *const *,                   \
     const char *const *))                                                                         \
  X(compile, nvrtcCompileProgram, ring_nvrtc_result,                                               \
    (ring_nvrtc_program, int, const char *const *))                                                \
  X(destroy, nvrtcDestroyProgram, ring_nvrtc_result, (ring_nvrtc_program *))                       \
  X(log_size, nvrtcGetProgramLogSize, ring_nvrtc_result, (ring_nvrtc_program, size_t *))           \
  X(log, nvrtcGetProgramLog, ring_nvrtc_result, (ring_nvrtc_program, char *))                      \
  X(cubin_size, nvrtcGetCUBINSize, ring_nvrtc_result, (ring_nvrtc_program, size_t *))              \
  X(cubin, nvrtcGetCUBIN, ring_nvrtc_result, (ring_nvrtc_program, char *))                         \
  X(ptx_size, nvrtcGetPTXSize, ring_nvrtc_result, (ring_nvrtc_program, size_t *))                  \
  X(ptx, nvrtcGetPTX, ring_nvrtc_result, (ring_nvrtc_program, char *))

typedef struct ring_nvrtc {
#define NVRTC_FIELD(field, function, result, arguments) result(*field) arguments;
  RING_NVRTC_FUNCTION_MAP(NVRTC_FIELD)
#undef NVRTC_FIELD
} ring_nvrtc;

/* Loads the first of the libraries, with colons between their names; NULL: the newest libnvrtc whose code a driver of
 * CUDA `cuda_version` (13000 for 13.0) can load. Else returns false, and `problem` has the reason. */
bool ring_nvrtc_load(ring_nvrtc *nvrtc, const char *libraries, int cuda_version, char *problem,
                     size_t size);

/* Compiles a text for GPUs of a compute capability, 90 for 9.0: into machine code or, where NVRTC is older than the GPU,
 * into PTX, which the driver compiles. The caller frees the result; NULL with the reason in `problem`. */
char *ring_nvrtc_compile(const ring_nvrtc *nvrtc, const char *text, int capability, char *problem,
                         size_t size);

#endif
