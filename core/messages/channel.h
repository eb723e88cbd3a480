/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel: what this rank sends to another rank and receives from it. The channel moves frames over the link,
 * once there is one, and calls its owner for each frame. Packets are sent in the order of their posts; after
 * each piece of a long message the other packets have their turn.
 */
#ifndef RING_MESSAGES_CHANNEL_H
#define RING_MESSAGES_CHANNEL_H

#include "messages/matching.h"
#include "peers/peer_table.h"

/* The frame that is being received. */
typedef struct ring_incoming {
  uint8_t header[RING_HEADER_BYTES];
  size_t have; /* of the header */
  ring_message_frame frame;
  uint8_t *to;                                   /* place of the payload; NULL: it is discarded */
  size_t left;                                   /* of the payload */
  ring_transfer *transfer;                       /* that the payload belongs to, or NULL */
  ring_arrival *arrival;                         /* the same */
  char text[sizeof(((ring_error *)0)->message)]; /* of a FAIL frame */
} ring_incoming;

typedef struct ring_channel {
  int rank;
  bool wanted;    /* a link is to be opened */
  bool ended;     /* the peer has called close */
  bool announced; /* this rank has sent END */
  bool mute;      /* nothing more can be sent; what was received before can still be read */
  ring_packet *first, **end;
  ring_transfer_queue awaiting;  /* sends that the peer has not answered */
  ring_transfer_queue receiving; /* receives that this rank has answered */
  uint64_t credit;               /* bytes of short messages that the peer has room for */
  uint64_t owed;                 /* bytes of short messages to be returned to the peer's credit */
  uint64_t held;     /* bytes of the peer's short messages that were not returned yet, `owed` too */
  uint32_t requests; /* long messages of the peer that wait here */
  uint64_t number;   /* of the last long message */
  uint64_t moved;    /* frames and pieces of frames, both ways */
  uint32_t tokens;   /* bit k: the peer's token of round k */
  ring_incoming in;
} ring_channel;

/* The owner is called for each frame. `sent`: a packet's frame is sent, and the packet is off the queue. `begin`: a
 * header has come; it sets the place of the payload, or returns false for a frame that cannot be. `end`: the
 * payload has come, too; it returns whether to go on. */
typedef struct ring_channel_owner {
  void (*sent)(void *owner, ring_channel *channel, ring_packet *packet);
  bool (*begin)(void *owner, ring_channel *channel);
  bool (*end)(void *owner, ring_channel *channel);
  void *owner;
} ring_channel_owner;

void ring_channel_init(ring_channel *channel, int rank);

/* Forgets all transfers, and frees packets and the message that is being received. */
void ring_channel_clear(ring_channel *channel);

/* A packet with a copy of the payload. NULL without memory. */
ring_packet *ring_packet_make(const ring_message_frame *frame, const void *payload);

/* Appends a packet. The first `sent` bytes of it may have been sent. */
void ring_channel_append(ring_channel *channel, ring_packet *packet);

/* Sends a packet that is in no queue, as far as the link takes it; packet->sent is how far. The queue must be
 * empty. */
void ring_channel_try(ring_channel *channel, ring_peer *peer, ring_packet *packet);

/* Sends what the link takes. */
void ring_channel_flush(ring_channel *channel, ring_peer *peer, const ring_channel_owner *owner);

/* Receives what has come, up to a limit. Returns 0 or -errno: the link has ended (-EPIPE) or broken; -EBADMSG:
 * damaged bytes; -EPROTO: a frame that cannot be. */
int ring_channel_receive(ring_channel *channel, ring_peer *peer, const ring_channel_owner *owner);

#endif
