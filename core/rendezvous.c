/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "error.h"

#define MEETING_PORT_FIRST 21000
#define MEETING_PORT_LAST 31999

ring_status ring_rendezvous_interrupted(ring_error *error) {
  return ring_error_set(error, RING_ABORTED, -1, 0,
                        "interrupted while waiting for the other ranks");
}

static ring_status rendezvous_no_crypto(ring_error *error) {
  return ring_error_set(error, RING_SYSTEM, -1, 0,
                        "OpenSSL refused to compute HMAC-SHA256 or to give random numbers");
}

/* ---- Key and ports ------------------------------------------------------------------------ */

/* Binds the key to all hosts at once, each with the zero that ends it. */
static bool rendezvous_bind_hosts(const ring_meeting *meeting, ring_secret *key) {
  size_t length = 0;
  for (int rank = 0; rank < meeting->size; rank++) length += strlen(meeting->hosts[rank]) + 1;
  /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there is at least one rank */
  char *list = malloc(length), *to = list;
  for (int rank = 0; list != NULL && rank < meeting->size; rank++)
    to = stpcpy(to, meeting->hosts[rank]) + 1;
  bool bound = list != NULL && ring_secret_bind(key, list, length);
  free(list);
  return bound;
}

/* The job's key: what ranks must agree on to belong together. */
static bool rendezvous_derive(const ring_meeting *meeting, ring_secret *key) {
  uint8_t size[4] = {(uint8_t)meeting->size, (uint8_t)(meeting->size >> 8),
                     (uint8_t)(meeting->size >> 16), (uint8_t)(meeting->size >> 24)};
  bool bound = ring_secret_begin(key, meeting->token, meeting->token_length) &&
               ring_secret_bind(key, meeting->job, strlen(meeting->job)) &&
               ring_secret_bind(key, size, sizeof size);
  if (meeting->hosts == NULL)
    return bound && ring_secret_bind(key, meeting->root_host, strlen(meeting->root_host));
  return bound && rendezvous_bind_hosts(meeting, key);
}

static bool rendezvous_port_used(const ring_meeting *meeting, uint16_t port) {
  for (int i = 0; i < meeting->port_count; i++)
    if (meeting->ports[i] == port) return true;
  return false;
}

/* Draws different ports from the range, in an order that only the key determines. */
static bool rendezvous_draw_ports(ring_meeting *meeting) {
  uint32_t first = meeting->port_first == 0 ? MEETING_PORT_FIRST : meeting->port_first;
  uint32_t last = meeting->port_first == 0 ? MEETING_PORT_LAST : meeting->port_last;
  uint32_t range = last - first + 1;
  int wanted = range < RING_MEETING_PORTS ? (int)range : RING_MEETING_PORTS;
  for (meeting->port_count = 0; meeting->port_count < wanted; meeting->port_count++) {
    uint8_t index = (uint8_t)meeting->port_count;
    ring_secret draw;
    if (!ring_secret_mac(&meeting->key, &index, 1, &draw)) return false;
    uint32_t offset =
        ((uint32_t)draw.bytes[0] | (uint32_t)draw.bytes[1] << 8 | (uint32_t)draw.bytes[2] << 16) %
        range;
    while (rendezvous_port_used(meeting, (uint16_t)(first + offset))) offset = (offset + 1) % range;
    meeting->ports[meeting->port_count] = (uint16_t)(first + offset);
  }
  return true;
}

bool ring_rendezvous_begin(ring_meeting *meeting) {
  return rendezvous_derive(meeting, &meeting->key) && rendezvous_draw_ports(meeting);
}

void ring_rendezvous_ports_text(const ring_meeting *meeting, char *text, size_t size) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < meeting->port_count && i < 4 && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%u", i == 0 ? "" : ", ",
                               (unsigned)meeting->ports[i]);
  if (meeting->port_count > 4 && length < size)
    snprintf(text + length, size - length, " and %d more", meeting->port_count - 4);
}

