/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol: a line of the program in, the answer out. No I/O.
 */
#ifndef RING_PMI_PMI_PROTOCOL_H
#define RING_PMI_PMI_PROTOCOL_H

#include "pmi/key_values.h"
#include "pmi/pmi_line.h"

#define RING_PMI_SPACE_MOST 256                      /* bytes of the name of the key-value space */
#define RING_PMI_UNFENCED_MOST ((size_t)1024 * 1024) /* bytes of pairs between two fences */
#define RING_PMI_ANSWER_MOST (RING_PMI_VALUE_MOST + 256)

/* The server's next step after a line. */
typedef enum ring_pmi_action {
  RING_PMI_ANSWER,   /* sends the answer */
  RING_PMI_FENCE,    /* carries out a fence, and sends the answer then */
  RING_PMI_NAME,     /* has rank 0 answer the line (name_service.h) */
  RING_PMI_ABORT,    /* the program has aborted; there is no answer */
  RING_PMI_CONTINUE, /* nothing: the request has more lines */
  RING_PMI_FAIL      /* the line is wrong, or there is no memory: `error` */
} ring_pmi_action;

/* The state of one connection. */
typedef struct ring_pmi_protocol {
  int rank, size;
  char space[RING_PMI_SPACE_MOST + 1];
  ring_key_values values;
  ring_pmi_state state;
  int exit_code;             /* of an abort */
  bool spawns;               /* inside the lines of a spawn */
  long spawned, spawn_total; /* its parts */
  ring_pmi_line line;        /* the last one */
  char answer[RING_PMI_ANSWER_MOST + 1];
  ring_error error;
} ring_pmi_protocol;

/* Takes a line without its newline. The answer has one. */
ring_pmi_action ring_pmi_protocol_take(ring_pmi_protocol *protocol, const char *text,
                                       size_t length);

#endif
