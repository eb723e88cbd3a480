/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: a thread that reads the lines of one program, answers them, and carries out fences through the
 * hub. It ends when all programs have ended, or with the first failure of a rank.
 *
 * Wake-ups. Each of the flags changes with the mutex, and `changed` is broadcast with it.
 *
 *   waits                on        until                            woken by
 *   the thread           changed   the links are open, or it is     ring_pmi_server_run, ring_pmi_server_cancel
 *                                  cancelled
 *   close, abort         changed   `over`                           the end of the thread
 *   the thread           wakeup    bytes of the program or of       the bytes; each completion of a transfer, also by
 *                                  PMIx, a transfer, `closing`      a failure; ring_pmi_server_wake
 */
#ifndef RING_PMI_PMI_SERVER_H
#define RING_PMI_PMI_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pmi/pmi_hub.h"
#include "pmi/pmi_protocol.h"
#include "pmi/pmix_side.h"

#define RING_PMI_VARIABLES 6
#define RING_PMI_VARIABLE_BYTES 48

struct ring_pmi {
  unsigned process;
  int rank;
  ring_messages *messages;
  char texts[RING_PMI_VARIABLES][RING_PMI_VARIABLE_BYTES];
  const char **environment;
  int wakeup[2]; /* a pipe that ends the sleep of the thread */
  pthread_t thread;
  bool threaded; /* of the one thread that calls serve, close and free */

  /* Guarded by the mutex. */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool begun;     /* the links are open */
  bool closing;   /* the program has ended */
  bool over;      /* the thread has nothing more to do */
  int program_fd; /* -1: closed in this process */
  ring_pmi_state state;
  int exit_code;
  ring_error failure; /* final once its status is not RING_OK */

  /* Of the thread alone. */
  int fd; /* -1: closed */
  ring_pmi_protocol protocol;
  ring_hub control; /* with the hub; its receive fails when any rank does */
  ring_pmi_hub hub; /* on rank 0 */
  ring_pmix_side pmix;
  ring_pmi_kind
      awaiting;   /* the kind of an answer of the hub, which comes before the next line; 0: none */
  bool ended;     /* the end of the program was reported to the hub */
  uint64_t grace; /* time at which a lost or aborted program fails; 0: it is neither */
  size_t length;  /* of the bytes that were read and are no whole line */
  char input[RING_PMI_LINE_MOST + 1];
};

/* Starts the thread, which waits for run or cancel. 0 or an errno. */
int ring_pmi_server_begin(ring_pmi *pmi);

/* Lets the thread serve: the links are open. Or ends it instead. */
void ring_pmi_server_run(ring_pmi *pmi);
void ring_pmi_server_cancel(ring_pmi *pmi);

/* Ends the sleep of the thread. */
void ring_pmi_server_wake(const ring_pmi *pmi);

/* Keeps why the servers have failed, unless an earlier failure is kept. Called with the mutex. */
void ring_pmi_server_keep(ring_pmi *pmi, const ring_error *error);

/* Waits for the thread, and frees its transfers, descriptors and memory. */
void ring_pmi_server_end(ring_pmi *pmi);

#endif
