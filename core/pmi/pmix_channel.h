/* SPDX-License-Identifier: Apache-2.0
 *
 * A lead's end of the socket to its PMIx server. Nothing waits: messages are read and written as far as the socket
 * takes them, and the rest is kept.
 */
#ifndef RING_PMI_PMIX_CHANNEL_H
#define RING_PMI_PMIX_CHANNEL_H

#include "pmi/pmix_message.h"

typedef struct ring_pmix_bytes {
  char *bytes;
  size_t begin, end, capacity; /* what is kept lies from begin to end */
} ring_pmix_bytes;

typedef struct ring_pmix_channel {
  int fd;
  bool ended, no_memory; /* the server has closed its end; memory has run out */
  ring_pmix_bytes input, output;
} ring_pmix_channel;

typedef enum ring_pmix_arrival {
  RING_PMIX_NOTHING,
  RING_PMIX_MESSAGE,
  RING_PMIX_END,      /* the server has closed its end */
  RING_PMIX_INVALID,  /* bytes are no message */
  RING_PMIX_NO_MEMORY /* for what was sent or received */
} ring_pmix_arrival;

/* Sends a message. Its failure is an arrival. */
void ring_pmix_channel_send(ring_pmix_channel *channel, char kind,
                            const ring_pmix_message *message);

/* Receives a message, whose bytes are valid until the next call. Also sends what is kept. */
ring_pmix_arrival ring_pmix_channel_receive(ring_pmix_channel *channel, char *kind,
                                            ring_pmix_message *message);

/* What poll() has to wait for. */
short ring_pmix_channel_events(const ring_pmix_channel *channel);

/* Frees what is kept. */
void ring_pmix_channel_free(ring_pmix_channel *channel);

#endif
