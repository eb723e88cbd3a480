/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices: what ranks that wait tell each other, so that all know whom the whole job waits for. A
 * notice says in which call its sender waits, and whom it suspects: each suspect with the call that it
 * was last known to be in. It is a frame of one size, which goes between two other frames over every
 * link that stands there. What a socket does not take of it at once goes before the next frame, and
 * what has come of one is kept until the rest does: a notice never holds anything up.
 *
 *   frame   call of the sender; length and check of what follows
 *           count u8, three zeros, how long it has waited u32 (ms), then RING_SUSPECTS times
 *           rank i32, steps u32, state u8, collective u8, op u8, dtype u8, sequence u32, root i32,
 *           count u64, layout u64
 */
#ifndef RING_NOTICE_H
#define RING_NOTICE_H

#include "frame.h"
#include "peers.h"

#define RING_NOTICE_MOST_NS UINT64_C(10000000000) /* from one to its repetition */

#define RING_SUSPECTS 8
#define RING_NOTICE_BYTES (8 + 36 * RING_SUSPECTS) /* of its payload */
_Static_assert(RING_DESCRIPTION_BYTES <= RING_NOTICE_BYTES,
               "a description fits into a notice's place");

/* What is known of a suspect's call. */
enum {
  RING_SUSPECT_UNHEARD, /* nothing */
  RING_SUSPECT_HEARD,   /* it has done something in it, and may have finished it */
  RING_SUSPECT_WAITS,   /* it has said that it waits in it */
  RING_SUSPECT_STATE = 15,
  RING_SUSPECT_NEEDED = 16, /* besides: in the notice's own call, by all ranks from the sender on */
  RING_SUSPECT_OPENING = 32 /* besides: by ranks that open, for which others may wait */
};

typedef struct ring_suspect {
  int rank;
  uint32_t steps; /* to who waits for it: 0: the sender, 1: a rank that this one waits for */
  uint8_t state;
  ring_call call;
} ring_suspect;

typedef struct ring_notice {
  ring_call call; /* that its sender waits in */
  uint32_t
      waited; /* milliseconds, rounded up; 0: its sender waits no more, and takes back what it said */
  int count;
  ring_suspect suspects[RING_SUSPECTS];
} ring_notice;

/* The notices between this rank and one that it has a link to, and the descriptions of arrays, which
 * travel in the same place. A description is sent once, until another one is. */
struct ring_mail {
  uint8_t out[RING_HEADER_BYTES + RING_NOTICE_BYTES];
  size_t left; /* of it to send: its last bytes */
  uint8_t in[RING_HEADER_BYTES + RING_NOTICE_BYTES];
  size_t have;           /* of one that is coming */
  ring_notice last;      /* that came */
  uint64_t came;         /* when; 0: never */
  uint64_t behind;       /* bytes that had come when it did */
  uint64_t described;    /* the layout of the call whose description was sent last; 0: none was */
  bool describes;        /* `out` holds one */
  uint64_t their_layout; /* the same of what came last, */
  char their_description[RING_DESCRIPTION_BYTES];
};

/* Whether two notices suspect the same ranks, in the same calls. */
bool ring_notice_is_same(const ring_notice *one, const ring_notice *other);

/* Sends a notice, or keeps it; one that is still kept whole is replaced. For a link that stands
 * between two frames. */
void ring_notice_send(ring_peer *peer, const ring_notice *notice);

/* Sends the description of the array of a call, or keeps it; true when nothing is left of it. */
bool ring_notice_describe(ring_peer *peer, const ring_call *call, const char *description);

/* The description that a rank has sent of the array of its call, or "". */
const char *ring_notice_description(const ring_peer *peer, const ring_call *call);

/* Sends what is left of one; true when nothing is, or nothing can be sent any more. */
bool ring_notice_flush(ring_peer *peer);

/* Reads on in a notice or description that is coming. 1: it is whole and kept; 0: not yet; or
 * -errno: -EBADMSG for one that was damaged or that no rank of this size says. */
int ring_notice_read(ring_peer *peer, int size);

/* Takes the header of a notice, which has been read as that of a frame. */
void ring_notice_take(ring_peer *peer, const uint8_t *header);

#endif