int ring_rendezvous_listen(const ring_meeting *meeting, ring_error *error) {
  const char *host = meeting->hosts != NULL ? meeting->hosts[meeting->rank] : meeting->root_host;
  uint32_t range = (uint32_t)(meeting->port_last - meeting->port_first) + 1;
  uint32_t start = 0;
  int fd = -EADDRINUSE;
  if (!ring_secret_random(&start, sizeof start)) {
    rendezvous_no_crypto(error);
    return -1;
  }
  for (uint32_t i = 0; i < range && fd == -EADDRINUSE; i++) {
    uint32_t port = meeting->port_first + (start % range + i) % range;
    fd = ring_socket_listen(host, (uint16_t)port);
  }
  if (fd >= 0) return fd;
  if (fd == -EADDRINUSE)
    ring_error_set(error, RING_SYSTEM, meeting->rank, EADDRINUSE,
                   "rank %d found no free port from %u to %u: a host needs one for each of its "
                   "ranks",
                   meeting->rank, (unsigned)meeting->port_first, (unsigned)meeting->port_last);
  else
    ring_error_set(error, RING_SYSTEM, meeting->rank, -fd, "rank %d cannot listen on %s",
                   meeting->rank, host);
  return -1;
}

ring_status ring_rendezvous_move(const ring_meeting *meeting, ring_poller *poller, int fd,
                                 bool sending, void *bytes, size_t length) {
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
    ring_poller_reset(poller);
    ring_poller_add(poller, fd, sending ? POLLOUT : POLLIN);
    ring_status status = ring_poller_sleep(poller, ring_wait_slice(meeting->wait));
    if (status == RING_OK) status = ring_wait_check(meeting->wait);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}

ring_status ring_rendezvous_tell(const ring_meeting *meeting, ring_poller *poller, int fd,
                                 const ring_note *note) {
  uint8_t message[RING_NOTE_HEAD_BYTES + RING_NOTE_TEXT_BYTES];
  uint8_t *to = bytes_put(message, RING_NOTE_HEAD_BYTES - 4 + note->length, 4);
  to = bytes_put(to, note->status, 1);
  to = bytes_put(to, (uint32_t)note->fault, 4);
  memcpy(to, note->body, note->length);
  return ring_rendezvous_move(meeting, poller, fd, true, message,
                              RING_NOTE_HEAD_BYTES + note->length);
}

ring_status ring_rendezvous_hear(const ring_meeting *meeting, ring_poller *poller, int fd,
                                 ring_note *note) {
  uint8_t head[RING_NOTE_HEAD_BYTES];
  const uint8_t *from = head;
  ring_status status = ring_rendezvous_move(meeting, poller, fd, false, head, sizeof head);
  if (status != RING_OK) return status;
  size_t length = (size_t)bytes_get(&from, 4) - (RING_NOTE_HEAD_BYTES - 4);
  note->length = length;
  note->status = (ring_status)bytes_get(&from, 1);
  note->fault = (int)(int32_t)(uint32_t)bytes_get(&from, 4);
  bool known = strcmp(ring_status_name(note->status), "UNKNOWN") != 0;
  if (length >= sizeof note->body || !known) return RING_PEER_LOST;
  if (note->fault < -1 || note->fault >= meeting->size) return RING_PEER_LOST;
  note->body[length] = '\0';
  return ring_rendezvous_move(meeting, poller, fd, false, note->body, length);
}

/* ---- Exchange ----------------------------------------------------------------------------- */

#define EXCHANGE_TEXT 128

typedef struct exchange_entry {
  bool present, valid;
  unsigned port;
  uint64_t epoch;
  char token[2 * RING_SECRET_BYTES + 1];
} exchange_entry;

typedef struct exchange_sink {
  int size;
  exchange_entry *entries;
} exchange_sink;

/* "sparkring/1 PORT", and from rank 0 " EPOCH TOKEN", both in hexadecimal. */
static void exchange_put(void *arg, int rank, const char *text) {
  exchange_sink *sink = arg;
  if (rank < 0 || rank >= sink->size || text == NULL) return;
  exchange_entry *entry = &sink->entries[rank];
  int end = 0;
  entry->present = true;
  int fields = sscanf(text, "sparkring/1 %5u%n %16" SCNx64 " %64[0-9a-f]%n", &entry->port, &end,
                      &entry->epoch, entry->token, &end);
  bool root = fields == 3 && strlen(entry->token) == 2 * RING_SECRET_BYTES;
  entry->valid = (rank == 0 ? root : fields == 1) && text[end] == '\0' && entry->port > 0 &&
                 entry->port <= UINT16_MAX;
}

