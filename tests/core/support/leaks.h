/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a process has kept something: descriptors, or the memory of a host.
 */
#ifndef RING_LEAKS_H
#define RING_LEAKS_H

#include <stdbool.h>

/* Open descriptors of this process, of those below 4,096. */
int count_descriptors(void);

/* Whether this process has mapped the memory of a host. */
bool arena_is_mapped(void);

#endif
