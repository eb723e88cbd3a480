/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces the check of frames by one that takes no time and finds nothing.
 */
#include "base/checksum.h"

uint32_t __wrap_ring_checksum(const void *bytes, size_t length);

uint32_t __wrap_ring_checksum(const void *bytes, size_t length) {
  (void)bytes;
  (void)length;
  return 0;
}
