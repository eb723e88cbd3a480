/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports by which the servers of PMI open their links: to rank 0 from the other ranks, or from rank 0 to a rank.
 * After success the report names a rank that exists and has a problem with an end; every other end is an error.
 */
#include "pmi/pmi_control.h"
#include "pmi/pmi_links.h"
#include "posts.h"

enum { SIZE = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static uint8_t streams[SIZE][STREAM_MOST];
  static ring_link_ops ops[SIZE];
  size_t lengths[SIZE] = {0};
  input from = {bytes, length};
  int rank = (int)(input_byte(&from) % SIZE);
  ring_pmi_report report = {.code = (int)(input_byte(&from) % 4), .rank = rank};
  ring_comm *comm = make_comm(rank, SIZE);
  make_streams(&from, RING_PMI_LINKS, rank == 0, rank == 0 ? SIZE : 1, streams, lengths);
  for (int other = 0; other < SIZE; other++)
    if (other != rank)
      add_stream(comm, other, &ops[other], (input){streams[other], lengths[other]});
  ring_messages *messages = make_messages(comm);
  ring_status status = ring_pmi_open_links(messages, &report);
  const ring_error *error = ring_messages_error(messages);
  if (status == RING_OK) {
    FUZZ_PROMISE(report.rank >= 0 && report.rank < SIZE);
    FUZZ_PROMISE(memchr(report.problem, '\0', sizeof report.problem) != NULL);
  } else {
    FUZZ_PROMISE(error->status == status && error->rank >= -1 && error->rank < SIZE);
  }
  end_messages(messages, comm);
  return 0;
}
