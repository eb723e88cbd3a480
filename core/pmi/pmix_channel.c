/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CHANNEL_PIECE = 1 << 16 };

/* ---- Bytes -------------------------------------------------------------------------------- */

/* The position behind what is kept, with room for `length` bytes; NULL without memory. */
static char *pmix_bytes_reserve(ring_pmix_bytes *kept, size_t length) {
  if (kept->bytes != NULL && kept->begin > 0) {
    memmove(kept->bytes, kept->bytes + kept->begin, kept->end - kept->begin);
    kept->end -= kept->begin;
    kept->begin = 0;
  }
  if (kept->bytes == NULL || kept->capacity - kept->end < length) {
    size_t capacity = 2 * kept->capacity + length;
    char *bytes = realloc(kept->bytes, capacity);
    if (bytes == NULL) return NULL;
    kept->bytes = bytes;
    kept->capacity = capacity;
  }
  return kept->bytes + kept->end;
}

/* ---- Sending ------------------------------------------------------------------------------ */

static bool pmix_channel_would_wait(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void pmix_channel_flush(ring_pmix_channel *channel) {
  ring_pmix_bytes *output = &channel->output;
  while (output->begin < output->end) {
    ssize_t sent = send(channel->fd, output->bytes + output->begin, output->end - output->begin,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !pmix_channel_would_wait()) output->begin = output->end; /* the end arrives */
    if (sent <= 0) return;
    output->begin += (size_t)sent;
  }
}

void ring_pmix_channel_send(ring_pmix_channel *channel, char kind,
                            const ring_pmix_message *message) {
  size_t length = RING_PMIX_HEAD + message->length;
  char *to = NULL;
  if (message->length <= RING_PMIX_MOST) to = pmix_bytes_reserve(&channel->output, length);
  if (to == NULL) {
    channel->no_memory = true;
    return;
  }
  ring_pmix_message_head((uint8_t *)to, kind, message);
  if (message->length > 0) memcpy(to + RING_PMIX_HEAD, message->bytes, message->length);
  channel->output.end += length;
  pmix_channel_flush(channel);
}

/* ---- Receiving ---------------------------------------------------------------------------- */

/* Reads a piece. False: nothing has arrived, the end, or no memory. */
static bool pmix_channel_read(ring_pmix_channel *channel) {
  ring_pmix_bytes *input = &channel->input;
  char *to = pmix_bytes_reserve(input, CHANNEL_PIECE);
  if (to == NULL) {
    channel->no_memory = true;
    return false;
  }
  ssize_t got = recv(channel->fd, to, input->capacity - input->end, MSG_DONTWAIT);
  channel->ended = got == 0 || (got < 0 && !pmix_channel_would_wait());
  if (got > 0) input->end += (size_t)got;
  return got > 0;
}

ring_pmix_arrival ring_pmix_channel_receive(ring_pmix_channel *channel, char *kind,
                                            ring_pmix_message *message) {
  ring_pmix_bytes *input = &channel->input;
  pmix_channel_flush(channel);
  for (;;) {
    size_t kept = input->end - input->begin;
    long size = 0;
    if (kept > 0) size = ring_pmix_message_next(input->bytes + input->begin, kept, kind, message);
    if (size < 0) return RING_PMIX_INVALID;
    if (size > 0) {
      input->begin += (size_t)size;
      return RING_PMIX_MESSAGE;
    }
    if (channel->no_memory) return RING_PMIX_NO_MEMORY;
    if (channel->ended) return RING_PMIX_END;
    if (!pmix_channel_read(channel) && !channel->ended && !channel->no_memory)
      return RING_PMIX_NOTHING;
  }
}

short ring_pmix_channel_events(const ring_pmix_channel *channel) {
  return channel->output.begin < channel->output.end ? POLLIN | POLLOUT : POLLIN;
}

void ring_pmix_channel_free(ring_pmix_channel *channel) {
  free(channel->input.bytes);
  free(channel->output.bytes);
  channel->input = channel->output = (ring_pmix_bytes){0};
}
