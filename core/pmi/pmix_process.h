/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMIx server of a host: the executable sparkring-pmix, which its lead starts. It lies beside the file that has
 * this code, or in a folder bin beside the file's folder, unless SPARKRING_PMIX_SERVER names another one.
 *
 * The server ends when its socket does. Only the lead holds the other end: the socket closes on exec, and forked
 * children release it.
 */
#ifndef RING_PMI_PMIX_PROCESS_H
#define RING_PMI_PMIX_PROCESS_H

#include <limits.h>
#include <sys/types.h>

#include "pmi/pmix_channel.h"

typedef struct ring_pmix_process {
  pid_t pid; /* 0: there is no server */
  ring_pmix_channel channel;
  char directory[PATH_MAX];
} ring_pmix_process;

/* Starts the server, and does not wait for it. False with a reason. */
bool ring_pmix_process_start(ring_pmix_process *process, char problem[RING_PMIX_PROBLEM]);

/* Describes how the server, which has closed its end, has ended: "was killed by signal 9 (Killed)". */
void ring_pmix_process_describe(ring_pmix_process *process, char problem[RING_PMIX_PROBLEM]);

/* Ends the server in 2 seconds at most, removes its directory, and frees everything. */
void ring_pmix_process_end(ring_pmix_process *process);

/* In a forked child: frees what the child has of it. */
void ring_pmix_process_forget(ring_pmix_process *process);

#endif
