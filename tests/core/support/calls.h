/* SPDX-License-Identifier: Apache-2.0
 *
 * A call as data: whatever a rank can call of a communicator, with its arguments, so that a test can
 * make up programs of calls, let ranks run them, and decide for each call whether a rank can know that
 * another one has not made it.
 *
 * A message goes from root to peer and concerns nobody else.
 */
#ifndef RING_CALLS_H
#define RING_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "sparkring.h"

/* X(name, what a rank needs for it to succeed: ALL ranks; all for the root and nobody else; the root
 * but for the root, which needs nobody) */
#define CALL_KIND_MAP(X)                                                                           \
  X(allreduce, ALL)                                                                                \
  X(allreduce_group, ALL)                                                                          \
  X(reduce, ALL_FOR_ROOT)                                                                          \
  X(reduce_scatter, ALL)                                                                           \
  X(broadcast, ROOT)                                                                               \
  X(allgather, ALL)                                                                                \
  X(allgatherv, ALL)                                                                               \
  X(gather, ALL_FOR_ROOT)                                                                          \
  X(gatherv, ALL_FOR_ROOT)                                                                         \
  X(scatter, ROOT)                                                                                 \
  X(scatterv, ROOT)                                                                                \
  X(alltoall, ALL)                                                                                 \
  X(alltoallv, ALL)                                                                                \
  X(barrier, ALL)                                                                                  \
  X(split, ALL)                                                                                    \
  X(message, ROOT)

typedef enum call_kind {
#define CALL_KIND_ENUM(name, needs) CALL_##name,
  CALL_KIND_MAP(CALL_KIND_ENUM)
#undef CALL_KIND_ENUM
#define CALL_KIND_COUNT(name, needs) +1
      CALL_KINDS = 0 CALL_KIND_MAP(CALL_KIND_COUNT)
#undef CALL_KIND_COUNT
} call_kind;

enum { CALL_RANKS = 8, CALL_BUFFERS = 3 };

typedef struct call {
  call_kind kind;
  ring_dtype dtype;
  ring_op op;
  size_t count; /* of a rank's part */
  int root, peer;
  int buffers; /* of a group */
  bool skewed; /* counts: rank 0 has an element less, and the last rank one more */
  bool sends;  /* alltoallv: this rank sends an element more to each other rank */
  bool arena;  /* buffers are in memory that the ranks of a host share */
} call;

/* What the kind is called in errors: "allreduce". */
const char *call_name(call_kind kind);

bool call_reduces(call_kind kind);
bool call_has_root(call_kind kind);
bool call_has_counts(call_kind kind);

/* Whether the rank takes part. */
bool call_concerns(const call *of, int rank);

/* Whether a rank's success proves that `other` has made the same call. */
bool call_needs(const call *of, int rank, int other);

/* Makes the call on zeroed buffers of its own. *child is what a split has made. */
ring_status call_run(const call *of, ring_comm *comm, ring_comm **child);

/* "reduce(count 8, float32, sum, root 0)" */
void call_print(const call *of, char *text, size_t size);

#endif
