/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement: an error of some ranks reaches all ranks; strings of all ranks.
 */
#include "bindings/agree.h"

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
  return 0;
}
