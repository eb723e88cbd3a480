/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard output and error of a child process, redirected to a pipe. R, C and the child's own
 * children print to the pipe. The caller bounds the time for which a read blocks.
 */
#ifndef SPARKRING_STDIO_REDIRECT_H
#define SPARKRING_STDIO_REDIRECT_H

#include <Rinternals.h>

/* Opens a pipe; returns the descriptors to read from and to write to. Programs do not inherit them. */
SEXP stdio_open(void);

/* In a child: redirects descriptors 1 and 2 to the pipe, and makes a process group of its own. Linux
 * kills the child when `parent` ends. With NULL as `pipe` the child prints where its parent does. */
SEXP stdio_enter(SEXP pipe, SEXP parent);

/* In a child: flushes, and redirects to /dev/null, so that the reader sees the end of the pipe. */
SEXP stdio_leave(void);

/* Reads from descriptors, after `seconds` at most. The result has a raw vector for each descriptor:
 * empty when nothing has come, or NULL at its end. An interrupt ends the wait, and is R's. */
SEXP stdio_read(SEXP descriptors, SEXP seconds);

/* Writes a raw vector to a descriptor, and drops the bytes that an error leaves. Without `wait` it
 * never blocks: the vector fits into a pipe in one piece, and is dropped where it does not. */
SEXP stdio_write(SEXP descriptor, SEXP bytes, SEXP wait);

SEXP stdio_close(SEXP descriptors);

#endif
