/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nccl_api.h"

#include <stdio.h>

#include "base/library.h"

/* 2708 was 2.7.8, 21005 is 2.10.5. */
void ring_nccl_version(int version, char *text) {
  const int unit = version < 10000 ? 1000 : 10000;
  snprintf(text, RING_NCCL_VERSION_TEXT, "%d.%d.%d", version / unit, version % unit / 100,
           version % 100);
}

bool ring_nccl_load(ring_nccl *nccl, const char *libraries, int *version, char *problem,
                    size_t size) {
  char text[RING_NCCL_VERSION_TEXT];
  void *library =
      ring_library_load(libraries != NULL ? libraries : RING_NCCL_LIBRARIES, problem, size);
  if (library == NULL) return false;
  const char *missing = NULL;
#define NCCL_FIND(field, function, result, arguments)                                              \
  ring_library_find(library, #function, &nccl->field);                                             \
  if (nccl->field == NULL) missing = #function;
  RING_NCCL_FUNCTION_MAP(NCCL_FIND)
#undef NCCL_FIND
  if (missing != NULL) {
    snprintf(problem, size,
             "the library has no function %s: NCCL is older than 2.23, install a newer one",
             missing);
    return false;
  }
  *version = 0;
  nccl->get_version(version);
  if (*version >= RING_NCCL_LEAST) return true;
  ring_nccl_version(*version, text);
  snprintf(problem, size, "NCCL %s is older than 2.23: install a newer one", text);
  return false;
}
