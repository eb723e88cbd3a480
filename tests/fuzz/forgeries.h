/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives whose other ranks are hostile: each result is made of the input, also where this rank's own part is.
 * CMakeLists.txt lists the functions that are replaced, with --wrap. A result that is longer than the rest of the
 * input, and a bit, fails: the other ranks send less than they have announced.
 */
#ifndef FUZZ_FORGERIES_H
#define FUZZ_FORGERIES_H

#include "comms.h"

/* From where the other ranks' bytes are. */
void forgeries_begin(input *from);

#endif
