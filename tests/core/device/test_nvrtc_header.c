/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's declarations of NVRTC are those of nvrtc.h: the compiler compares each function. CMake builds this where it
 * finds the header.
 */
#include <nvrtc.h>

#define RING_NVRTC_TYPES_ARE_GIVEN
typedef nvrtcResult ring_nvrtc_result;
typedef nvrtcProgram ring_nvrtc_program;
#include "device/nvrtc_api.h"

#define SAME_FUNCTION(field, function, result, arguments)                                          \
  _Static_assert(                                                                                  \
      __builtin_types_compatible_p(__typeof__(&(function)), __typeof__(((ring_nvrtc *)0)->field)), \
      #function);
RING_NVRTC_FUNCTION_MAP(SAME_FUNCTION)
_Static_assert((int)RING_NVRTC_SUCCESS == (int)NVRTC_SUCCESS, "NVRTC_SUCCESS");

int main(void) {
  return 0;
}
