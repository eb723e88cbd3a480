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

ring_status ring_rendezvous_aborted(const ring_meeting *meeting, ring_error *error) {
  return ring_wait_aborted(meeting->wait, meeting->rank, "open()", error);
}

ring_status ring_rendezvous_altered(int rank, const char *host, ring_error *error) {
  return ring_error_set(error, RING_AUTH, rank, 0,
                        "what came over the connection to rank %d (%s) is not what it has sent: "
                        "something between changes it",
                        rank, host);
}

ring_status ring_rendezvous_disagree(const ring_meeting *meeting, int odd, bool root_encrypted,
                                     ring_error *error) {
  bool hosts = meeting->hosts != NULL;
  return ring_error_set(error, RING_MISMATCH, odd == meeting->rank ? 0 : odd, 0,
                        "rank %d%s%s%s wants %s, and rank 0 (%s) wants %s: pass the same on all "
                        "ranks",
                        odd, hosts ? " (" : "", hosts ? meeting->hosts[odd] : "", hosts ? ")" : "",
                        root_encrypted ? "no encryption" : "encryption", meeting->root_host,
                        root_encrypted ? "it" : "none");
}

static ring_status rendezvous_no_crypto(ring_error *error) {
  return ring_error_set(error, RING_SYSTEM, -1, 0,
                        "OpenSSL refused to compute HMAC-SHA256 or X25519, or to give random "
                        "numbers");
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
static bool rendezvous_draw_ports(ring_meeting *meeting, const ring_keys *keys) {
  uint32_t first = meeting->port_first == 0 ? MEETING_PORT_FIRST : meeting->port_first;
  uint32_t last = meeting->port_first == 0 ? MEETING_PORT_LAST : meeting->port_last;
  uint32_t range = last - first + 1;
  int wanted = range < RING_MEETING_PORTS ? (int)range : RING_MEETING_PORTS;
  for (meeting->port_count = 0; meeting->port_count < wanted; meeting->port_count++) {
    uint8_t index = (uint8_t)meeting->port_count;
    ring_secret draw;
    if (!ring_keys_mac(keys, &index, 1, &draw)) return false;
    uint32_t offset =
        ((uint32_t)draw.bytes[0] | (uint32_t)draw.bytes[1] << 8 | (uint32_t)draw.bytes[2] << 16) %
        range;
    while (rendezvous_port_used(meeting, (uint16_t)(first + offset))) offset = (offset + 1) % range;
    meeting->ports[meeting->port_count] = (uint16_t)(first + offset);
  }
  return true;
}

bool ring_rendezvous_begin(ring_meeting *meeting, ring_keys *keys) {
  return rendezvous_derive(meeting, &keys->vault->job) && rendezvous_draw_ports(meeting, keys);
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

static void rendezvous_no_port(const ring_meeting *meeting, ring_error *error) {
  char ports[64];
  ring_socket_ports_text(ports, sizeof ports);
  if (meeting->port_first == 0)
    ring_error_set(error, RING_SYSTEM, meeting->rank, EADDRINUSE,
                   "rank %d found no free port to listen on: its host has none left of %s",
                   meeting->rank, ports);
  else
    ring_error_set(error, RING_SYSTEM, meeting->rank, EADDRINUSE,
                   "rank %d found no free port from %u to %u: a host needs one for each of its "
                   "ranks, and each of these another one for every communicator that is split off",
                   meeting->rank, (unsigned)meeting->port_first, (unsigned)meeting->port_last);
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
  if (fd != -EADDRINUSE)
    ring_error_set(error, RING_SYSTEM, meeting->rank, -fd, "rank %d cannot listen on %s",
                   meeting->rank, host);
  else
    rendezvous_no_port(meeting, error);
  return -1;
}

int ring_rendezvous_port(const ring_meeting *meeting, int listener, ring_error *error) {
  int port = ring_socket_port(listener);
  if (port > 0) return port;
  ring_error_set(error, RING_SYSTEM, meeting->rank, -port,
                 "rank %d cannot find out on which port it listens", meeting->rank);
  return -1;
}

void ring_rendezvous_warn(const ring_meeting *meeting) {
  char text[sizeof(((ring_error *)0)->message)];
  if (meeting->rank == 0 || !ring_wait_lasts(meeting->wait)) return;
  snprintf(
      text, sizeof text,
      "rank %d has waited %.1f s in open(): it has met rank 0 (%s), which waits for other ranks",
      meeting->rank, ring_wait_seconds(meeting->wait), meeting->root_host);
  ring_wait_tell(meeting->wait, text);
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
    ring_rendezvous_warn(meeting);
  }
  return RING_OK;
}

ring_status ring_rendezvous_tell(const ring_meeting *meeting, ring_poller *poller, int fd,
                                 ring_seal *seal, const ring_note *note) {
  uint8_t message[RING_NOTE_LENGTH_BYTES + RING_NOTE_HEAD_BYTES + RING_NOTE_TEXT_BYTES +
                  RING_SEAL_BYTES];
  size_t length = RING_NOTE_HEAD_BYTES + note->length;
  uint8_t *sealed = bytes_put(message, length + RING_SEAL_BYTES, RING_NOTE_LENGTH_BYTES);
  uint8_t *to = bytes_put(sealed, note->status, 1);
  to = bytes_put(to, (uint32_t)note->fault, 4);
  memcpy(to, note->body, note->length);
  if (!ring_seal_close(seal, message, RING_NOTE_LENGTH_BYTES, sealed, length))
    return RING_NO_MEMORY;
  return ring_rendezvous_move(meeting, poller, fd, true, message,
                              RING_NOTE_LENGTH_BYTES + length + RING_SEAL_BYTES);
}

/* Reads what is in a note that was opened. */
static ring_status rendezvous_read_note(const ring_meeting *meeting, const uint8_t *from,
                                        size_t length, ring_note *note) {
  note->status = (ring_status)bytes_get(&from, 1);
  note->fault = (int)(int32_t)(uint32_t)bytes_get(&from, 4);
  note->length = length - RING_NOTE_HEAD_BYTES;
  bool known = strcmp(ring_status_name(note->status), "UNKNOWN") != 0;
  if (!known || note->fault < -1 || note->fault >= meeting->size) return RING_PEER_LOST;
  memcpy(note->body, from, note->length);
  note->body[note->length] = '\0';
  return RING_OK;
}

enum {
  RENDEZVOUS_NOTE_LEAST = RING_NOTE_HEAD_BYTES + RING_SEAL_BYTES,
  RENDEZVOUS_NOTE_MOST = RING_NOTE_HEAD_BYTES + RING_NOTE_TEXT_BYTES - 1 + RING_SEAL_BYTES
};

/* How much follows the length of a note, which `head` is; 0 for what is none. */
static size_t rendezvous_note_length(const uint8_t *head) {
  size_t length = (size_t)bytes_get(&head, RING_NOTE_LENGTH_BYTES);
  return length >= RENDEZVOUS_NOTE_LEAST && length <= RENDEZVOUS_NOTE_MOST ? length : 0;
}

static ring_status rendezvous_open_note(const ring_meeting *meeting, ring_seal *seal,
                                        const uint8_t *head, uint8_t *message, size_t length,
                                        ring_note *note) {
  length -= RING_SEAL_BYTES;
  ring_status status = ring_seal_open(seal, head, RING_NOTE_LENGTH_BYTES, message, length);
  return status == RING_OK ? rendezvous_read_note(meeting, message, length, note) : status;
}

ring_status ring_rendezvous_hear(const ring_meeting *meeting, ring_poller *poller, int fd,
                                 ring_seal *seal, ring_note *note) {
  uint8_t head[RING_NOTE_LENGTH_BYTES], message[RENDEZVOUS_NOTE_MOST];
  ring_status status = ring_rendezvous_move(meeting, poller, fd, false, head, sizeof head);
  if (status != RING_OK) return status;
  size_t length = rendezvous_note_length(head);
  if (length == 0) return RING_PEER_LOST;
  status = ring_rendezvous_move(meeting, poller, fd, false, message, length);
  if (status != RING_OK) return status;
  return rendezvous_open_note(meeting, seal, head, message, length, note);
}

/* Receives up to `length` bytes; RING_BUSY when fewer have come. */
static ring_status rendezvous_take(int fd, uint8_t *bytes, size_t length, size_t *have) {
  while (*have < length) {
    ssize_t got = recv(fd, bytes + *have, length - *have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return RING_BUSY;
    if (got <= 0) return RING_PEER_LOST;
    *have += (size_t)got;
  }
  return RING_OK;
}

ring_status ring_rendezvous_hear_part(const ring_meeting *meeting, int fd, ring_seal *seal,
                                      ring_hearing *hearing, ring_note *note) {
  ring_status status;
  if (hearing->message == NULL) {
    status = rendezvous_take(fd, hearing->head, sizeof hearing->head, &hearing->have);
    if (status != RING_OK) return status;
    hearing->length = rendezvous_note_length(hearing->head);
    if (hearing->length == 0) return RING_PEER_LOST;
    hearing->message = malloc(hearing->length);
    if (hearing->message == NULL) return RING_NO_MEMORY;
    hearing->have = 0;
  }
  status = rendezvous_take(fd, hearing->message, hearing->length, &hearing->have);
  if (status != RING_OK) return status;
  return rendezvous_open_note(meeting, seal, hearing->head, hearing->message, hearing->length,
                              note);
}

void ring_rendezvous_hear_end(ring_hearing *hearing) {
  free(hearing->message);
  *hearing = (ring_hearing){.message = NULL};
}

/* ---- Exchange ----------------------------------------------------------------------------- */

#define EXCHANGE_TEXT 128

typedef struct exchange_entry {
  bool present, valid;
  unsigned port, encrypted;
  uint64_t epoch;
  uint8_t public[RING_PUBLIC_BYTES];
} exchange_entry;

typedef struct exchange_sink {
  int size;
  exchange_entry *entries;
} exchange_sink;

/* Hexadecimal digits, all of them. */
static bool exchange_read_public(const char *text, uint8_t public[RING_PUBLIC_BYTES]) {
  for (int i = 0; i < RING_PUBLIC_BYTES; i++) {
    unsigned byte;
    if (sscanf(text + (size_t)2 * (size_t)i, "%2x", &byte) != 1) return false;
    public[i] = (uint8_t)byte;
  }
  return true;
}

/* "sparkring/3 PORT ENCRYPTED PUBLIC", 0 or 1 and hexadecimal, and from rank 0 " EPOCH". */
static void exchange_put(void *arg, int rank, const char *text) {
  exchange_sink *sink = arg;
  char public[2 * RING_PUBLIC_BYTES + 1] = "";
  if (rank < 0 || rank >= sink->size || text == NULL) return;
  exchange_entry *entry = &sink->entries[rank];
  int end = 0;
  entry->present = true;
  int fields = sscanf(text, "sparkring/3 %5u %1u %64[0-9a-f]%n %16" SCNx64 "%n", &entry->port,
                      &entry->encrypted, public, &end, &entry->epoch, &end);
  entry->valid = fields == (rank == 0 ? 4 : 3) && text[end] == '\0' && entry->port > 0 &&
                 entry->port <= UINT16_MAX && entry->encrypted <= 1 &&
                 strlen(public) == 2 * RING_PUBLIC_BYTES &&
                 exchange_read_public(public, entry->public);
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

/* What this rank tells; nothing of it is secret. */
static bool exchange_compose(ring_keys *keys, int port, bool encrypted, char *text) {
  uint8_t public[RING_PUBLIC_BYTES];
  uint64_t epoch;
  if (!ring_keys_offer(keys, public) || !ring_secret_random(&epoch, sizeof epoch)) return false;
  int length = snprintf(text, EXCHANGE_TEXT, "sparkring/3 %d %d ", port, encrypted);
  for (size_t i = 0; i < sizeof public; i++)
    length += snprintf(text + length, EXCHANGE_TEXT - (size_t)length, "%02x", public[i]);
  if (keys->rank == 0)
    snprintf(text + length, EXCHANGE_TEXT - (size_t)length, " %016" PRIx64, epoch);
  return true;
}

/* All ranks see the same here, so all name the same one. */
static ring_status exchange_agree(const ring_meeting *meeting, const exchange_sink *sink,
                                  ring_error *error) {
  bool root_encrypted = sink->entries[0].encrypted != 0;
  for (int rank = 1; rank < sink->size; rank++)
    if ((sink->entries[rank].encrypted != 0) != root_encrypted)
      return ring_rendezvous_disagree(meeting, rank, root_encrypted, error);
  return RING_OK;
}

/* Believes the texts: where the others are, and who they are. */
static ring_status exchange_settle(const ring_meeting *meeting, ring_peers *peers,
                                   const exchange_sink *sink, ring_error *error) {
  uint8_t epoch[8];
  peers->epoch = sink->entries[0].epoch;
  peers->authenticated = peers->exchanged = true;
  bytes_put(epoch, peers->epoch, 8);
  if (!ring_secret_bind(&peers->keys.vault->job, epoch, sizeof epoch))
    return rendezvous_no_crypto(error);
  for (int rank = 0; rank < meeting->size; rank++) {
    const exchange_entry *entry = &sink->entries[rank];
    ring_keys_take(&peers->keys, rank, entry->public);
    peers->peer[rank].port = (uint16_t)entry->port;
  }
  return RING_OK;
}

/* All that takes memory, before the others know of this rank: afterwards there is no link yet over which
 * to tell that it lacks some. */
static ring_status exchange_prepare(const ring_meeting *meeting, ring_peers *peers, int listener) {
  ring_status status = ring_peers_listen(peers, listener);
  for (int rank = 0; rank < meeting->size && status == RING_OK; rank++)
    status = ring_peers_place(peers, rank, meeting->hosts[rank], 0);
  return status;
}

static ring_status exchange_run(ring_meeting *meeting, ring_peers *peers, int listener,
                                exchange_sink *sink, ring_error *error) {
  char mine[EXCHANGE_TEXT];
  int port = ring_rendezvous_port(meeting, listener, error);
  if (port < 0) return RING_SYSTEM;
  if (!exchange_compose(&peers->keys, port, meeting->encrypted, mine))
    return rendezvous_no_crypto(error);
  if (meeting->exchange(meeting->exchange_arg, mine, exchange_put, sink) != 0)
    return ring_error_set(error, RING_ABORTED, -1, 0, "the exchange with the other ranks failed");
  ring_wait_begin(meeting->wait); /* it was no stop of this rank, and now all ranks are there */
  ring_status status = exchange_check(sink, error);
  if (status == RING_OK) status = exchange_agree(meeting, sink, error);
  return status == RING_OK ? exchange_settle(meeting, peers, sink, error) : status;
}

static ring_status rendezvous_exchange(ring_meeting *meeting, ring_peers *peers,
                                       ring_error *error) {
  exchange_sink sink = {meeting->size, calloc((size_t)meeting->size, sizeof *sink.entries)};
  if (sink.entries == NULL) return ring_error_no_memory(error, meeting->rank);
  int listener = ring_rendezvous_listen(meeting, error);
  ring_status status = RING_SYSTEM;
  if (listener >= 0 && exchange_prepare(meeting, peers, listener) != RING_OK)
    status = ring_error_no_memory(error, meeting->rank);
  else if (listener >= 0)
    status = exchange_run(meeting, peers, listener, &sink, error);
  free(sink.entries);
  return status;
}

/* ---- All modes ---------------------------------------------------------------------------- */

static ring_status rendezvous_alone(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch)) return rendezvous_no_crypto(error);
  if (ring_peers_place(peers, 0, meeting->root_host, 0) != RING_OK)
    return ring_error_no_memory(error, meeting->rank);
  return RING_OK;
}

ring_status ring_rendezvous(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  peers->authenticated = meeting->token_length > 0;
  peers->encrypted = meeting->encrypted;
  if (meeting->size == 1) return rendezvous_alone(meeting, peers, error);
  ring_status status = RING_OK;
  if (!ring_rendezvous_begin(meeting, &peers->keys))
    status = rendezvous_no_crypto(error);
  else if (meeting->exchange != NULL)
    status = rendezvous_exchange(meeting, peers, error);
  else if (meeting->rank == 0)
    status = ring_rendezvous_root(meeting, peers, error);
  else
    status = ring_rendezvous_guest(meeting, peers, error);
  return status;
}
