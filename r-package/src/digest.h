/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of files that other users may change.
 */
#ifndef SPARKRING_DIGEST_H
#define SPARKRING_DIGEST_H

#include <Rinternals.h>

/* The SHA-256 of the content of the file, as a raw vector. */
SEXP digest_file(SEXP path);

#endif
