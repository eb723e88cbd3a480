/* SPDX-License-Identifier: Apache-2.0
 *
 * What a child process prints, from R or C or a child of its own, through a pipe: the descriptors 1
 * and 2 of the child are its end. Who reads never waits longer than it says, and the child is killed
 * by Linux when who has started it ends.
 */
#ifndef SPARKRING_CAPTURE_H
#define SPARKRING_CAPTURE_H

#include <Rinternals.h>

/* A pipe: the descriptors to read from and to write to. No program that is started inherits them. */
SEXP capture_open(void);

/* In a child: prints to the pipe from now on, in a process group of its own, as long as `parent`
 * lives, which has forked it. NULL: prints where that does. */
SEXP capture_enter(SEXP pipe, SEXP parent);

/* In a child: what is printed is written, and what comes now goes nowhere, so that the other end
 * sees the end. */
SEXP capture_leave(void);

/* In a child: becomes another program. Returns only when that fails, to say why. */
SEXP capture_become(SEXP command);

/* What there is to read from some descriptors, after `seconds` at most: for each a raw vector, empty
 * when nothing has come, or NULL at its end. */
SEXP capture_read(SEXP descriptors, SEXP seconds);

/* Writes all of a raw vector to a descriptor; what that does not take is dropped. Without `wait`, all
 * or nothing of what fits into a pipe in one piece. */
SEXP capture_write(SEXP descriptor, SEXP bytes, SEXP wait);

SEXP capture_close(SEXP descriptors);

/* Kills a child with its process group. */
SEXP capture_kill(SEXP process);

/* The number of the process that has started this one, or whoever took it in. */
SEXP capture_parent(void);

/* Notes from now on how a child ends. */
SEXP capture_watch(SEXP process);

/* How a child that is no more watched has ended: its exit code, a signal below 0, or NA. */
SEXP capture_end(SEXP process);

/* Whether a child has ended, be it waited for or not. */
SEXP capture_gone(SEXP process);

#endif
