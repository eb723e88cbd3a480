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
#include <sys/types.h>

#define GUARDIAN_PMI 3 /* the descriptor by which the program speaks PMI */

typedef struct guardian_job {
  char *const *command; /* ends with NULL */
  char *const
      *environment;      /* "NAME=value" sets a variable, and "NAME" removes it; ends with NULL */
  const char *directory; /* working directory, or NULL */
  pid_t rank;            /* process id */
  int control;           /* connection to the rank */
  int outputs[2];        /* descriptors for what the program prints on 1 and 2 */
  int pmi;               /* becomes GUARDIAN_PMI */
  sigset_t mask;         /* of signals, for the program */
} guardian_job;

/* A message on the connection: GUARDIAN_STARTED before the program runs, then GUARDIAN_ENDED or
 * GUARDIAN_FAILED. */
typedef struct guardian_event {
  enum { GUARDIAN_STARTED, GUARDIAN_ENDED, GUARDIAN_FAILED } kind;
  int value; /* process id of the program; its wait status; errno by which it was not started */
} guardian_event;

/* Runs the guardian in a forked child, with all signals blocked. */
_Noreturn void guard(const guardian_job *job);

#endif
