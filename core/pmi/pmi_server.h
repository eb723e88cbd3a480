/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: a thread that reads the lines of one program, answers them, and carries out fences through the
 * hub. It ends when all programs have ended, or with the first failure of a rank.
 */
#ifndef RING_PMI_PMI_SERVER_H
#define RING_PMI_PMI_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pmi/hub.h"
#include "pmi/pmi_protocol.h"

#define RING_PMI_VARIABLES 5
#define RING_PMI_VARIABLE_BYTES 48

struct ring_pmi {
  unsigned process;
  int rank;
  ring_messages *messages;
  int program_fd; /* -1: the program has it alone */
  char texts[RING_PMI_VARIABLES][RING_PMI_VARIABLE_BYTES];
  const char *environment[RING_PMI_VARIABLES + 1];
  pthread_t thread;
  bool threaded;

  /* Guarded by the mutex. */
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* `over` has become true */
  bool closing;           /* the program has ended */
  bool over;              /* the thread ends; `failure` is final */
  ring_pmi_state state;
  int exit_code;
  ring_error failure;

  /* Of the thread alone. */
  int fd; /* -1: closed */
  ring_pmi_protocol protocol;
  ring_pmi_outbox outbox;
  ring_hub hub;           /* on rank 0 */
  ring_transfer *receive; /* from the hub, always posted: it fails when any rank does */
  bool awaiting;          /* an answer of the hub, before the next line */
  bool ended;             /* the hub has been told that the program has ended */
  uint64_t grace;         /* time at which a lost or aborted program fails; 0: it is neither */
  size_t length;          /* of the bytes that were read and are no whole line */
  char input[RING_PMI_LINE_MOST + 1];
};

/* Starts the thread. 0 or an errno. */
int ring_pmi_server_begin(ring_pmi *pmi);

/* Ends the servers of all ranks, unless they have failed before. */
void ring_pmi_server_break(ring_pmi *pmi, const ring_error *error);

/* The same with a text behind the rank at fault and its host. `fault`: the rank in the error. */
void ring_pmi_server_fail(ring_pmi *pmi, ring_status status, int fault, const char *text);

/* Frees what the thread had. The thread has ended. */
void ring_pmi_server_end(ring_pmi *pmi);

#endif
