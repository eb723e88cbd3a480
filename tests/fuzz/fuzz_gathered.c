/* SPDX-License-Identifier: Apache-2.0
 *
 * What bindings gather from hostile ranks: strings, agreements, numbers of rows, offsets of clocks. Whatever the other
 * ranks send, the result forgeries within what was received, or the communicator ends with an error.
 */
#include "bindings/agree.h"
#include "bindings/clock_offset.h"
#include "bindings/rows.h"
#include "forgeries.h"

enum { SIZE = 3 };

static ring_status gather_strings(ring_comm *comm, unsigned count) {
  const ring_string mine[3] = {{"one", 3}, {"", 0}, {"three", 5}};
  ring_strings all;
  uint64_t digest = 0;
  ring_status status = ring_strings_allgather(comm, mine, count % 4, &all);
  const ring_string *next = all.strings;
  for (int rank = 0; rank < SIZE && status == RING_OK; rank++) {
    if (rank == comm->peers.rank) FUZZ_PROMISE(all.counts[rank] == count % 4);
    for (size_t i = 0; i < all.counts[rank]; i++, next++)
      digest = ring_digest_add(digest, next->bytes, next->length);
  }
  FUZZ_PROMISE(digest != 1); /* every byte is read */
  ring_strings_free(&all);
  return status;
}

static ring_status agree(ring_comm *comm, unsigned fails) {
  const ring_string mine = {"why", 3};
  ring_agreement agreement;
  ring_status status = ring_agree(comm, fails % 2 == 0 ? NULL : &mine, &agreement);
  FUZZ_PROMISE(agreement.rank >= -1 && agreement.rank < SIZE);
  if (agreement.text != NULL) FUZZ_PROMISE(status == RING_OK && strlen(agreement.text) > 0);
  ring_agreement_free(&agreement);
  return status;
}

static ring_status exchange_rows(ring_comm *comm, unsigned which) {
  const size_t row_bytes = which % 64;
  const int64_t sent[SIZE] = {3, 0, 5};
  int64_t rows[SIZE], sum = 0;
  bool gathers = which < 128;
  ring_status status = gathers ? ring_rows_allgather(comm, 7, row_bytes, rows)
                               : ring_rows_alltoall(comm, sent, row_bytes, rows);
  for (int rank = 0; rank < SIZE && status == RING_OK; rank++) {
    FUZZ_PROMISE(rows[rank] >= 0 && !__builtin_add_overflow(sum, rows[rank], &sum));
    FUZZ_PROMISE(row_bytes == 0 || sum <= INT64_MAX / (int64_t)row_bytes);
  }
  if (status == RING_OK)
    FUZZ_PROMISE(rows[comm->peers.rank] == (gathers ? 7 : sent[comm->peers.rank]));
  return status;
}

static ring_status measure(ring_comm *comm) {
  ring_clock_offset offset;
  ring_status status = ring_clock_offset_measure(comm, &offset);
  if (status == RING_OK) FUZZ_PROMISE(offset.error >= 0 && offset.origin >= 0);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  unsigned which = input_byte(&from), how = input_byte(&from);
  ring_comm *comm = make_comm((int)(which / 4 % SIZE), SIZE);
  ring_status status;
  forgeries_begin(&from);
  switch (which % 4) {
  case 0:
    status = gather_strings(comm, how);
    break;
  case 1:
    status = agree(comm, how);
    break;
  case 2:
    status = exchange_rows(comm, how);
    break;
  default:
    status = measure(comm);
    break;
  }
  if (status != RING_OK) check_error(comm, status);
  ring_comm_free(comm);
  world_end();
  return 0;
}
