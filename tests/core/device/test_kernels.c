/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the kernels, compiled by the real NVRTC for every GPU that it knows. What the kernels compute is tested
 * over the stubs (test_device_fusion.c), from the same text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/kernels.h"
#include "device/nvrtc_api.h"

enum { ARCHS = 64 };

/* An ELF file, or PTX that has all kernels. */
static void expect_image(const char *image, bool native) {
#define KERNEL_ENTRY(name, ...)                                                                    \
  CHECK(strstr(image, ".visible .entry ring_kernel_" #name "(") != NULL);
  if (native) {
    CHECK(memcmp(image, "\177ELF", 4) == 0);
  } else {
    RING_KERNEL_MAP(KERNEL_ENTRY)
  }
}

static void compile(const ring_nvrtc *nvrtc, int capability, bool native) {
  char problem[512] = "";
  char *text = ring_kernels_text();
  CHECK(text != NULL);
  char *image = ring_nvrtc_compile(nvrtc, text, capability, problem, sizeof problem);
  if (image == NULL) fprintf(stderr, "capability %d: %s\n", capability, problem);
  CHECK(image != NULL);
  expect_image(image, native);
  free(image);
  free(text);
}

int main(void) {
  ring_nvrtc nvrtc;
  char problem[512];
  int archs[ARCHS], count = 0, newest = 0;
  if (!ring_nvrtc_load(&nvrtc, getenv("SPARKRING_TEST_NVRTC"), 13000, problem, sizeof problem)) {
    printf("test_kernels: skipped, for NVRTC is not installed: %s\n", problem);
    return 77;
  }
  CHECK_INT(nvrtc.arch_count(&count), 0);
  CHECK(count > 0 && count <= ARCHS);
  CHECK_INT(nvrtc.archs(archs), 0);
  for (int i = 0; i < count; i++) {
    compile(&nvrtc, archs[i], true);
    printf("sm_%d ", archs[i]);
    if (archs[i] > newest) newest = archs[i];
  }
  compile(&nvrtc, newest + 10, false); /* a GPU that comes later */
  printf("and PTX of compute_%d: compiled\n", newest);
  CHECK(ring_nvrtc_compile(&nvrtc, "", 10, problem, sizeof problem) == NULL);
  CHECK_CONTAINS(problem, "NVRTC compiles for no GPU of compute capability 1.0");
  CHECK(ring_nvrtc_compile(&nvrtc, "__device__ void f() { nonsense; }", newest, problem,
                           sizeof problem) == NULL);
  CHECK_CONTAINS(problem, "NVRTC_ERROR_COMPILATION");
  CHECK_CONTAINS(problem, "\"nonsense\" is undefined");
  return 0;
}
