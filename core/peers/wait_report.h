/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait reports: what ranks that wait tell each other, so that all know whom the whole job waits for. A
 * wait report says in which call its sender waits, and whom it suspects: each suspect with the call that it
 * was last known to be in. It is a frame of one size, which goes between two other frames over every
 * link that stands there. What a socket does not take of it at once goes before the next frame, and
 * what has come of one is kept until the rest does: a wait report never holds anything up.
 *
 *   frame   call of the sender; length and check of what follows
 *           count u8, three zeros, how long it has waited u32 (ms), then RING_SUSPECTS times
 *           rank i32, steps u32, state u8, collective u8, op u8, dtype u8, sequence u32, root i32,
 *           count u64, digest u64
 */
#ifndef RING_WAIT_REPORT_H
#define RING_WAIT_REPORT_H

#include "peers/frame.h"
#include "peers/peers.h"

#define RING_WAIT_REPORT_MOST_NS UINT64_C(10000000000) /* from one to its repetition */

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
struct ring_outbox {
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
};

/* Whether two wait reports suspect the same ranks, in the same calls. */
bool ring_wait_report_is_same(const ring_wait_report *one, const ring_wait_report *other);

/* Sends a wait report, or keeps it; one that is still kept whole is replaced. For a link that stands
 * between two frames. */
void ring_wait_report_send(ring_peer *peer, const ring_wait_report *report);

/* Sends the description of the array of a call, or keeps it; true when nothing is left of it. */
bool ring_wait_report_describe(ring_peer *peer, const ring_call *call, const char *description);

/* The description that a rank has sent of the array of its call, or "". */
const char *ring_wait_report_description(const ring_peer *peer, const ring_call *call);

/* Sends what is left of one; true when nothing is, or nothing can be sent any more. */
bool ring_wait_report_flush(ring_peer *peer);

/* Reads on in a wait report or description that is coming. 1: it is whole and kept; 0: not yet; or
 * -errno: -EBADMSG for one that was damaged or that no rank of this size says. */
int ring_wait_report_read(ring_peer *peer, int size);

/* Takes the header of a wait report, which has been read as that of a frame. */
void ring_wait_report_take(ring_peer *peer, const uint8_t *header);

#endif
