/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for NCCL, where tests have none: hands out ids of which no two are the same, counts how
 * often it was asked, and fails while NCCL_STUB_FAILS is set.
 */
#include <stdlib.h>
#include <string.h>

typedef struct {
  char internal[128];
} ncclUniqueId;

static int calls;

int ncclGetUniqueId(ncclUniqueId *id) {
  calls++;
  if (id == NULL) return 4;
  if (getenv("NCCL_STUB_FAILS") != NULL) return 3;
  for (size_t i = 0; i < sizeof id->internal; i++) id->internal[i] = (char)(i * 7 + (size_t)calls);
  return 0;
}

const char *ncclGetErrorString(int result) {
  return result == 3 ? "the stub fails" : "the stub was called wrongly";
}

int stub_calls(void) {
  return calls;
}
