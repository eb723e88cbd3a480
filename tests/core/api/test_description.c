/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of arrays (ring_comm_describe): ranks whose arrays are alike in dtype and count but
 * described in different ways all get RING_MISMATCH, whose text shows both descriptions.
 */
#include <string.h>

#include "check.h"
#include "ranks.h"

enum { COUNT_MOST = 200000 };

static const size_t lengths[] = {
    2, 1500, COUNT_MOST}; /* in slots, in staging buffers or frames, in chunks */
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void describe(ring_comm *comm, const char *text) {
  ring_comm_describe(comm, ring_digest_add(RING_DIGEST_EMPTY, text, strlen(text)), text);
}

typedef enum how { ALLREDUCE, STARTED, GROUP, BROADCAST, ALLGATHERV, ALLTOALLV, HOWS } how;

/* One call of `count` elements a rank. */
static ring_status call(ring_comm *comm, how how, size_t count) {
  static int32_t in[COUNT_MOST], out[COUNT_MOST];
  size_t counts[RANKS_MAX] = {0};
  int size = ring_comm_size(comm);
  const ring_buffer buffers[] = {{in, out, count - 1}, {in + count - 1, out + count - 1, 1}};
  ring_request *request;
  ring_status status;
  for (int i = 0; i < size; i++) counts[i] = count / (size_t)size;
  for (size_t i = 0; i < count; i++) in[i] = (int32_t)i;
  switch (how) {
  case STARTED:
    status = ring_allreduce_start(comm, in, out, count, RING_INT32, RING_SUM, &request);
    if (status == RING_OK) status = ring_request_wait(request);
    ring_request_free(request);
    return status;
  case GROUP:
    return ring_allreduce_group(comm, buffers, 2, RING_INT32, RING_SUM);
  case BROADCAST:
    return ring_broadcast(comm, in, out, count, RING_INT32, 0);
  case ALLGATHERV:
    return ring_allgatherv(comm, in, out, counts, RING_INT32);
  case ALLTOALLV:
    return ring_alltoallv(comm, in, counts, out, counts, RING_INT32);
  default:
    status = ring_allreduce(comm, in, out, count, RING_INT32, RING_SUM);
    if (status == RING_OK) CHECK_INT(out[count - 1], size * ((int)count - 1));
    return status;
  }
}

/* ---- Alike --------------------------------------------------------------------------------- */

/* The same description twice, another one, none: a description holds for one call only. */
static void agree(ring_comm *comm, void *unused) {
  static const char *texts[] = {"names a, b", "names a, b", "dim 2, 3", ""};
  (void)unused;
  for (int i = 0; i < HOWS * LENGTHS * 4; i++) {
    if (texts[i % 4][0] != '\0') describe(comm, texts[i % 4]);
    CHECK_INT(call(comm, i / 4 % HOWS, lengths[i / 4 / HOWS]), RING_OK);
  }
  describe(comm, ring_comm_rank(comm) == 0 ? "one" : "another");
  CHECK_INT(ring_allreduce(comm, NULL, NULL, 1, RING_INT32, RING_SUM), RING_INVALID);
  CHECK_INT(call(comm, ALLREDUCE, 2), RING_OK);
}

static void test_ranks_that_agree(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, agree, NULL);
}

/* ---- Different ----------------------------------------------------------------------------- */

typedef struct difference {
  int opened, odd;
  how how;
  size_t count;
  const char *theirs; /* of the odd rank; "": it describes nothing */
} difference;

/* A rank that only sends reads it in close; one that is slow, in the call before. */
static void differ(int rank, int size, void *shared) {
  difference *of = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&of->opened, size);
  describe(comm, "names a, b");
  ring_status status = call(comm, ALLREDUCE, 2);
  const char *text = rank == of->odd ? of->theirs : "names b, c";
  if (text[0] != '\0') describe(comm, text);
  if (status == RING_OK) status = call(comm, of->how, of->count);
  CHECK(status == RING_MISMATCH || (of->how == BROADCAST && rank == 0));
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "as call 2, of names b, c");
  if (of->theirs[0] != '\0') CHECK_CONTAINS(ring_comm_error(comm)->message, of->theirs);
  ring_comm_free(comm);
}

static void test_every_rank_is_shown_both(void) {
  difference *of = shared_alloc(sizeof *of);
  for (int i = 0; i < HOWS * LENGTHS * 2; i++) {
    *of = (difference){.odd = i % 3,
                       .how = i % HOWS,
                       .count = lengths[i / HOWS % LENGTHS],
                       .theirs = i < HOWS * LENGTHS ? "class Date" : ""};
    run_ranks(3, differ, of);
  }
  shared_free(of, sizeof *of);
}

/* ---- Texts --------------------------------------------------------------------------------- */

static void describe_at_length(int rank, int size, void *shared) {
  char text[400] = "x", cut[200] = "x"; /* 1 + 2 * 99 bytes, and no half of a character */
  ring_comm *comm = open_rank(rank, size);
  for (size_t i = 1; i + 2 < sizeof text; i += 2) memcpy(text + i, "é", 3);
  memcpy(cut, text, 199);
  ranks_barrier(shared, size);
  if (rank == 0) describe(comm, text);
  CHECK_INT(call(comm, ALLREDUCE, 2), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, cut);
  CHECK(strstr(ring_comm_error(comm)->message, "é\xc3,") == NULL);
  ring_comm_free(comm);
}

static void test_a_long_text_is_cut_between_characters(void) {
  RUN_RANKS(2, describe_at_length, (int){0});
}

int main(void) {
  RUN(test_ranks_that_agree);
  RUN(test_every_rank_is_shown_both);
  RUN(test_a_long_text_is_cut_between_characters);
  return 0;
}
