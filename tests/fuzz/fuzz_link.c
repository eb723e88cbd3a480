/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes over links during a call: frames, failure notes, nonsense. The input is the call, the
 * size, what links are made of (one connection or two, TLS over them or not) and what each other rank
 * sends over each of its connections; nobody has the key of TLS. This rank calls twice, fails or not,
 * and closes; an error names a rank that exists, or none.
 */
#include "comms.h"

enum { SIZE_MOST = 4, COUNT = 40, BYTES = COUNT * SIZE_MOST * 8 };
enum { SHAPE_CONNECTIONS = 0x40, SHAPE_TLS = 0x80 };

static ring_link *make_link(bool connects, unsigned shape, input *from) {
  const ring_secret key = {{0x33}};
  int connections = shape & SHAPE_CONNECTIONS ? 2 : 1, fds[2];
  for (int i = 0; i < connections; i++) fds[i] = world_connection(input_piece(from), (input){0});
  ring_link *link = connections > 1 ? ring_link_multi_tcp(fds, connections) : ring_link_tcp(fds[0]);
  FUZZ_PROMISE(link != NULL);
  return shape & SHAPE_TLS ? ring_link_tls(link, connects, &key) : link;
}

static ring_status make_call(ring_comm *comm, unsigned which, const void *input, void *output) {
  int root = (int)(which / 16) % comm->peers.size;
  ring_dtype dtype = (ring_dtype)(which / 8 % 8);
  switch (which % 8) {
  case 0:
    return ring_allreduce(comm, input, output, COUNT, dtype, RING_SUM);
  case 1:
    return ring_broadcast(comm, input, output, COUNT, dtype, root);
  case 2:
    return ring_allgather(comm, input, output, COUNT, dtype);
  case 3:
    return ring_alltoall(comm, input, output, COUNT, dtype);
  case 4:
    return ring_gather(comm, input, output, COUNT, dtype, root);
  case 5:
    return ring_reduce(comm, input, output, COUNT, dtype, RING_MAX, root);
  case 6:
    return ring_recv(comm, output, COUNT, dtype, (comm->peers.rank + 1) % comm->peers.size);
  default:
    return ring_barrier(comm);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static uint8_t in[BYTES], out[BYTES];
  input from = {bytes, length};
  unsigned which = input_byte(&from), second = input_byte(&from), shape = input_byte(&from);
  int size = 2 + (int)(shape % (SIZE_MOST - 1)), rank = (int)(shape / 8) % size;
  ring_comm *comm = make_comm(rank, size);
  for (int i = 0; i < size; i++)
    if (i != rank) add_link(comm, i, make_link(rank > i, shape, &from));
  ring_status status = make_call(comm, which, in, out);
  if (status == RING_OK) status = make_call(comm, second, in, out);
  if (status == RING_OK) status = ring_comm_close(comm);
  if (status != RING_OK) check_error(comm, status);
  ring_comm_free(comm);
  world_end();
  return 0;
}
