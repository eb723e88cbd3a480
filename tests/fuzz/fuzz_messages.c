/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of messages from another rank, to one that has started sends and receives: the input chooses which, and
 * then has the stream, as frames whose fields are given or as raw bytes. Whatever comes, nothing is written outside
 * a buffer; a receive that is done well has a message that it takes; and where the messages fail, so does every
 * transfer, with an error that names a rank which exists, or none.
 */
#include "posts.h"

enum { SIZE = 3, SELF = 1, PEER = 2, ROOM = 64, TRANSFERS = 6, BYTES_MOST = 1 << 18 };

static uint8_t stream[BYTES_MOST];

/* Announces no more than `scale` can with `shifts`: a receive that takes allocates what a rank announces. */
static size_t add_frame(input *from, uint8_t *to, unsigned shifts) {
  ring_message_frame frame = {.kind = (ring_message_kind)(input_byte(from) % 9),
                              .dtype = (uint8_t)input_byte(from),
                              .tag = (int8_t)input_byte(from),
                              .number = input_byte(from)};
  unsigned scale = input_byte(from);
  input payload = input_piece(from);
  frame.bytes = scale < 128 ? payload.left : (uint64_t)scale << (scale % shifts);
  return put_frame(to, &frame, payload);
}

static input make_stream(input *from, bool raw, unsigned shifts) {
  size_t length = 0;
  if (raw) return input_cut(from, BYTES_MOST);
  while (from->left > 0 && length + RING_HEADER_BYTES + UINT16_MAX < BYTES_MOST)
    length += add_frame(from, stream + length, shifts);
  return (input){stream, length};
}

static void begin_transfers(ring_messages *messages, unsigned which, ring_transfer **transfers,
                            uint8_t (*rooms)[ROOM], const uint8_t *much) {
  for (int i = 0; i < TRANSFERS; i++) {
    ring_transfer *made = ring_transfer_make(NULL);
    FUZZ_PROMISE(made != NULL);
    made->sends = i >= 4;
    made->takes = i == 3;
    made->peer = i == 1 ? RING_ANY_SOURCE : PEER;
    made->tag = i == 2 ? RING_ANY_TAG : i;
    made->dtype = RING_INT32;
    made->memory = made->sends ? (uint8_t *)(uintptr_t)much : rooms[i];
    made->bytes = made->takes ? 0 : made->sends ? (size_t)4 * RING_EAGER_BYTES : ROOM;
    transfers[i] = (which >> i & 1) != 0 ? made : NULL;
    if (transfers[i] != NULL)
      ring_protocol_begin(messages, made);
    else
      free(made);
  }
}

static void end_transfer(const ring_messages *messages, ring_transfer *transfer) {
  if (transfer == NULL) return;
  FUZZ_PROMISE(!messages->broken || transfer_is_done(transfer));
  if (transfer_is_done(transfer) && transfer->status != RING_OK)
    FUZZ_PROMISE(transfer->error->rank >= -1 && transfer->error->rank < SIZE);
  if (transfer_is_done(transfer) && transfer->status == RING_OK && !transfer->sends)
    FUZZ_PROMISE(transfer->takes || (transfer->info.dtype == RING_INT32 &&
                                     transfer->info.count <= ROOM / sizeof(int32_t)));
  ring_transfer_clear(transfer);
  free(transfer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static uint8_t much[4 * RING_EAGER_BYTES];
  _Alignas(16) uint8_t rooms[TRANSFERS][ROOM];
  ring_transfer *transfers[TRANSFERS];
  input from = {bytes, length};
  unsigned which = input_byte(&from);
  bool takes = (which >> 3 & 1) != 0;
  bool raw = (input_byte(&from) & 1) != 0 && !takes;
  ring_comm *comm = make_comm(SELF, SIZE);
  ring_link_ops ops;
  add_stream(comm, PEER, &ops, make_stream(&from, raw, takes ? 22 : 40));
  ring_messages *messages = make_messages(comm);
  begin_transfers(messages, which, transfers, rooms, much);
  for (int turn = 0; turn < 8 && !messages->broken; turn++) {
    messages->wants = false; /* there is no other rank */
    ring_message_turn(messages, true);
  }
  for (int i = 0; i < TRANSFERS; i++) end_transfer(messages, transfers[i]);
  end_messages(messages, comm);
  return 0;
}
