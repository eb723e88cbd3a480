/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that move parts, and messages, over real links between forked ranks. Element i of the
 * part from rank `from` to rank `to` is a number that encodes all three.
 */
#include <stdbool.h>

#include "check.h"
#include "ranks.h"

enum { SIZE_MOST = 9, ANY = 99 };

static const size_t counts[] = {0, 1, 3, 1000, 70001};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static int32_t element(int from, int to, size_t i) {
  return (int32_t)((size_t)from * 100000000u + (size_t)to * 1000000u + i % 999983u);
}

static int32_t *make_part(int from, int to, size_t count) {
  int32_t *part = malloc((count + 1) * sizeof *part);
  for (size_t i = 0; i < count; i++) part[i] = element(from, to, i);
  return part;
}

static void check_part(const int32_t *part, int from, int to, size_t count) {
  for (size_t i = 0; i < count; i++) CHECK_INT(part[i], element(from, to, i));
}

/* Uneven counts, zeros among them; total is their sum. */
static size_t make_counts(size_t *parts, int size, size_t count) {
  size_t total = 0;
  for (int rank = 0; rank < size; rank++)
    total += parts[rank] = rank % 3 == 1 ? 0 : count / (size_t)(rank + 1) + (size_t)rank;
  return total;
}

static size_t begin_of(const size_t *parts, int rank) {
  size_t begin = 0;
  for (int i = 0; i < rank; i++) begin += parts[i];
  return begin;
}

static void check_parts(const int32_t *all, const size_t *parts, int size) {
  for (int from = 0; from < size; from++)
    check_part(all + begin_of(parts, from), from, ANY, parts[from]);
}

/* ---- Gathering ---------------------------------------------------------------------------- */

/* With `even` all parts have the same count, and the call without counts is made. root: -1 for
 * allgather. */
static ring_status gather_call(ring_comm *comm, const void *input, void *output,
                               const size_t *parts, bool even, int root) {
  if (root < 0 && even) return ring_allgather(comm, input, output, parts[0], RING_INT32);
  if (root < 0) return ring_allgatherv(comm, input, output, parts, RING_INT32);
  if (even) return ring_gather(comm, input, output, parts[0], RING_INT32, root);
  return ring_gatherv(comm, input, output, parts, RING_INT32, root);
}

static void gather_one(ring_comm *comm, const size_t *parts, size_t total, bool even, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  bool gets = root < 0 || rank == root;
  int32_t *input = make_part(rank, ANY, parts[rank]);
  int32_t *output = gets ? calloc(total + 1, sizeof *output) : NULL;
  CHECK_INT(gather_call(comm, input, output, parts, even, root), RING_OK);
  if (gets) check_parts(output, parts, size);
  int32_t *place = input;
  if (gets) {
    memset(output, 0, total * sizeof *output);
    place = output + begin_of(parts, rank);
    memcpy(place, input, parts[rank] * sizeof *input);
  }
  CHECK_INT(gather_call(comm, place, output, parts, even, root), RING_OK);
  if (gets) check_parts(output, parts, size);
  free(input);
  free(output);
}

static void gather_everything(ring_comm *comm, void *shared) {
  (void)shared;
  int size = ring_comm_size(comm);
  size_t parts[SIZE_MOST];
  for (int i = 0; i < COUNTS; i++)
    for (int root = -1; root < size; root++) {
      size_t total = make_counts(parts, size, counts[i]);
      gather_one(comm, parts, total, false, root);
      for (int rank = 0; rank < size; rank++) parts[rank] = counts[i];
      gather_one(comm, parts, counts[i] * (size_t)size, true, root);
    }
}

static void test_gather_and_allgather(void) {
  for (int size = 1; size <= 6; size++) run_comms(size, gather_everything, NULL);
  run_comms(SIZE_MOST, gather_everything, NULL);
}

/* ---- Scattering --------------------------------------------------------------------------- */

static ring_status scatter_call(ring_comm *comm, const void *input, void *output,
                                const size_t *parts, bool even, int root) {
  if (even) return ring_scatter(comm, input, output, parts[0], RING_INT32, root);
  return ring_scatterv(comm, input, output, parts, RING_INT32, root);
}

