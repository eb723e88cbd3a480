/* SPDX-License-Identifier: Apache-2.0
 *
 * The guardian: a process between a rank and the program that the rank has started. It adopts the
 * orphans of the program, so it can end all descendants of the program: when the program ends, and
 * when the rank says so or dies, which closes the connection to the guardian. The package processx
 * ends only the program itself when R is killed. It uses nothing of R. Python's guardian does the
 * same.
 */
#ifndef SPARKRING_GUARDIAN_H
#define SPARKRING_GUARDIAN_H

#include <signal.h>

#define GUARDIAN_PMI 3 /* the descriptor by which the program speaks PMI */

typedef struct guardian_job {
  char *const *command; /* ends with NULL */
  char *const
      *environment;      /* "NAME=value" sets a variable, and "NAME" removes it; ends with NULL */
  const char *directory; /* working directory, or NULL */
  int control;           /* connection to the rank */
  int outputs[2];        /* descriptors for what the program prints on 1 and 2 */
  int pmi;               /* becomes GUARDIAN_PMI */
  sigset_t mask;         /* of signals, for the program */
} guardian_job;

/* The last message on the connection. */
typedef struct guardian_end {
  int error;  /* errno by which the program could not be started, else 0 */
  int status; /* wait status of the program */
} guardian_end;

/* Runs the guardian in a forked child, with all signals blocked. */
_Noreturn void guard(const guardian_job *job);

#endif
