/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

/* ---- Loading ------------------------------------------------------------------------------- */

/* A driver may refuse the code of a later major version. From 12 on a library is named after its major version. */
static void nvrtc_list(int cuda_version, char *names, size_t size) {
  size_t length = 0;
  for (int major = cuda_version / 1000; major >= 12; major--)
    length += (size_t)snprintf(names + length, size - length, "libnvrtc.so.%d:", major);
  snprintf(names + length, size - length, "libnvrtc.so.11.2:libnvrtc.so");
}

/* NVRTC loads a second library by its name alone when it compiles, and does not look in its own folder, where a wheel of
 * Python has it. */
static void nvrtc_load_builtins(const ring_nvrtc *nvrtc) {
  int major = 0, minor = 0;
  char name[64];
  if (nvrtc->version(&major, &minor) != RING_NVRTC_SUCCESS) return;
  snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", major, minor);
  ring_library_load_beside(&nvrtc->compile, name);
}

bool ring_nvrtc_load(ring_nvrtc *nvrtc, const char *libraries, int cuda_version, char *problem,
                     size_t size) {
  char names[256];
  const char *missing = NULL;
  nvrtc_list(cuda_version < 20000 ? cuda_version : 20000, names, sizeof names);
  void *library = ring_library_load(libraries != NULL ? libraries : names, problem, size);
  if (library == NULL) return false;
#define NVRTC_FIND(field, function, result, arguments)                                             \
  ring_library_find(library, #function, &nvrtc->field);                                            \
  if (nvrtc->field == NULL) missing = #function;
  RING_NVRTC_FUNCTION_MAP(NVRTC_FIND)
#undef NVRTC_FIND
  if (missing != NULL)
    snprintf(problem, size, "the library has no function %s: NVRTC is older than CUDA 11.2",
             missing);
  else
    nvrtc_load_builtins(nvrtc);
  return missing == NULL;
}

/* ---- Compiling ----------------------------------------------------------------------------- */

/* The newest architecture up to `capability` that NVRTC knows; 0: none. */
static int nvrtc_choose(const ring_nvrtc *nvrtc, int capability) {
  int count = 0, best = 0;
  if (nvrtc->arch_count(&count) != RING_NVRTC_SUCCESS || count <= 0) return 0;
  int *archs = calloc((size_t)count, sizeof *archs);
  if (archs == NULL) return 0;
  if (nvrtc->archs(archs) != RING_NVRTC_SUCCESS) count = 0;
  for (int i = 0; i < count; i++)
    if (archs[i] <= capability && archs[i] > best) best = archs[i];
  free(archs);
  return best;
}

/* Machine code, or PTX. NULL with the result. */
static char *nvrtc_read(const ring_nvrtc *nvrtc, ring_nvrtc_program program, bool native,
                        ring_nvrtc_result *result) {
  size_t bytes = 0;
  *result = native ? nvrtc->cubin_size(program, &bytes) : nvrtc->ptx_size(program, &bytes);
  char *image = *result == RING_NVRTC_SUCCESS ? calloc(1, bytes + 1) : NULL;
  if (image == NULL) return NULL;
  *result = native ? nvrtc->cubin(program, image) : nvrtc->ptx(program, image);
  if (*result == RING_NVRTC_SUCCESS) return image;
  free(image);
  return NULL;
}

/* Adds the first line of the compiler's log to a problem. */
static void nvrtc_add_log(const ring_nvrtc *nvrtc, ring_nvrtc_program program, char *problem,
                          size_t size) {
  size_t bytes = 0, length = strlen(problem);
  if (nvrtc->log_size(program, &bytes) != RING_NVRTC_SUCCESS || bytes <= 1) return;
  char *log = calloc(1, bytes + 1);
  if (log != NULL && nvrtc->log(program, log) == RING_NVRTC_SUCCESS)
    snprintf(problem + length, size - length, ": %.*s", (int)strcspn(log, "\n"), log);
  free(log);
}

static char *nvrtc_run(const ring_nvrtc *nvrtc, ring_nvrtc_program program, int arch, bool native,
                       char *problem, size_t size) {
  char option[48];
  const char *const options[] = {option};
  char *image = NULL;
  snprintf(option, sizeof option, "--gpu-architecture=%s_%d", native ? "sm" : "compute", arch);
  ring_nvrtc_result result = nvrtc->compile(program, 1, options);
  if (result == RING_NVRTC_SUCCESS) image = nvrtc_read(nvrtc, program, native, &result);
  if (image != NULL) return image;
  snprintf(problem, size, "NVRTC returned %d (%s) with %s", (int)result,
           nvrtc->error_string(result), option);
  nvrtc_add_log(nvrtc, program, problem, size);
  return NULL;
}

char *ring_nvrtc_compile(const ring_nvrtc *nvrtc, const char *text, int capability, char *problem,
                         size_t size) {
  ring_nvrtc_program program = NULL;
  const int arch = nvrtc_choose(nvrtc, capability);
  if (arch == 0) {
    snprintf(problem, size, "NVRTC compiles for no GPU of compute capability %d.%d",
             capability / 10, capability % 10);
    return NULL;
  }
  ring_nvrtc_result result = nvrtc->create(&program, text, "sparkring.cu", 0, NULL, NULL);
  if (result != RING_NVRTC_SUCCESS) {
    snprintf(problem, size, "nvrtcCreateProgram returned %d (%s)", (int)result,
             nvrtc->error_string(result));
    return NULL;
  }
  char *image = nvrtc_run(nvrtc, program, arch, arch == capability, problem, size);
  nvrtc->destroy(&program);
  return image;
}
