/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear with their name when they are whole, and are on the disk then. R's own
 * connections do not tell when a disk is full, and cannot wait for it.
 */
#ifndef SPARKRING_CHECKPOINT_H
#define SPARKRING_CHECKPOINT_H

#include <Rinternals.h>

/* Writes a raw vector to the file `begun`, and then gives it its name, in the same folder. */
SEXP checkpoint_write(SEXP folder, SEXP begun, SEXP name, SEXP bytes);

#endif
