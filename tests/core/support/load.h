/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of the machine, on which the limits of tests depend.
 */
#ifndef LOAD_H
#define LOAD_H

/* The factor by which the limits of a quiet machine grow here: half of the load of a processor, from 1 to `most`. */
double load_stretch(double most);

/* The limit, in seconds, that is `seconds` on a quiet machine without sanitizers. */
#define UNLOADED(seconds) ((seconds) * (SPARKRING_SANITIZED ? 3 : 1) * load_stretch(20))

#endif
