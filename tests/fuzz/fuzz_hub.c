/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages of PMI between ranks: to the hub of rank 0 from two other ranks, and from a hub to the PMIx side of
 * a host. A message that is good is handled, and every other one is an error that names a rank.
 */
#include <unistd.h>

#include "base/error.h"
#include "messages/protocol.h"
#include "pmi/name_service.h"
#include "pmi/pmi_hub.h"
#include "pmi/pmix_side.h"
#include "posts.h"

enum { SIZE = 3 };

static void check_failure(const ring_error *error) {
  FUZZ_PROMISE(error->status != RING_OK && error->message[0] != '\0');
  FUZZ_PROMISE(error->rank >= -1 && error->rank < SIZE);
}

/* Each turn takes one control message at most. */
static void serve(ring_messages *messages) {
  static const int nodes[SIZE] = {0, 1, 1};
  ring_pmi_hub hub;
  ring_error error = {.status = RING_OK};
  ring_status status = ring_pmi_hub_begin(&hub, messages, nodes, SIZE, &error);
  FUZZ_PROMISE(status == RING_OK);
  for (int turn = 0; turn < 64 && status == RING_OK; turn++) {
    bool moved = false;
    messages_lock(messages);
    if (!messages->broken) ring_message_turn(messages, true);
    messages_unlock(messages);
    status = ring_pmi_hub_turn(&hub, &moved, &error);
  }
  if (status != RING_OK) check_failure(&error);
  if (status == RING_OK) ring_error_set(&error, RING_ABORTED, 0, 0, "the target ends");
  messages_lock(messages);
  ring_protocol_fail(messages, &error);
  messages_unlock(messages);
  ring_pmi_hub_end(&hub);
}

/* What the PMIx side of a host takes from the hub. Its server is at the other end of a connection. */
static void take(ring_messages *messages, input *from) {
  ring_pmix_side side = {.messages = messages, .rank = 0, .size = SIZE, .host = 0, .served = true};
  ring_error error = {.status = RING_OK};
  ring_status status = RING_OK;
  side.process.pid = 1; /* it leads; nothing ends the process */
  side.process.channel.fd = world_connection((input){NULL, 0}, (input){NULL, 0});
  while (from->left > 0 && status == RING_OK) {
    char kind = (char)input_byte(from);
    input piece = input_piece(from);
    if (ring_name_service_is_answer((const char *)piece.at, piece.left))
      FUZZ_PROMISE(piece.at[piece.left - 1] == '\n' && piece.left <= RING_PMI_ANSWER_MOST);
    if (ring_pmix_side_takes(kind))
      status = ring_pmix_side_take(&side, kind, (const char *)piece.at, piece.left, &error);
  }
  if (status != RING_OK) check_failure(&error);
  free(side.process.channel.output.bytes);
  free(side.process.channel.input.bytes);
  close(side.process.channel.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static uint8_t streams[SIZE][STREAM_MOST];
  static ring_link_ops ops[SIZE];
  size_t lengths[SIZE] = {0};
  input from = {bytes, length};
  bool serves = input_byte(&from) % 4 != 0;
  ring_comm *comm = make_comm(0, SIZE);
  if (serves) make_streams(&from, RING_PMI_TO_HUB, 1, SIZE, streams, lengths);
  for (int rank = 1; rank < SIZE; rank++)
    add_stream(comm, rank, &ops[rank], (input){streams[rank], lengths[rank]});
  ring_messages *messages = make_messages(comm);
  if (serves)
    serve(messages);
  else
    take(messages, &from);
  end_messages(messages, comm);
  return 0;
}
