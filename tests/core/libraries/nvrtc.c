/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for NVRTC, where tests have none. What it "compiles" is the text itself after a line for the stub of CUDA
 * (cuda.h), which has the same kernels for the host. test_kernels compiles the text with the real NVRTC.
 *
 * NVRTC_STUB_FAILS: "compile", "cubin", "archs" (it compiles for GPUs after 9.0 alone) or "old" (it compiles for GPUs up
 * to 8.0).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "device/nvrtc_api.h"

enum { INVALID_INPUT = 3, INVALID_OPTION = 5, COMPILATION = 6 };

struct nvrtc_program {
  char *text, *image;
};

static int fails(const char *what) {
  const char *set = getenv("NVRTC_STUB_FAILS");
  return set != NULL && strcmp(set, what) == 0;
}

const char *nvrtcGetErrorString(ring_nvrtc_result result) {
  return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "the stub of NVRTC was called wrongly";
}

ring_nvrtc_result nvrtcVersion(int *major, int *minor) {
  *major = 12;
  *minor = 8;
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcGetNumSupportedArchs(int *count) {
  *count = fails("old") ? 2 : 3;
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcGetSupportedArchs(int *archs) {
  const int known[] = {75, 80, 90}, newer[] = {100, 103, 120};
  memcpy(archs, fails("archs") ? newer : known, (fails("old") ? 2 : 3) * sizeof *archs);
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcCreateProgram(ring_nvrtc_program *program, const char *text,
                                     const char *name, int headers, const char *const *header_texts,
                                     const char *const *header_names) {
  if (name == NULL || headers != 0 || header_texts != NULL || header_names != NULL)
    return INVALID_INPUT;
  *program = calloc(1, sizeof **program);
  if (*program == NULL) abort();
  (*program)->text = strdup(text);
  if ((*program)->text == NULL) abort();
  return RING_NVRTC_SUCCESS;
}

static void make_image(ring_nvrtc_program program, const char *first) {
  size_t bytes = strlen(first) + strlen(program->text) + 1;
  free(program->image);
  program->image = malloc(bytes);
  if (program->image == NULL) abort();
  snprintf(program->image, bytes, "%s%s", first, program->text);
}

ring_nvrtc_result nvrtcCompileProgram(ring_nvrtc_program program, int count,
                                      const char *const *options) {
  if (count != 1) return INVALID_OPTION;
  if (fails("compile")) return COMPILATION;
  if (strcmp(options[0], "--gpu-architecture=sm_90") == 0 && !fails("old"))
    make_image(program, STUB_CUDA_CUBIN);
  else if (strcmp(options[0], "--gpu-architecture=compute_80") == 0 && fails("old"))
    make_image(program, STUB_CUDA_PTX);
  else
    return INVALID_OPTION;
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcDestroyProgram(ring_nvrtc_program *program) {
  free((*program)->text);
  free((*program)->image);
  free(*program);
  *program = NULL;
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcGetProgramLogSize(ring_nvrtc_program program, size_t *bytes) {
  (void)program;
  *bytes = sizeof "sparkring.cu(1): error: the stub fails\n1 error\n";
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcGetProgramLog(ring_nvrtc_program program, char *log) {
  (void)program;
  strcpy(log, "sparkring.cu(1): error: the stub fails\n1 error\n");
  return RING_NVRTC_SUCCESS;
}

/* An image of the other kind is none. */
static ring_nvrtc_result read_size(ring_nvrtc_program program, const char *first, size_t *bytes) {
  bool is_kind = program->image != NULL && strncmp(program->image, first, strlen(first)) == 0;
  if (!is_kind || fails("cubin")) return INVALID_INPUT;
  *bytes = strlen(program->image) + 1;
  return RING_NVRTC_SUCCESS;
}

static ring_nvrtc_result read_image(ring_nvrtc_program program, char *image) {
  strcpy(image, program->image);
  return RING_NVRTC_SUCCESS;
}

ring_nvrtc_result nvrtcGetCUBINSize(ring_nvrtc_program program, size_t *bytes) {
  return read_size(program, STUB_CUDA_CUBIN, bytes);
}

ring_nvrtc_result nvrtcGetCUBIN(ring_nvrtc_program program, char *image) {
  return read_image(program, image);
}

ring_nvrtc_result nvrtcGetPTXSize(ring_nvrtc_program program, size_t *bytes) {
  return read_size(program, STUB_CUDA_PTX, bytes);
}

ring_nvrtc_result nvrtcGetPTX(ring_nvrtc_program program, char *image) {
  return read_image(program, image);
}
