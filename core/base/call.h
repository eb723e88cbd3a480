/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: the collectives, and the signature by which ranks see that they make the same call. It is
 * packed into the header of every frame (peers/frame.h) and into shared memory.
 */
#ifndef RING_BASE_CALL_H
#define RING_BASE_CALL_H

#include <stdbool.h>

#include "sparkring.h"

/* Every message on a link is a header of this many bytes and a payload (peers/frame.h). */
#define RING_HEADER_BYTES 40

/* The longest payload of a frame: steps are cut into chunks of this size. */
#define RING_CHUNK_BYTES (256 * 1024)

/* X(name, value, "the name of the user's call"). OPEN and CLOSE are the barriers inside the calls of
 * that name; OPEN_ALLGATHER is the exchange that follows OPEN. */
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
  X(OPEN_ALLGATHER, 19, "open")                                                                    \
  X(SCAN, 20, "scan")                                                                              \
  X(EXSCAN, 21, "exscan")                                                                          \
  X(REDUCE_SCATTERV, 22, "reduce_scatterv")                                                        \
  X(ALLGATHER_GROUP, 23, "allgather_group")                                                        \
  X(REDUCE_SCATTER_GROUP, 24, "reduce_scatter_group")                                              \
  X(BROADCAST_GROUP, 25, "broadcast_group")

typedef enum ring_collective {
#define RING_COLLECTIVE_ENUM(name, value, text) RING_COLLECTIVE_##name = value,
  RING_COLLECTIVE_MAP(RING_COLLECTIVE_ENUM)
#undef RING_COLLECTIVE_ENUM
} ring_collective;

enum { RING_COLLECTIVE_LAST = RING_COLLECTIVE_BROADCAST_GROUP };

/* The dtype of a group whose buffers have several. */
enum { RING_CALL_MIXED = UINT8_MAX - 1 };

/* Whether a call belongs to opening, which has one deadline for all of it. */
static inline bool ring_collective_opens(uint8_t collective) {
  return collective == RING_COLLECTIVE_OPEN || collective == RING_COLLECTIVE_OPEN_ALLGATHER;
}

/* A call may have an op, because it reduces, a root, and one count for each rank. */
bool ring_collective_reduces(uint8_t collective);
bool ring_collective_has_root(uint8_t collective);
bool ring_collective_has_counts(uint8_t collective);

/* The collective that a group makes of each buffer; 0 for a collective that is no group. */
uint8_t ring_collective_of_group(uint8_t collective);

/* Whether rank r gets part r of a reduction. */
static inline bool ring_collective_scatters_sums(uint8_t collective) {
  return collective == RING_COLLECTIVE_REDUCE_SCATTER ||
         collective == RING_COLLECTIVE_REDUCE_SCATTERV;
}

/* Scan and exscan, whose result differs from rank to rank. */
static inline bool ring_collective_scans(uint8_t collective) {
  return collective == RING_COLLECTIVE_SCAN || collective == RING_COLLECTIVE_EXSCAN;
}

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
  uint64_t count; /* of a rank's part; of all together where counts are given */
  uint64_t
      digest; /* of the counts where these are given, and of the array's description where it has
                      one (ring_comm_describe); in open(), of the selector (tuner/selector.h) */
} ring_call;

bool ring_call_is_same(const ring_call *one, const ring_call *other);

/* A call as it travels, in 27 bytes: collective u8, op u8, dtype u8, sequence u32, root i32, count u64,
 * digest u64. Both return, or move *from to, what follows. */
uint8_t *ring_call_pack(const ring_call *call, uint8_t *to);
ring_call ring_call_unpack(const uint8_t **from);

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
