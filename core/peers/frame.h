/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: what travels on a link. Every frame is a header of RING_HEADER_BYTES and a payload, and
 * every header carries the signature of the call it belongs to. Both ends of a link know from their
 * schedules which frame comes next, so a receiver compares the header with the one it expects; a
 * difference means that the ranks called different things, or that the sender failed.
 *
 *   0 length u32 | 4 kind u8 | 5 collective u8 | 6 op u8 | 7 dtype u8
 *   8 sequence u32 | 12 root i32 | 16 count u64 | 24 digest u64
 *   32 check of the payload u32 | 36 check of all bytes before u32
 *
 * The checks (checksum.h) find what was damaged on the way. Where a link has a better check of its
 * own, or none is needed because the bytes never leave the memory, that of the payload is 0.
 *
 * A FAIL frame carries a status in `op`, the rank at fault in `root`, and the explanation as its
 * payload. A NOTICE comes between frames from a rank that waits (wait report.h), a DESCRIPTION before the
 * first frame of a call whose array has one: its text, padded with zeros.
 */
#ifndef RING_FRAME_H
#define RING_FRAME_H

#include <stdbool.h>

#include "sparkring.h"

/* X(name, value, "what the user called"). OPEN and CLOSE are the barriers inside
 * those calls, TELL the exchange that follows the former. */
#define RING_COLLECTIVE_MAP(X)                                                                     \
  X(OPEN, 1, "open")                                                                               \
  X(CLOSE, 2, "close")                                                                             \
  X(ALLREDUCE, 3, "allreduce")                                                                     \
  X(BROADCAST, 4, "broadcast")                                                                     \
  X(ALLGATHER, 5, "allgather")                                                                     \
  X(BARRIER, 6, "barrier")                                                                         \
  X(REDUCE, 7, "reduce")                                                                           \
  X(REDUCE_SCATTER, 8, "reduce_scatter")                                                           \
  X(GATHER, 9, "gather")                                                                           \
  X(SCATTER, 10, "scatter")                                                                        \
  X(ALLTOALL, 11, "alltoall")                                                                      \
  X(ALLGATHERV, 12, "allgatherv")                                                                  \
  X(GATHERV, 13, "gatherv")                                                                        \
  X(SCATTERV, 14, "scatterv")                                                                      \
  X(ALLTOALLV, 15, "alltoallv")                                                                    \
  X(MESSAGE, 16, "message")                                                                        \
  X(ALLREDUCE_GROUP, 17, "allreduce_group")                                                        \
  X(SPLIT, 18, "split")                                                                            \
  X(TELL, 19, "open")

typedef enum ring_collective {
#define RING_COLLECTIVE_ENUM(name, value, text) RING_COLLECTIVE_##name = value,
  RING_COLLECTIVE_MAP(RING_COLLECTIVE_ENUM)
#undef RING_COLLECTIVE_ENUM
} ring_collective;

/* Whether a call belongs to opening, which has one deadline for all of it. */
static inline bool ring_collective_opens(uint8_t collective) {
  return collective == RING_COLLECTIVE_OPEN || collective == RING_COLLECTIVE_TELL;
}

/* What a call has besides its dtype: an op, because it reduces; a root. */
bool ring_collective_reduces(uint8_t collective);
bool ring_collective_has_root(uint8_t collective);

/* "allreduce"; "unknown" for a value that is no collective. Static storage. */
const char *ring_collective_name(uint8_t collective);

/* The signature of a call. What a collective does not have (the root of an allreduce) is 0. A message
 * has its sender as root, and is numbered among those of its two ranks. */
typedef struct ring_call {
  uint8_t collective;
  uint8_t op;
  uint8_t dtype;
  uint32_t sequence; /* 0 for open, then 1, 2, ... */
  int32_t root;
  uint64_t count;  /* of a rank's part; of all together where counts are given */
  uint64_t digest; /* a digest of the counts where these are given, and of the array's description
                      (ring_comm_describe) where it has one; of open's selector (selector.h) */
} ring_call;

bool ring_call_is_same(const ring_call *one, const ring_call *other);

/* A call as it travels, in 27 bytes: collective u8 ... digest u64, as above. Both return, or move
 * *from to, what follows. */
uint8_t *ring_call_pack(const ring_call *call, uint8_t *to);
ring_call ring_call_unpack(const uint8_t **from);

enum {
  RING_FRAME_DATA = 1,
  RING_FRAME_FAIL = 2,
  RING_FRAME_WAIT_REPORT = 3,
  RING_FRAME_DESCRIPTION = 4
};

/* Of a header: what its receiver knows before it comes. */
#define RING_FRAME_KNOWN_BYTES 32

typedef struct ring_frame {
  uint8_t kind;
  uint32_t length; /* of the payload, in bytes */
  ring_call call;
  uint32_t check; /* of the payload, or 0 */
} ring_frame;

void ring_frame_pack(const ring_frame *frame, uint8_t header[RING_HEADER_BYTES]);

/* Whether a header is as it was sent; and the check of the payload that it tells. */
bool ring_frame_is_whole(const uint8_t header[RING_HEADER_BYTES]);
uint32_t ring_frame_check(const uint8_t header[RING_HEADER_BYTES]);

/* False when the header was damaged or cannot have come from this protocol. */
bool ring_frame_unpack(const uint8_t header[RING_HEADER_BYTES], ring_frame *frame);

/* "allreduce(count 10, float32, sum) as call 17"; enough room is RING_CALL_TEXT bytes. */
#define RING_CALL_TEXT 128
void ring_call_describe(const ring_call *call, char *text, size_t size);

/* The same with what is known of the array: "... as call 17, of names a, b". Enough room is
 * RING_CALL_LONG_TEXT bytes. description: NULL or "" where it is not known. */
#define RING_DESCRIPTION_BYTES 200 /* with the zero at its end; a multiple of 8 */
#define RING_CALL_LONG_TEXT (RING_CALL_TEXT + RING_DESCRIPTION_BYTES)
void ring_call_describe_array(const ring_call *call, const char *description, char *text,
                              size_t size);

#endif
