/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of the machine, on which the limits of tests depend.
 */
#ifndef LOAD_H
#define LOAD_H

/* How many times as long as on a machine that does nothing else a rank may take here: half of the processes that
 * want a processor, from 1 to `most`. */
double load_stretch(double most);

/* A limit, in seconds, for what takes so long on a machine that does nothing else. */
#define UNLOADED(seconds) ((seconds) * load_stretch(20))

#endif
