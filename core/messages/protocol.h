/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol: what each frame does, and what a send or a receive does first. All functions are called with the
 * mutex; those that touch links, by the mover.
 *
 *   short   EAGER -> into the buffer of a posted receive, or kept;  CREDIT <- when it has matched its receive
 *   long    REQUEST -> kept until it matches a receive;  READY <-;  DATA -> into the buffer, piece by piece
 *
 * A short message is sent as a long one where the peer has no room for it.
 */
#ifndef RING_MESSAGES_PROTOCOL_H
#define RING_MESSAGES_PROTOCOL_H

#include "messages/state.h"

/* Whether a message may be sent as a short one now. */
bool ring_protocol_is_short(const ring_messages *messages, int peer, uint64_t bytes);

/* Sends a short message, or queues a copy of it. */
void ring_protocol_send_short(ring_messages *messages, int rank, const ring_message_frame *frame,
                              const void *payload);

/* Begins a transfer, which is done where it can be at once. */
void ring_protocol_begin(ring_messages *messages, ring_transfer *transfer);

/* Completes a transfer; NULL: well. */
void ring_protocol_complete(ring_messages *messages, ring_transfer *transfer,
                            const ring_error *error);

/* Queues a frame without a payload. */
void ring_protocol_notify(ring_messages *messages, int peer, ring_message_kind kind,
                          uint64_t number);

/* Asks for links to a rank, or to all. */
void ring_protocol_want(ring_messages *messages, int source);

/* Ends everything with an error, which the other ranks get, too. */
void ring_protocol_fail(ring_messages *messages, const ring_error *error);

/* The same, for want of memory. */
void ring_protocol_no_memory(ring_messages *messages);

/* Queues a packet. */
void ring_protocol_append(ring_messages *messages, int rank, ring_packet *packet);

/* Returns room for short messages to their sender, half of the window at a time. */
void ring_protocol_return(ring_messages *messages, int source, uint64_t cost);

ring_message_info ring_protocol_info(int source, int tag, ring_dtype dtype, uint64_t bytes);

/* Fills the info of a receive, and allocates its output where the library does. An error where the message does
 * not fit. */
ring_status ring_protocol_fit(const ring_messages *messages, ring_transfer *receive,
                              const ring_message_info *info, uint64_t bytes, ring_error *error);

/* A long message, whose REQUEST is `frame`, has matched a receive. */
void ring_protocol_accept(ring_messages *messages, ring_transfer *receive, int source,
                          const ring_message_frame *frame);

/* A receive matches a message that was kept. */
void ring_protocol_take(ring_messages *messages, ring_transfer *receive, ring_arrival *arrival);

/* RING_MISMATCH: a rank has closed, so nothing goes to it or comes from it any more. */
ring_status ring_protocol_ended(const ring_messages *messages, int rank, ring_error *error);

const char *ring_protocol_host(const ring_messages *messages, int rank);

/* RING_OK, or why a receive from `source` can get nothing any more. */
ring_status ring_protocol_check_source(const ring_messages *messages, int source,
                                       ring_error *error);

/* "from rank 1 (host) with tag 3"; enough room is RING_PROTOCOL_TEXT bytes. */
#define RING_PROTOCOL_TEXT 384
void ring_protocol_describe(const ring_messages *messages, bool sends, int peer, int tag,
                            char *text, size_t size);

#endif
