/* SPDX-License-Identifier: Apache-2.0
 *
 * The token from the environment: the variable SPARKRING_TOKEN, or the file that
 * SPARKRING_TOKEN_FILE names. A variable is visible in /proc/PID/environ and in core files, and
 * every child inherits it; a file is not, so sparkring-run uses one. A file that everybody can
 * read, or other users can change, is refused. The variables stay set: a program may open several
 * communicators one after another, and to unset them is not safe while other threads read the
 * environment.
 */
#ifndef RING_AUTH_TOKEN_H
#define RING_AUTH_TOKEN_H

#include "sparkring.h"

#define RING_TOKEN_FILE_BYTES 4096 /* at most, without a newline at the end */

/* Reads the token into memory of ring_secret_alloc. *token is NULL when none is set. RING_INVALID
 * when it cannot be used; *error (which may be NULL) never contains a byte of it. */
ring_status ring_token_read(char **token, size_t *length, ring_error *error);

/* Wipes and frees a token. */
void ring_token_free(char *token, size_t length);

#endif
