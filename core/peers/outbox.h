/* SPDX-License-Identifier: Apache-2.0
 *
 * The outbox of a link: the wait report that is being sent, the wait report that is being received,
 * and the last one received. Descriptions of arrays travel in the same place. Data only;
 * wait_report.h sends and receives.
 */
#ifndef RING_PEERS_OUTBOX_H
#define RING_PEERS_OUTBOX_H

#include "base/call.h"

#define RING_SUSPECTS 8
#define RING_WAIT_REPORT_BYTES (8 + 36 * RING_SUSPECTS) /* of its payload */
_Static_assert(RING_DESCRIPTION_BYTES <= RING_WAIT_REPORT_BYTES,
               "a description fits into a wait report's place");

/* What is known of a suspect's call. */
enum {
  RING_SUSPECT_UNSEEN, /* nothing */
  RING_SUSPECT_SEEN,   /* the suspect has sent something in it, and may have finished it */
  RING_SUSPECT_WAITS,  /* the suspect has reported that it waits in it */
  RING_SUSPECT_STATE = 15,
  RING_SUSPECT_NEEDED = 16, /* flag: in the report's own call, by all ranks from the sender on */
  RING_SUSPECT_OPENING = 32 /* flag: by ranks in open(), for which other ranks may wait */
};

typedef struct ring_suspect {
  int rank;
  uint32_t steps; /* of the wait graph: 0: the sender waits; 1: a rank that the sender waits for */
  uint8_t state;
  ring_call call;
} ring_suspect;

typedef struct ring_wait_report {
  ring_call call;  /* that the sender waits in */
  uint32_t waited; /* milliseconds, rounded up; 0: no longer, earlier reports are void */
  int count;
  ring_suspect suspects[RING_SUSPECTS];
} ring_wait_report;

/* A description is sent once, until another one is. */
typedef struct ring_outbox {
  uint8_t out[RING_HEADER_BYTES + RING_WAIT_REPORT_BYTES];
  size_t left; /* bytes of `out` that have to be sent: the last ones */
  uint8_t in[RING_HEADER_BYTES + RING_WAIT_REPORT_BYTES];
  size_t have;           /* bytes of `in` */
  ring_wait_report last; /* received */
  uint64_t came;         /* when the last one was received; 0: never */
  uint64_t behind;       /* bytes received on the link until then */
  uint64_t described;    /* digest of the call whose description was sent last; 0: none was */
  bool describes;        /* `out` holds a description */
  uint64_t their_digest; /* of the call whose description was received last */
  char their_description[RING_DESCRIPTION_BYTES];
} ring_outbox;

#endif
