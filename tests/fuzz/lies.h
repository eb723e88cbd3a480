/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives whose other ranks are hostile: each result is made of the input, also where this rank's own part lies.
 * CMakeLists.txt lists the functions that are replaced, with --wrap. A result that is longer than the rest of the
 * input, and a bit, fails: the other ranks send less than they have announced.
 */
#ifndef FUZZ_LIES_H
#define FUZZ_LIES_H

#include "comms.h"

/* From where the other ranks' bytes are. */
void lies_begin(input *from);

#endif
