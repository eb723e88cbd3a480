/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of other ranks in split(): colors, keys, ports and failures. The child has the ranks of this rank's color in
 * the order of their keys, or is an error; the ranks of the input accept no connection.
 */
#include "api/fusion.h"
#include "comms.h"

enum { SIZE = 3 };

static input entries;

ring_status __wrap_ring_fusion_run_here(ring_comm *comm, collective_args *args);

/* The entries of other ranks are the input's. */
ring_status __wrap_ring_fusion_run_here(ring_comm *comm, collective_args *args) {
  size_t each = args->input_count, own = (size_t)args->out_at;
  uint8_t *output = args->work.output;
  for (size_t at = 0; at < (size_t)comm->peers.size * each; at += each) {
    input entry = input_cut(&entries, at == own ? 0 : each);
    if (entry.left > 0) memcpy(output + at, entry.at, entry.left);
  }
  return RING_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  int rank = (int)(input_byte(&from) % SIZE);
  int color = (int)(input_byte(&from) % 3) - 1, key = (int8_t)input_byte(&from);
  ring_comm *comm = make_comm(rank, SIZE), *child = NULL;
  entries = from;
  ring_status status = ring_comm_split(comm, color, key, &child);
  if (status == RING_OK && child != NULL) {
    FUZZ_PROMISE(color >= 0 && ring_comm_size(child) >= 1 && ring_comm_size(child) <= SIZE);
    FUZZ_PROMISE(ring_comm_rank(child) >= 0 && ring_comm_rank(child) < ring_comm_size(child));
  }
  if (status != RING_OK) check_error(comm, status);
  if (child != NULL) ring_comm_free(child);
  ring_comm_free(comm);
  world_end();
  return 0;
}
