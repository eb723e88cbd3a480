/* SPDX-License-Identifier: Apache-2.0
 *
 * A workload: forked ranks that use everything once, from open to free, while one of them, the
 * victim, runs out of something. What each rank came to is kept, and judged: either all ranks went on
 * with right results, or the error of the victim names what it lacks and those of the others the victim, soon;
 * and nobody crashed, hung or kept a descriptor.
 */
#ifndef RING_WORKLOAD_H
#define RING_WORKLOAD_H

#include <stdbool.h>

#include "sparkring.h"

enum { WORKLOAD_RANKS = 3 };

typedef enum workload_link {
  WORKLOAD_SHM,
  WORKLOAD_TCP,
  WORKLOAD_CONNECTIONS,
  WORKLOAD_TLS,
  WORKLOAD_LINKS
} workload_link;

/* How a rank ended. */
typedef struct workload_end {
  bool came;        /* to its end */
  const char *step; /* that failed first, or NULL */
  ring_status status;
  int fault; /* the rank that the error names, or -1 */
  double at; /* when it failed, in seconds */
  char message[1024];
  char link[16]; /* that it had to the next rank */
} workload_end;

typedef struct workload {
  workload_link link;
  int victim;
  void (*starve)(void *arg); /* on the victim, before it opens */
  void (*feed)(void *arg);   /* on the victim, after it has freed everything */
  void *arg;
  bool all;       /* any rank may lack it: each may be the victim */
  bool exchanges; /* the rendezvous is by an exchange, not by addresses */
  workload_end ends[WORKLOAD_RANKS];
} workload;

/* A workload in memory that its ranks share. */
workload *workload_alloc(workload_link link, int victim);
void workload_free(workload *work);

/* Runs it, and judges it: true when every rank was fine or got its error. If not, prints what was wrong,
 * with `what` was lacking. */
bool workload_run(workload *work, const char *what);

/* The same, and again, at most twice, where it was not well because some rank came too late. */
bool workload_run_again(workload *work, const char *what);

/* Whether the victim failed. */
bool workload_failed(const workload *work);

/* The longest time, in seconds, between the victim's failure and that of another rank. */
double workload_delay(const workload *work);

/* How many ranks got the error that the victim was lost, and not what it lacked. */
int workload_missed(const workload *work);

/* Whether all ranks came to their end, but one too late: at its deadline, or long after the victim; or it
 * knew that the victim was gone before the reason could arrive. */
bool workload_late(const workload *work);

const char *workload_link_name(workload_link link);

#endif