static ring_status exchange_check(const exchange_sink *sink, ring_error *error) {
  for (int rank = 0; rank < sink->size; rank++) {
    const exchange_entry *entry = &sink->entries[rank];
    if (!entry->present)
      return ring_error_set(error, RING_INVALID, rank, 0,
                            "the exchange brought no text of rank %d: it must bring those of all "
                            "%d ranks",
                            rank, sink->size);
    if (!entry->valid)
      return ring_error_set(error, RING_INVALID, rank, 0,
                            "the exchange brought a text of rank %d that sparkring did not write: "
                            "all ranks need the same version, and nothing else may use the "
                            "exchange meanwhile",
                            rank);
  }
  return RING_OK;
}

static bool exchange_compose(int rank, int port, char *text) {
  uint8_t fresh[8 + RING_SECRET_BYTES];
  int length = snprintf(text, EXCHANGE_TEXT, "sparkring/1 %d", port);
  if (rank != 0) return true;
  if (!ring_secret_random(fresh, sizeof fresh)) return false;
  for (size_t i = 0; i < sizeof fresh; i++)
    length += snprintf(text + length, EXCHANGE_TEXT - (size_t)length, "%s%02x",
                       i == 0 || i == 8 ? " " : "", fresh[i]);
  ring_secret_wipe(fresh, sizeof fresh);
  return true;
}

static ring_status exchange_run(ring_meeting *meeting, ring_peers *peers, int listener,
                                exchange_sink *sink, ring_error *error) {
  char mine[EXCHANGE_TEXT];
  if (!exchange_compose(meeting->rank, ring_socket_port(listener), mine))
    return rendezvous_no_crypto(error);
  int failure = meeting->exchange(meeting->exchange_arg, mine, exchange_put, sink);
  ring_secret_wipe(mine, sizeof mine);
  if (failure != 0)
    return ring_error_set(error, RING_ABORTED, -1, 0, "the exchange with the other ranks failed");
  ring_status status = exchange_check(sink, error);
  if (status != RING_OK) return status;
  const exchange_entry *root = &sink->entries[0];
  if (!ring_secret_bind(&meeting->key, root->token, strlen(root->token)))
    return rendezvous_no_crypto(error);
  peers->epoch = root->epoch;
  peers->authenticated = true;
  for (int rank = 0; status == RING_OK && rank < meeting->size; rank++)
    status =
        ring_peers_place(peers, rank, meeting->hosts[rank], (uint16_t)sink->entries[rank].port);
  if (status != RING_OK) return ring_error_set(error, status, -1, 0, "out of memory");
  return RING_OK;
}

static ring_status rendezvous_exchange(ring_meeting *meeting, ring_peers *peers,
                                       ring_error *error) {
  exchange_sink sink = {meeting->size, calloc((size_t)meeting->size, sizeof *sink.entries)};
  if (sink.entries == NULL) return ring_error_set(error, RING_NO_MEMORY, -1, 0, "out of memory");
  int listener = ring_rendezvous_listen(meeting, error);
  ring_status status = RING_SYSTEM;
  if (listener >= 0) status = exchange_run(meeting, peers, listener, &sink, error);
  ring_secret_wipe(sink.entries, (size_t)meeting->size * sizeof *sink.entries);
  free(sink.entries);
  if (status != RING_OK) {
    ring_socket_close(&listener);
    return status;
  }
  peers->key = meeting->key;
  return ring_peers_listen(peers, listener);
}

/* ---- All modes ---------------------------------------------------------------------------- */

static ring_status rendezvous_alone(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch)) return rendezvous_no_crypto(error);
  if (ring_peers_place(peers, 0, meeting->root_host, 0) != RING_OK)
    return ring_error_set(error, RING_NO_MEMORY, -1, 0, "out of memory");
  return RING_OK;
}

ring_status ring_rendezvous(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  peers->authenticated = meeting->token_length > 0;
  peers->encrypted = meeting->encrypted;
  if (meeting->size == 1) return rendezvous_alone(meeting, peers, error);
  ring_status status = RING_OK;
  if (!ring_rendezvous_begin(meeting))
    status = rendezvous_no_crypto(error);
  else if (meeting->exchange != NULL)
    status = rendezvous_exchange(meeting, peers, error);
  else if (meeting->rank == 0)
    status = ring_rendezvous_root(meeting, peers, error);
  else
    status = ring_rendezvous_guest(meeting, peers, error);
  ring_secret_wipe(&meeting->key, sizeof meeting->key);
  if (status == RING_NO_MEMORY && error != NULL && error->rank < 0)
    ring_error_set(error, status, meeting->rank, 0, "rank %d is out of memory", meeting->rank);
  return status;
}
