/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that get their name when they are complete and on the disk. R's own connections do not report
 * a full disk, and cannot wait for the disk.
 */
#ifndef SPARKRING_CHECKPOINT_H
#define SPARKRING_CHECKPOINT_H

#include <Rinternals.h>

/* Writes a raw vector to the file `begun`, and then renames it, in the same directory. */
SEXP checkpoint_write(SEXP folder, SEXP begun, SEXP name, SEXP bytes);

#endif
