/* SPDX-License-Identifier: Apache-2.0
 *
 * The outbox of a link: the wait report that is being sent, the one that is being received, and the last
 * one received. Descriptions of arrays travel in the same place. Data only: wait_report.h sends and
 * receives.
 */
#ifndef RING_PEERS_OUTBOX_H
#define RING_PEERS_OUTBOX_H

#include "base/call.h"

#define RING_SUSPECTS 8
#define RING_WAIT_REPORT_BYTES (8 + 36 * RING_SUSPECTS) /* of its payload */
_Static_assert(RING_DESCRIPTION_BYTES <= RING_WAIT_REPORT_BYTES,
               "a description fits into a notice's place");

/* What is known of a suspect's call. */
enum {
  RING_SUSPECT_UNHEARD, /* nothing */
  RING_SUSPECT_HEARD,   /* it has done something in it, and may have finished it */
  RING_SUSPECT_WAITS,   /* it has said that it waits in it */
  RING_SUSPECT_STATE = 15,
  RING_SUSPECT_NEEDED =
      16, /* besides: in the wait report's own call, by all ranks from the sender on */
  RING_SUSPECT_OPENING = 32 /* besides: by ranks that open, for which others may wait */
};

typedef struct ring_suspect {
  int rank;
  uint32_t steps; /* to who waits for it: 0: the sender, 1: a rank that this one waits for */
  uint8_t state;
  ring_call call;
} ring_suspect;

typedef struct ring_wait_report {
  ring_call call; /* that its sender waits in */
  uint32_t
      waited; /* milliseconds, rounded up; 0: its sender waits no more, and takes back what it said */
  int count;
  ring_suspect suspects[RING_SUSPECTS];
} ring_wait_report;

/* The wait reports between this rank and one that it has a link to, and the descriptions of arrays, which
 * travel in the same place. A description is sent once, until another one is. */
typedef struct ring_outbox {
  uint8_t out[RING_HEADER_BYTES + RING_WAIT_REPORT_BYTES];
  size_t left; /* of it to send: its last bytes */
  uint8_t in[RING_HEADER_BYTES + RING_WAIT_REPORT_BYTES];
  size_t have;           /* of one that is coming */
  ring_wait_report last; /* that came */
  uint64_t came;         /* when; 0: never */
  uint64_t behind;       /* bytes that had come when it did */
  uint64_t described;    /* the digest of the call whose description was sent last; 0: none was */
  bool describes;        /* `out` holds one */
  uint64_t their_digest; /* the same of what came last, */
  char their_description[RING_DESCRIPTION_BYTES];
} ring_outbox;

#endif
