/* SPDX-License-Identifier: Apache-2.0
 *
 * The guardian: two processes between a rank and the program that the rank has started. The inner process has started
 * the program. Both adopt orphans. So they can end all descendants of the program: when the program ends, when the rank
 * closes the connection to the guardian, when the rank dies, and when one of the two processes dies. A thread of the
 * rank could do none of the four.
 */
#ifndef RING_LAUNCH_GUARDIAN_H
#define RING_LAUNCH_GUARDIAN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
  RING_GUARDIAN_PMI = 3
}; /* the descriptor of the program's connection to its PMI server, as in its PMI_FD */

typedef struct ring_guardian_job {
  char *const *command;   /* ends with NULL */
  char *const *variables; /* "NAME=value" sets, "NAME" removes; ends with NULL, or NULL */
  const char *directory;  /* working directory, or NULL */
  pid_t rank;             /* the parent of this process */
  int control;            /* connection to the rank */
  int outputs[2];         /* descriptors for what the program prints on 1 and 2 */
  int pmi;                /* becomes RING_GUARDIAN_PMI */
  sigset_t mask;          /* of signals, for the program */
} ring_guardian_job;

/* A message on the connection: RING_GUARDIAN_STARTED before the program runs, then one of the other kinds. */
typedef struct ring_guardian_event {
  enum {
    RING_GUARDIAN_STARTED, /* value: the process id of the program, which leads a process group */
    RING_GUARDIAN_ENDED,   /* value: its wait status */
    RING_GUARDIAN_FAILED,  /* value: the errno by which the program was not started */
    RING_GUARDIAN_NO_DIRECTORY, /* value: the errno of the working directory */
  } kind;
  int value;
} ring_guardian_event;

/* Runs the guardian: the outer process is this one, in which all signals are blocked, and which has no other task.
 * Returns when no descendant is left, so then nothing writes to the program's output any more. False: the inner process
 * was killed. */
bool ring_guard(const ring_guardian_job *job);

#endif
