/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement: an error of some ranks reaches all ranks; strings of all ranks; a rank that forges its strings.
 */
#include "bindings/agree.h"

#include <stdbool.h>

#include "check.h"
#include "ranks.h"

static ring_string string_of(const char *text) {
  return (ring_string){text, strlen(text)};
}

static void check_usable(ring_comm *comm) {
  int32_t one = 1;
  CHECK_INT(ring_allreduce(comm, &one, &one, 1, RING_INT32, RING_SUM), RING_OK);
  CHECK_INT(one, ring_comm_size(comm));
}

static void agree_on_success(ring_comm *comm, void *shared) {
  (void)shared;
  ring_agreement agreement;
  CHECK_INT(ring_agree(comm, NULL, &agreement), RING_OK);
  CHECK_INT(agreement.rank, -1);
  CHECK(agreement.text == NULL);
  check_usable(comm);
}

/* All but rank 0 fail; the text may be empty. */
static void agree_on_failures(ring_comm *comm, void *shared) {
  int rank = ring_comm_rank(comm);
  const char *why = *(const char **)shared;
  ring_string text = string_of(why);
  ring_agreement agreement;
  CHECK_INT(ring_agree(comm, rank == 0 ? NULL : &text, &agreement), RING_OK);
  CHECK_INT(agreement.rank, 1);
  char expected[2048];
  snprintf(expected, sizeof expected, "rank 1 (%s) failed: %s", ring_comm_host(comm, 1), why);
  CHECK(strcmp(agreement.text, expected) == 0);
  ring_agreement_free(&agreement);
  check_usable(comm);
}

/* Rank r has r strings: "", "1", "22", ... */
static void gather_strings(ring_comm *comm, void *shared) {
  (void)shared;
  static const char *const texts[] = {"", "1", "22", "\xc3\xa9\xc3\xa9"};
  ring_string mine[4];
  for (int i = 0; i < 4; i++) mine[i] = string_of(texts[i]);
  ring_strings all;
  CHECK_INT(ring_strings_allgather(comm, mine, (size_t)ring_comm_rank(comm), &all), RING_OK);
  const ring_string *next = all.strings;
  for (int rank = 0; rank < ring_comm_size(comm); rank++) {
    CHECK_INT(all.counts[rank], rank);
    for (int i = 0; i < rank; i++, next++) {
      CHECK_INT(next->length, strlen(texts[i]));
      CHECK(memcmp(next->bytes, texts[i], next->length) == 0);
    }
  }
  ring_strings_free(&all);
}

/* Numbers of rank 1 in place of those of one string with three bytes. */
typedef struct forgery {
  int64_t count, bytes, length;
  const char *text;
} forgery;

/* Rank 1 makes the calls of ring_strings_allgather by hand. */
static void forge(ring_comm *comm, const forgery *forged) {
  const int64_t own[2] = {forged->count, forged->bytes};
  int64_t totals[6], lengths[64];
  char memory[64];
  size_t counts[3], bytes[3];
  if (ring_allgather(comm, own, totals, 2, RING_INT64) != RING_OK) return;
  for (int rank = 0; rank < 3; rank++) counts[rank] = (size_t)totals[2 * rank];
  for (int rank = 0; rank < 3; rank++) bytes[rank] = (size_t)totals[2 * rank + 1];
  if (forged->count != 1 || forged->bytes != 3) return;
  if (ring_allgatherv(comm, &forged->length, lengths, counts, RING_INT64) == RING_OK)
    ring_allgatherv(comm, "abc", memory, bytes, RING_UINT8);
}

static void try_forgery(ring_comm *comm, const forgery *forged, bool agrees) {
  const ring_string mine = {"abc", 3};
  double failed = 1;
  if (ring_comm_rank(comm) == 1) {
    if (agrees) ring_allreduce(comm, &failed, &failed, 1, RING_FLOAT64, RING_SUM);
    forge(comm, forged);
  } else if (agrees) {
    ring_agreement agreement;
    ranks_expect(comm, ring_agree(comm, &mine, &agreement), RING_MISMATCH, 1, forged->text);
    CHECK(agreement.text == NULL);
  } else {
    ring_strings all;
    ranks_expect(comm, ring_strings_allgather(comm, &mine, 1, &all), RING_MISMATCH, 1,
                 forged->text);
    ring_strings_free(&all);
  }
}

static void forge_about_strings(int rank, int size, void *shared) {
  (void)shared;
  static const char number[] = "rank 1 (127.0.0.1) sent an impossible number of strings";
  static const char sum[] = "rank 1 (127.0.0.1) sent strings whose lengths do not add up";
  static const forgery forgeries[] = {{-1, 3, 0, number},
                                      {1, -3, 0, number},
                                      {INT64_MAX, 3, 0, number},
                                      {1, INT64_MAX, 0, number},
                                      {1, 3, -7, sum},
                                      {1, 3, 100000000, sum},
                                      {1, 3, 2, sum},
                                      {1, 3, INT64_MIN, sum}};
  for (size_t i = 0; i < 2 * (sizeof forgeries / sizeof *forgeries); i++) {
    ring_comm *comm = open_rank(rank, size);
    try_forgery(comm, &forgeries[i / 2], i % 2 == 1);
    ring_barrier(comm); /* which fails on all ranks: none leaves before the others know */
    ring_comm_free(comm);
  }
}

static void test_forgeries(void) {
  run_ranks(3, forge_about_strings, NULL);
}

static void test_success(void) {
  for (int size = 1; size <= 3; size++) run_comms(size, agree_on_success, NULL);
}

static void test_failures(void) {
  char longer[1501];
  memset(longer, 'x', 1500);
  longer[1500] = '\0';
  const char *whys[] = {"no such file", "", "100% \xc3\xa9", longer};
  for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) run_comms(3, agree_on_failures, &whys[i]);
}

static void test_strings(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, gather_strings, NULL);
}

int main(void) {
  RUN(test_success);
  RUN(test_failures);
  RUN(test_strings);
  RUN(test_forgeries);
  return 0;
}
