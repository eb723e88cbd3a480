/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"

ring_status ring_message_transfer(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                  int fd, bool sending, void *bytes, size_t length) {
  uint8_t *at = bytes;
  while (length > 0) {
    ssize_t moved = sending ? send(fd, at, length, MSG_NOSIGNAL) : recv(fd, at, length, 0);
    if (moved > 0) {
      at += moved;
      length -= (size_t)moved;
      continue;
    }
    if (moved == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      return RING_PEER_LOST;
    ring_poll_set_reset(poll_set);
    ring_poll_set_add(poll_set, fd, sending ? POLLOUT : POLLIN);
    ring_status status = ring_poll_set_sleep(poll_set, ring_wait_slice(rendezvous->wait));
    if (status == RING_OK) status = ring_wait_check(rendezvous->wait);
    if (status != RING_OK) return status;
    ring_rendezvous_warn(rendezvous);
  }
  return RING_OK;
}

ring_status ring_message_send(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                              ring_seal *seal, const ring_message *message) {
  uint8_t wire[RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES + RING_MESSAGE_TEXT_BYTES +
               RING_SEAL_BYTES];
  size_t length = RING_MESSAGE_HEAD_BYTES + message->length;
  uint8_t *sealed = bytes_put(wire, length + RING_SEAL_BYTES, RING_MESSAGE_LENGTH_BYTES);
  uint8_t *to = bytes_put(sealed, message->status, 1);
  to = bytes_put(to, (uint32_t)message->fault, 4);
  memcpy(to, message->body, message->length);
  if (!ring_seal_close(seal, wire, RING_MESSAGE_LENGTH_BYTES, sealed, length))
    return RING_NO_MEMORY;
  return ring_message_transfer(rendezvous, poll_set, fd, true, wire,
                               RING_MESSAGE_LENGTH_BYTES + length + RING_SEAL_BYTES);
}

/* Reads a message whose seal is open. */
static ring_status message_read(const ring_rendezvous *rendezvous, const uint8_t *from,
                                size_t length, ring_message *message) {
  message->status = (ring_status)bytes_get(&from, 1);
  message->fault = (int)(int32_t)(uint32_t)bytes_get(&from, 4);
  message->length = length - RING_MESSAGE_HEAD_BYTES;
  bool known = strcmp(ring_status_name(message->status), "UNKNOWN") != 0;
  if (!known || message->fault < -1 || message->fault >= rendezvous->size) return RING_PEER_LOST;
  memcpy(message->body, from, message->length);
  message->body[message->length] = '\0';
  return RING_OK;
}

enum {
  MESSAGE_LEAST = RING_MESSAGE_HEAD_BYTES + RING_SEAL_BYTES,
  MESSAGE_MOST = RING_MESSAGE_HEAD_BYTES + RING_MESSAGE_TEXT_BYTES - 1 + RING_SEAL_BYTES
};

/* Bytes behind `head`, the length of a message; 0 for an invalid length. */
static size_t message_length(const uint8_t *head) {
  size_t length = (size_t)bytes_get(&head, RING_MESSAGE_LENGTH_BYTES);
  return length >= MESSAGE_LEAST && length <= MESSAGE_MOST ? length : 0;
}

static ring_status message_open(const ring_rendezvous *rendezvous, ring_seal *seal,
                                const uint8_t *head, uint8_t *wire, size_t length,
                                ring_message *message) {
  length -= RING_SEAL_BYTES;
  ring_status status = ring_seal_open(seal, head, RING_MESSAGE_LENGTH_BYTES, wire, length);
  return status == RING_OK ? message_read(rendezvous, wire, length, message) : status;
}

ring_status ring_message_receive(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                                 ring_seal *seal, ring_message *message) {
  uint8_t head[RING_MESSAGE_LENGTH_BYTES], wire[MESSAGE_MOST];
  ring_status status = ring_message_transfer(rendezvous, poll_set, fd, false, head, sizeof head);
  if (status != RING_OK) return status;
  size_t length = message_length(head);
  if (length == 0) return RING_PEER_LOST;
  status = ring_message_transfer(rendezvous, poll_set, fd, false, wire, length);
  if (status != RING_OK) return status;
  return message_open(rendezvous, seal, head, wire, length, message);
}

/* Receives up to `length` bytes. RING_BUSY when fewer have arrived. */
static ring_status message_read_part(int fd, uint8_t *bytes, size_t length, size_t *have) {
  while (*have < length) {
    ssize_t got = recv(fd, bytes + *have, length - *have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return RING_BUSY;
    if (got <= 0) return RING_PEER_LOST;
    *have += (size_t)got;
  }
  return RING_OK;
}

ring_status ring_message_receive_part(const ring_rendezvous *rendezvous, int fd, ring_seal *seal,
                                      ring_partial_message *partial, ring_message *message) {
  ring_status status;
  if (partial->wire == NULL) {
    status = message_read_part(fd, partial->head, sizeof partial->head, &partial->have);
    if (status != RING_OK) return status;
    partial->length = message_length(partial->head);
    if (partial->length == 0) return RING_PEER_LOST;
    partial->wire = malloc(partial->length);
    if (partial->wire == NULL) return RING_NO_MEMORY;
    partial->have = 0;
  }
  status = message_read_part(fd, partial->wire, partial->length, &partial->have);
  if (status != RING_OK) return status;
  return message_open(rendezvous, seal, partial->head, partial->wire, partial->length, message);
}

void ring_message_drop_part(ring_partial_message *partial) {
  free(partial->wire);
  *partial = (ring_partial_message){.wire = NULL};
}
