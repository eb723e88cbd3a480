/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait reports of ranks that wait, to one that waits in a call: what it believes of whom the job waits for,
 * and its warnings then. The input is the call, the size, and the wait reports of each other rank: the call
 * of the frame and its payload as it is read; some have come when the call begins, and others come
 * while it waits. No rank sends anything else, so the call fails, with an error that names a rank which
 * exists, or none; before that it warns.
 */
#include "base/bytes.h"
#include "comms.h"

enum { SIZE_MOST = 5, COUNT = 40, NOTICES_MOST = 4 };
enum { FRAME = RING_HEADER_BYTES + RING_WAIT_REPORT_BYTES };

/* The bytes of each rank, until the world ends. */
static uint8_t reports[SIZE_MOST][NOTICES_MOST * FRAME];

static ring_call read_call(input *from) {
  uint8_t bytes[27] = {0};
  const uint8_t *at = bytes;
  input call = input_cut(from, sizeof bytes);
  ring_call made = {.collective = 0};
  if (call.left > 0) memcpy(bytes, call.at, call.left);
  made.collective = (uint8_t)bytes_get(&at, 1);
  made.op = (uint8_t)bytes_get(&at, 1);
  made.dtype = (uint8_t)bytes_get(&at, 1);
  made.sequence = (uint32_t)bytes_get(&at, 4);
  made.root = (int32_t)(uint32_t)bytes_get(&at, 4);
  made.count = bytes_get(&at, 8);
  made.digest = bytes_get(&at, 8);
  return made;
}

static void put_notice(input piece, uint8_t *to) {
  ring_call call = read_call(&piece);
  bool describes = (call.collective & 0x80) != 0; /* no collective is there */
  ring_frame frame = {.kind = describes ? RING_FRAME_DESCRIPTION : RING_FRAME_WAIT_REPORT,
                      .length = RING_WAIT_REPORT_BYTES,
                      .call = call};
  ring_frame_pack(&frame, to);
  input payload = input_cut(&piece, RING_WAIT_REPORT_BYTES);
  memset(to + RING_HEADER_BYTES, 0, RING_WAIT_REPORT_BYTES);
  if (payload.left > 0) memcpy(to + RING_HEADER_BYTES, payload.at, payload.left);
}

/* A link to a rank that sends wait reports, of which `came` bytes, or four times as many, have come. */
static ring_link *make_link(int rank, input *from) {
  size_t count = input_byte(from) % (NOTICES_MOST + 1), length = count * FRAME;
  size_t came = (size_t)input_byte(from) * 4;
  for (size_t i = 0; i < count; i++) put_notice(input_piece(from), reports[rank] + i * FRAME);
  if (came > length) came = length;
  input now = {reports[rank], came}, later = {reports[rank] + came, length - came};
  return ring_link_tcp(world_connection(now, later));
}

static ring_status make_call(ring_comm *comm, unsigned which, const void *input, void *output) {
  int root = (int)(which / 16) % comm->peers.size;
  switch (which % 8) {
  case 0:
    return ring_allreduce(comm, input, output, COUNT, RING_INT8, RING_SUM);
  case 1:
    return ring_broadcast(comm, input, output, COUNT, RING_INT8, root);
  case 2:
    return ring_gather(comm, input, output, 1, RING_INT8, root);
  case 3:
    return ring_alltoall(comm, input, output, COUNT, RING_INT8);
  case 4:
    return ring_reduce(comm, input, output, COUNT, RING_INT8, RING_MAX, root);
  case 5:
    return ring_send(comm, input, COUNT, RING_INT8, (comm->peers.rank + 1) % comm->peers.size);
  case 6:
    return ring_recv(comm, output, COUNT, RING_INT8, (comm->peers.rank + 1) % comm->peers.size);
  default:
    return ring_barrier(comm);
  }
}

/* The bounds of the text of a warning or an error. */
static void check_text(void *arg, const char *text) {
  (void)arg;
  FUZZ_PROMISE(text[0] != '\0' && strlen(text) < sizeof(((ring_error *)0)->message));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static uint8_t in[COUNT * SIZE_MOST], out[COUNT * SIZE_MOST];
  input from = {bytes, length};
  unsigned which = input_byte(&from), shape = input_byte(&from);
  int size = 2 + (int)(shape % 8 % (SIZE_MOST - 1)), rank = (int)(shape / 8) % size;
  ring_comm *comm = make_comm(rank, size);
  world_stays();
  comm->alarm = (ring_alarm){.after = 300000000, .log = check_text};
  for (int i = 0; i < size; i++)
    if (i != rank) add_link(comm, i, make_link(i, &from));
  ring_status status = RING_OK;
  for (int i = 0; i < 2 && status == RING_OK; i++) status = make_call(comm, which, in, out);
  if (status != RING_OK) check_error(comm, status);
  ring_comm_free(comm);
  world_end();
  return 0;
}
