/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: point-to-point communication outside the order of collectives, with tags, from a rank or from
 * any rank. sparkring.h includes this file.
 */
#ifndef SPARKRING_MESSAGES_H
#define SPARKRING_MESSAGES_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Messages have a communicator of their own, with links that open when two ranks first use them. Functions
 * may be called from any thread at any time; ring_messages_free may not run beside another one. In a forked
 * child only the two free functions work. */
typedef struct ring_messages ring_messages;

/* A started send or receive. A transfer serves one thread at a time. */
typedef struct ring_transfer ring_transfer;

#define RING_ANY_SOURCE (-1)
#define RING_ANY_TAG (-1)

/* A message that has come. */
typedef struct ring_message_info {
  int source, tag;
  ring_dtype dtype;
  size_t count; /* elements */
} ring_message_info;

/* ---- Life ---------------------------------------------------------------------------------- */

/* Opens messages between all ranks of `comm`, whose options and hooks they inherit. Collective. On failure
 * *messages is NULL and ring_comm_error(comm) explains. */
RING_API ring_status ring_messages_open(ring_comm *comm, ring_messages **messages);

/* Waits for this rank's transfers, then until every rank has called close. Collective. RING_MISMATCH where a
 * message to this rank was never received. Transfers of other ranks that wait for this rank fail with
 * RING_MISMATCH. */
RING_API ring_status ring_messages_close(ring_messages *messages);

/* Ends the messages from this rank alone: transfers of all ranks complete with RING_ABORTED and `reason`.
 * Buffers are free when abort returns. */
RING_API void ring_messages_abort(ring_messages *messages, const char *reason);

/* Frees the messages. Open ones are aborted first. Transfers can still be read and freed. Not from a hook;
 * NULL is allowed. */
RING_API void ring_messages_free(ring_messages *messages);

/* Why the last call of this thread on messages that has failed did so; status RING_OK when none has. Valid
 * until the next failure. */
RING_API const ring_error *ring_messages_error(const ring_messages *messages);

/* ---- Sending and receiving ----------------------------------------------------------------- */

/* A message has a tag, 0 to INT_MAX, and goes to the first posted receive that takes its source and its tag.
 * Messages from one rank to another are received in the order of their sends, as far as the receives take
 * them. The order of collectives does not matter, and a rank may send to itself.
 *
 * Short messages are sent before the peer receives, up to 1 MiB a pair; longer ones when the peer has posted
 * the receive. So a blocking send may wait for the receive. A message of another dtype than the receive's,
 * or longer than its buffer, is lost, and the receive alone fails with RING_MISMATCH. RING_INVALID, on this
 * rank alone, is a bad argument. Any other failure ends the messages: all transfers fail. */
RING_API ring_status ring_messages_send(ring_messages *messages, const void *input, size_t count,
                                        ring_dtype dtype, int peer, int tag);

/* `source` may be RING_ANY_SOURCE and `tag` RING_ANY_TAG. `capacity`: elements that `output` has room for.
 * `info` may be NULL. */
RING_API ring_status ring_messages_recv(ring_messages *messages, void *output, size_t capacity,
                                        ring_dtype dtype, int source, int tag,
                                        ring_message_info *info);

/* A send and a receive at once, which never block each other. The buffers do not overlap. */
RING_API ring_status ring_messages_sendrecv(ring_messages *messages, const void *input,
                                            size_t count, ring_dtype dtype, int peer, int tag,
                                            void *output, size_t capacity, ring_dtype output_dtype,
                                            int source, int source_tag, ring_message_info *info);

/* Start what the functions above do. Buffers stay until the transfer is done, inputs unchanged and outputs
 * untouched. *transfer is NULL unless they return RING_OK. */
RING_API ring_status ring_messages_send_start(ring_messages *messages, const void *input,
                                              size_t count, ring_dtype dtype, int peer, int tag,
                                              ring_transfer **transfer);
RING_API ring_status ring_messages_recv_start(ring_messages *messages, void *output,
                                              size_t capacity, ring_dtype dtype, int source,
                                              int tag, ring_transfer **transfer);

/* Starts a receive of any dtype and length, for which the library allocates the output. */
RING_API ring_status ring_messages_take_start(ring_messages *messages, int source, int tag,
                                              ring_transfer **transfer);

/* Waits for a message that a receive with this source and tag would get, and leaves it there. iprobe does not
 * wait: *found becomes 1 or 0. */
RING_API ring_status ring_messages_probe(ring_messages *messages, int source, int tag,
                                         ring_message_info *info);
RING_API ring_status ring_messages_iprobe(ring_messages *messages, int source, int tag, int *found,
                                          ring_message_info *info);

/* ---- Transfers ----------------------------------------------------------------------------- */

/* Sets *done to 1 when the transfer is done, else to 0, without waiting. Returns its status when it is done,
 * RING_OK before. */
RING_API ring_status ring_transfer_test(ring_transfer *transfer, int *done);

/* Waits until the transfer is done and returns its status. RING_TIMEOUT when nothing moves between the two
 * ranks for the call timeout; that, and an interrupt hook that ends the wait, ends the messages. */
RING_API ring_status ring_transfer_wait(ring_transfer *transfer);

/* Cancels a receive that no message has matched: it is done with RING_ABORTED. Else does nothing. */
RING_API void ring_transfer_cancel(ring_transfer *transfer);

/* Of a receive that is done: the message that it got. */
RING_API ring_message_info ring_transfer_info(const ring_transfer *transfer);

/* Why the transfer failed; status RING_OK when it did not, or is not done. */
RING_API const ring_error *ring_transfer_error(const ring_transfer *transfer);

/* The output that the library has allocated; NULL where the message has no elements. take: the caller frees it
 * with ring_free. */
RING_API void *ring_transfer_take_output(ring_transfer *transfer);

/* Frees the transfer, after ring_transfer_cancel and ring_transfer_wait where it is not done. NULL is
 * allowed. */
RING_API void ring_transfer_free(ring_transfer *transfer);

#ifdef __cplusplus
}
#endif

#endif
