/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nccl_api.h"

#include <stdio.h>

#include "base/library.h"

bool ring_nccl_load(ring_nccl *nccl, const char *libraries, char *problem, size_t size) {
  void *library =
      ring_library_load(libraries != NULL ? libraries : RING_NCCL_LIBRARIES, problem, size);
  if (library == NULL) return false;
  const char *missing = NULL;
#define NCCL_FIND(field, function, result, arguments)                                              \
  ring_library_find(library, #function, &nccl->field);                                             \
  if (nccl->field == NULL) missing = #function;
  RING_NCCL_FUNCTION_MAP(NCCL_FIND)
#undef NCCL_FIND
  if (missing == NULL) return true;
  snprintf(problem, size, "the library has no function %s: NCCL is older than 2.14", missing);
  return false;
}