static void scatter_one(ring_comm *comm, const size_t *parts, size_t total, bool even, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int32_t *output = calloc(parts[rank] + 1, sizeof *output);
  int32_t *input = rank == root ? calloc(total + 1, sizeof *input) : NULL;
  for (int to = 0; input != NULL && to < size; to++)
    for (size_t i = 0; i < parts[to]; i++) input[begin_of(parts, to) + i] = element(root, to, i);
  CHECK_INT(scatter_call(comm, input, output, parts, even, root), RING_OK);
  check_part(output, root, rank, parts[rank]);
  int32_t *place = input != NULL ? input + begin_of(parts, rank) : output;
  CHECK_INT(scatter_call(comm, input, place, parts, even, root), RING_OK);
  check_part(place, root, rank, parts[rank]);
  free(input);
  free(output);
}

static void scatter_everything(ring_comm *comm, void *shared) {
  (void)shared;
  int size = ring_comm_size(comm);
  size_t parts[SIZE_MOST];
  for (int i = 0; i < COUNTS; i++)
    for (int root = 0; root < size; root++) {
      size_t total = make_counts(parts, size, counts[i]);
      scatter_one(comm, parts, total, false, root);
      for (int rank = 0; rank < size; rank++) parts[rank] = counts[i];
      scatter_one(comm, parts, counts[i] * (size_t)size, true, root);
    }
}

static void test_scatter(void) {
  for (int size = 1; size <= 6; size++) run_comms(size, scatter_everything, NULL);
  run_comms(SIZE_MOST, scatter_everything, NULL);
}

/* ---- All to all --------------------------------------------------------------------------- */

static void alltoall_one(ring_comm *comm, size_t count) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int32_t *input = calloc(count * (size_t)size + 1, sizeof *input);
  int32_t *output = calloc(count * (size_t)size + 1, sizeof *output);
  for (int to = 0; to < size; to++)
    for (size_t i = 0; i < count; i++) input[(size_t)to * count + i] = element(rank, to, i);
  CHECK_INT(ring_alltoall(comm, input, output, count, RING_INT32), RING_OK);
  for (int from = 0; from < size; from++)
    check_part(output + (size_t)from * count, from, rank, count);
  free(input);
  free(output);
}

/* The count that rank `from` sends to `to`: 0 for some, and different for any two ranks. */
static size_t sent(int from, int to, size_t count) {
  return (from + 2 * to) % 4 == 0 ? 0 : count / (size_t)(from + 1) + (size_t)to;
}

static void alltoallv_one(ring_comm *comm, size_t count) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t sends[SIZE_MOST], receives[SIZE_MOST];
  for (int peer = 0; peer < size; peer++) {
    sends[peer] = sent(rank, peer, count);
    receives[peer] = sent(peer, rank, count);
  }
  int32_t *input = calloc(begin_of(sends, size) + 1, sizeof *input);
  int32_t *output = calloc(begin_of(receives, size) + 1, sizeof *output);
  for (int to = 0; to < size; to++)
    for (size_t i = 0; i < sends[to]; i++) input[begin_of(sends, to) + i] = element(rank, to, i);
  CHECK_INT(ring_alltoallv(comm, input, sends, output, receives, RING_INT32), RING_OK);
  for (int from = 0; from < size; from++)
    check_part(output + begin_of(receives, from), from, rank, receives[from]);
  free(input);
  free(output);
}

static void alltoall_everything(ring_comm *comm, void *shared) {
  (void)shared;
  for (int i = 0; i < COUNTS; i++) {
    alltoall_one(comm, counts[i]);
    alltoallv_one(comm, counts[i]);
  }
}

static void test_alltoall(void) {
  for (int size = 1; size <= 6; size++) run_comms(size, alltoall_everything, NULL);
  run_comms(SIZE_MOST, alltoall_everything, NULL); /* from 8 ranks on Bruck's for the short ones */
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* All ranks send to all, in rounds in which one half sends and the other receives, with a
 * collective in between. */
static void messages_everything(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int i = 0; i < COUNTS; i++)
    for (int from = 0; from < size; from++) {
      for (int to = 0; to < size; to++) {
        if (to == from) continue;
        int32_t *part = make_part(from, to, counts[i]);
        if (rank == from) CHECK_INT(ring_send(comm, part, counts[i], RING_INT32, to), RING_OK);
        memset(part, 0, counts[i] * sizeof *part);
        if (rank == to) {
          CHECK_INT(ring_recv(comm, part, counts[i], RING_INT32, from), RING_OK);
          check_part(part, from, to, counts[i]);
        }
        free(part);
      }
      CHECK_INT(ring_barrier(comm), RING_OK);
    }
}

