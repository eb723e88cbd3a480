/* SPDX-License-Identifier: Apache-2.0
 *
 * The token as whoever started this process hands it over: in the variable SPARKRING_TOKEN, or in a
 * file that SPARKRING_TOKEN_FILE names. A variable stands in /proc/PID/environ and in core files and
 * goes on to every child; a file does not, so sparkring-run names one, and people should. A file
 * that everybody can read, or others can change, holds no secret and is refused. The variables stay
 * as they are: a program may open several communicators, one after the other, and to take them away
 * is not safe while other threads read the environment.
 */
#ifndef RING_AUTH_TOKEN_H
#define RING_AUTH_TOKEN_H

#include "sparkring.h"

#define RING_TOKEN_FILE_BYTES 4096 /* at most; the end of a last line does not count */

/* Reads it into memory of ring_secret_alloc; *token is NULL where there is none. RING_INVALID, with
 * an *error (which may be NULL) that never has a byte of it, when it cannot be used. */
ring_status ring_token_read(char **token, size_t *length, ring_error *error);

/* Wipes and frees what was read. */
void ring_token_free(char *token, size_t length);

#endif
