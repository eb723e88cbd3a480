/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of the stub of NCCL between ranks: what nccl_calls.c makes and nccl_ranks.c carries out.
 */
#ifndef RING_LIBRARIES_NCCL_RANKS_H
#define RING_LIBRARIES_NCCL_RANKS_H

#include "device/nccl_api.h"
#include "sparkring.h"

typedef struct message {
  int sends, peer;
  uint8_t *memory;
  size_t bytes;
} message;

typedef struct work {
  ring_nccl_comm comm;
  enum { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, MESSAGES, GROUP } kind;
  const void *input;
  void *output;
  size_t count;
  ring_dtype dtype;
  ring_op op;
  double factor; /* 1: none */
  int root;
  unsigned turn;
  int hangs, stuck, later;
  message *messages;
  int message_count;
  struct work *parts; /* of a group */
  int part_count;
  ring_nccl_stream stream;
  ring_cuda_context context;
} work;

ring_nccl_result ncclCommGetAsyncError(ring_nccl_comm comm, ring_nccl_result *state);

/* Puts a copy of work on a stream, in its turn among the work of the communicator; takes its lists over. */
ring_nccl_result stub_nccl_append(const work *given, ring_nccl_stream stream);

#endif