static void test_messages(void) {
  for (int size = 1; size <= 5; size++) run_comms(size, messages_everything, NULL);
}

/* ---- Wrong -------------------------------------------------------------------------------- */

typedef struct disagreement {
  int which;
  int opened;
} disagreement;

static void disagree(ring_comm *comm, void *shared) {
  disagreement *disagreement = shared;
  int rank = ring_comm_rank(comm);
  int32_t x[8] = {0}, y[8];
  size_t two[] = {2, 2}, three[] = {2, 3}, one_each[] = {1, 1};
  ranks_barrier(&disagreement->opened, 2);
  ring_status status = RING_OK;
  const char *text = "the ranks made different calls";
  switch (disagreement->which) {
  case 0: /* rank 0 sends rank 1 three elements, which expects two */
    status = ring_alltoallv(comm, x, rank == 0 ? three : two, y, two, RING_INT32);
    text = "rank 0 sends 12 bytes where rank 1 expects 8";
    if (rank == 0) status = ring_barrier(comm);
    break;
  case 1:
    status =
        rank == 0 ? ring_send(comm, x, 3, RING_INT32, 1) : ring_recv(comm, y, 4, RING_INT32, 0);
    if (rank == 0) status = ring_barrier(comm);
    break;
  case 2:
    status = rank == 0 ? ring_recv(comm, x, 3, RING_INT32, 1) : ring_barrier(comm);
    break;
  case 3:
    status =
        ring_scatterv(comm, rank == 0 ? x : NULL, y, rank == 0 ? two : one_each, RING_INT32, 0);
    if (rank == 0) status = ring_barrier(comm);
    break;
  }
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, text);
  ring_comm_free(comm);
  exit(0);
}

static void test_disagreements(void) {
  disagreement *shared = shared_alloc(sizeof *shared);
  for (shared->which = 0; shared->which <= 3; shared->which++, shared->opened = 0)
    run_comms(2, disagree, shared);
  shared_free(shared, sizeof *shared);
}

static void bad_arguments(ring_comm *comm, void *shared) {
  (void)shared;
  int32_t x[8] = {0}, y[8] = {0};
  size_t huge[] = {SIZE_MAX / 2, SIZE_MAX / 2}, two[] = {2, 2}, skewed[] = {1, 3};
  int rank = ring_comm_rank(comm);
  CHECK_INT(ring_reduce(comm, x, y, 4, RING_INT32, RING_SUM, 2), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "reduce: root 2 is no rank");
  CHECK_INT(ring_reduce(comm, x, y, 4, RING_FLOAT32, RING_LOR, 0), RING_INVALID);
  CHECK_INT(ring_reduce_scatter(comm, x, x + 1, 4, RING_INT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "reduce_scatter: input overlaps output");
  CHECK_INT(ring_gather(comm, x, y, 4, RING_INT32, -1), RING_INVALID);
  CHECK_INT(ring_gatherv(comm, x, y, NULL, RING_INT32, 0), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "gatherv: counts is NULL");
  CHECK_INT(ring_allgatherv(comm, x, y, huge, RING_INT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "larger than memory");
  CHECK_INT(ring_alltoall(comm, x, x, 2, RING_INT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "alltoall: input overlaps output");
  CHECK_INT(ring_alltoallv(comm, x, NULL, y, two, RING_INT32), RING_INVALID);
  CHECK_INT(ring_alltoallv(comm, x, two, y, skewed, RING_INT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "sends itself 2 elements but receives");
  CHECK_INT(ring_send(comm, x, 1, RING_INT32, rank), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "peer is this rank itself");
  CHECK_INT(ring_recv(comm, x, 1, RING_INT32, 2), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "peer 2 is no rank");
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void test_bad_arguments(void) {
  run_comms(2, bad_arguments, NULL);
}

int main(void) {
  RUN(test_gather_and_allgather);
  RUN(test_scatter);
  RUN(test_alltoall);
  RUN(test_messages);
  RUN(test_disagreements);
  RUN(test_bad_arguments);
  return 0;
}
