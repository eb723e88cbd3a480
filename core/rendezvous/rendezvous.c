/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#define MEETING_PORT_FIRST 21000
#define MEETING_PORT_LAST 31999

ring_status ring_rendezvous_aborted(const ring_rendezvous *rendezvous, ring_error *error) {
  return ring_wait_aborted(rendezvous->wait, rendezvous->rank, "open()", error);
}

ring_status ring_rendezvous_altered(int rank, const char *host, ring_error *error) {
  return ring_error_set(error, RING_AUTH, rank, 0,
                        "what came over the connection to rank %d (%s) is not what it has sent: "
                        "something between changes it",
                        rank, host);
}

ring_status ring_rendezvous_disagree(const ring_rendezvous *rendezvous, int odd,
                                     bool root_encrypted, ring_error *error) {
  bool hosts = rendezvous->hosts != NULL;
  return ring_error_set(error, RING_MISMATCH, odd == rendezvous->rank ? 0 : odd, 0,
                        "rank %d%s%s%s wants %s, and rank 0 (%s) wants %s: pass the same on all "
                        "ranks",
                        odd, hosts ? " (" : "", hosts ? rendezvous->hosts[odd] : "",
                        hosts ? ")" : "", root_encrypted ? "no encryption" : "encryption",
                        rendezvous->root_host, root_encrypted ? "it" : "none");
}

static ring_status rendezvous_no_crypto(ring_error *error) {
  return ring_error_set(error, RING_SYSTEM, -1, 0,
                        "OpenSSL refused to compute HMAC-SHA256 or X25519, or to give random "
                        "numbers");
}

/* ---- Key and ports ------------------------------------------------------------------------ */

/* Binds the key to all hosts at once, each with the zero that ends it. */
static bool rendezvous_bind_hosts(const ring_rendezvous *rendezvous, ring_secret *key) {
  size_t length = 0;
  for (int rank = 0; rank < rendezvous->size; rank++) length += strlen(rendezvous->hosts[rank]) + 1;
  /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there is at least one rank */
  char *list = malloc(length), *to = list;
  for (int rank = 0; list != NULL && rank < rendezvous->size; rank++)
    to = stpcpy(to, rendezvous->hosts[rank]) + 1;
  bool bound = list != NULL && ring_secret_bind(key, list, length);
  free(list);
  return bound;
}

/* The job's key: what ranks must agree on to belong together. */
static bool rendezvous_derive(const ring_rendezvous *rendezvous, ring_secret *key) {
  uint8_t size[4] = {(uint8_t)rendezvous->size, (uint8_t)(rendezvous->size >> 8),
                     (uint8_t)(rendezvous->size >> 16), (uint8_t)(rendezvous->size >> 24)};
  bool bound = ring_secret_begin(key, rendezvous->token, rendezvous->token_length) &&
               ring_secret_bind(key, rendezvous->job, strlen(rendezvous->job)) &&
               ring_secret_bind(key, size, sizeof size);
  if (rendezvous->hosts == NULL)
    return bound && ring_secret_bind(key, rendezvous->root_host, strlen(rendezvous->root_host));
  return bound && rendezvous_bind_hosts(rendezvous, key);
}

static bool rendezvous_port_used(const ring_rendezvous *rendezvous, uint16_t port) {
  for (int i = 0; i < rendezvous->port_count; i++)
    if (rendezvous->ports[i] == port) return true;
  return false;
}

/* Draws different ports from the range, in an order that only the key determines. */
static bool rendezvous_draw_ports(ring_rendezvous *rendezvous, const ring_keys *keys) {
  uint32_t first = rendezvous->port_first == 0 ? MEETING_PORT_FIRST : rendezvous->port_first;
  uint32_t last = rendezvous->port_first == 0 ? MEETING_PORT_LAST : rendezvous->port_last;
  uint32_t range = last - first + 1;
  int wanted = range < RING_RENDEZVOUS_PORTS ? (int)range : RING_RENDEZVOUS_PORTS;
  for (rendezvous->port_count = 0; rendezvous->port_count < wanted; rendezvous->port_count++) {
    uint8_t index = (uint8_t)rendezvous->port_count;
    ring_secret draw;
    if (!ring_keys_mac(keys, &index, 1, &draw)) return false;
    uint32_t offset =
        ((uint32_t)draw.bytes[0] | (uint32_t)draw.bytes[1] << 8 | (uint32_t)draw.bytes[2] << 16) %
        range;
    while (rendezvous_port_used(rendezvous, (uint16_t)(first + offset)))
      offset = (offset + 1) % range;
    rendezvous->ports[rendezvous->port_count] = (uint16_t)(first + offset);
  }
  return true;
}

bool ring_rendezvous_begin(ring_rendezvous *rendezvous, ring_keys *keys) {
  return rendezvous_derive(rendezvous, &keys->vault->job) &&
         rendezvous_draw_ports(rendezvous, keys);
}

void ring_rendezvous_ports_text(const ring_rendezvous *rendezvous, char *text, size_t size) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < rendezvous->port_count && i < 4 && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%u", i == 0 ? "" : ", ",
                               (unsigned)rendezvous->ports[i]);
  if (rendezvous->port_count > 4 && length < size)
    snprintf(text + length, size - length, " and %d more", rendezvous->port_count - 4);
}

static void rendezvous_no_port(const ring_rendezvous *rendezvous, ring_error *error) {
  char ports[64];
  ring_socket_ports_text(ports, sizeof ports);
  if (rendezvous->port_first == 0)
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, EADDRINUSE,
                   "rank %d found no free port to listen on: its host has none left of %s",
                   rendezvous->rank, ports);
  else
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, EADDRINUSE,
                   "rank %d found no free port from %u to %u: a host needs one for each of its "
                   "ranks, and each of these another one for every communicator that is split off",
                   rendezvous->rank, (unsigned)rendezvous->port_first,
                   (unsigned)rendezvous->port_last);
}

int ring_rendezvous_listen(const ring_rendezvous *rendezvous, ring_error *error) {
  const char *host =
      rendezvous->hosts != NULL ? rendezvous->hosts[rendezvous->rank] : rendezvous->root_host;
  uint32_t range = (uint32_t)(rendezvous->port_last - rendezvous->port_first) + 1;
  uint32_t start = 0;
  int fd = -EADDRINUSE;
  if (!ring_secret_random(&start, sizeof start)) {
    rendezvous_no_crypto(error);
    return -1;
  }
  for (uint32_t i = 0; i < range && fd == -EADDRINUSE; i++) {
    uint32_t port = rendezvous->port_first + (start % range + i) % range;
    fd = ring_socket_listen(host, (uint16_t)port);
  }
  if (fd >= 0) return fd;
  if (fd != -EADDRINUSE)
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, -fd, "rank %d cannot listen on %s",
                   rendezvous->rank, host);
  else
    rendezvous_no_port(rendezvous, error);
  return -1;
}

int ring_rendezvous_port(const ring_rendezvous *rendezvous, int listener, ring_error *error) {
  int port = ring_socket_port(listener);
  if (port > 0) return port;
  ring_error_set(error, RING_SYSTEM, rendezvous->rank, -port,
                 "rank %d cannot find out on which port it listens", rendezvous->rank);
  return -1;
}

void ring_rendezvous_warn(const ring_rendezvous *rendezvous) {
  char text[sizeof(((ring_error *)0)->message)];
  if (rendezvous->rank == 0 || !ring_wait_lasts(rendezvous->wait)) return;
  snprintf(
      text, sizeof text,
      "rank %d has waited %.1f s in open(): it has met rank 0 (%s), which waits for other ranks",
      rendezvous->rank, ring_wait_seconds(rendezvous->wait), rendezvous->root_host);
  ring_wait_tell(rendezvous->wait, text);
}

ring_status ring_rendezvous_transfer(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
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

ring_status ring_rendezvous_send(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
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
  return ring_rendezvous_transfer(rendezvous, poll_set, fd, true, wire,
                                  RING_MESSAGE_LENGTH_BYTES + length + RING_SEAL_BYTES);
}

/* Reads what is in a message that was opened. */
static ring_status rendezvous_read_message(const ring_rendezvous *rendezvous, const uint8_t *from,
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
  RENDEZVOUS_NOTE_LEAST = RING_MESSAGE_HEAD_BYTES + RING_SEAL_BYTES,
  RENDEZVOUS_NOTE_MOST = RING_MESSAGE_HEAD_BYTES + RING_MESSAGE_TEXT_BYTES - 1 + RING_SEAL_BYTES
};

/* How much follows the length of a message, which `head` is; 0 for what is none. */
static size_t rendezvous_message_length(const uint8_t *head) {
  size_t length = (size_t)bytes_get(&head, RING_MESSAGE_LENGTH_BYTES);
  return length >= RENDEZVOUS_NOTE_LEAST && length <= RENDEZVOUS_NOTE_MOST ? length : 0;
}

static ring_status rendezvous_open_message(const ring_rendezvous *rendezvous, ring_seal *seal,
                                           const uint8_t *head, uint8_t *wire, size_t length,
                                           ring_message *message) {
  length -= RING_SEAL_BYTES;
  ring_status status = ring_seal_open(seal, head, RING_MESSAGE_LENGTH_BYTES, wire, length);
  return status == RING_OK ? rendezvous_read_message(rendezvous, wire, length, message) : status;
}

ring_status ring_rendezvous_receive(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                    int fd, ring_seal *seal, ring_message *message) {
  uint8_t head[RING_MESSAGE_LENGTH_BYTES], wire[RENDEZVOUS_NOTE_MOST];
  ring_status status = ring_rendezvous_transfer(rendezvous, poll_set, fd, false, head, sizeof head);
  if (status != RING_OK) return status;
  size_t length = rendezvous_message_length(head);
  if (length == 0) return RING_PEER_LOST;
  status = ring_rendezvous_transfer(rendezvous, poll_set, fd, false, wire, length);
  if (status != RING_OK) return status;
  return rendezvous_open_message(rendezvous, seal, head, wire, length, message);
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

ring_status ring_rendezvous_receive_part(const ring_rendezvous *rendezvous, int fd, ring_seal *seal,
                                         ring_partial_message *partial, ring_message *message) {
  ring_status status;
  if (partial->wire == NULL) {
    status = rendezvous_take(fd, partial->head, sizeof partial->head, &partial->have);
    if (status != RING_OK) return status;
    partial->length = rendezvous_message_length(partial->head);
    if (partial->length == 0) return RING_PEER_LOST;
    partial->wire = malloc(partial->length);
    if (partial->wire == NULL) return RING_NO_MEMORY;
    partial->have = 0;
  }
  status = rendezvous_take(fd, partial->wire, partial->length, &partial->have);
  if (status != RING_OK) return status;
  return rendezvous_open_message(rendezvous, seal, partial->head, partial->wire, partial->length,
                                 message);
}

void ring_rendezvous_receive_end(ring_partial_message *partial) {
  free(partial->wire);
  *partial = (ring_partial_message){.wire = NULL};
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
static ring_status exchange_agree(const ring_rendezvous *rendezvous, const exchange_sink *sink,
                                  ring_error *error) {
  bool root_encrypted = sink->entries[0].encrypted != 0;
  for (int rank = 1; rank < sink->size; rank++)
    if ((sink->entries[rank].encrypted != 0) != root_encrypted)
      return ring_rendezvous_disagree(rendezvous, rank, root_encrypted, error);
  return RING_OK;
}

/* Believes the texts: where the others are, and who they are. */
static ring_status exchange_settle(const ring_rendezvous *rendezvous, ring_peers *peers,
                                   const exchange_sink *sink, ring_error *error) {
  uint8_t epoch[8];
  peers->epoch = sink->entries[0].epoch;
  peers->authenticated = peers->exchanged = true;
  bytes_put(epoch, peers->epoch, 8);
  if (!ring_secret_bind(&peers->keys.vault->job, epoch, sizeof epoch))
    return rendezvous_no_crypto(error);
  for (int rank = 0; rank < rendezvous->size; rank++) {
    const exchange_entry *entry = &sink->entries[rank];
    ring_keys_take(&peers->keys, rank, entry->public);
    peers->peer[rank].port = (uint16_t)entry->port;
  }
  return RING_OK;
}

/* All that takes memory, before the others know of this rank: afterwards there is no link yet over which
 * to tell that it lacks some. */
static ring_status exchange_prepare(const ring_rendezvous *rendezvous, ring_peers *peers,
                                    int listener) {
  ring_status status = ring_peers_listen(peers, listener);
  for (int rank = 0; rank < rendezvous->size && status == RING_OK; rank++)
    status = ring_peers_place(peers, rank, rendezvous->hosts[rank], 0);
  return status;
}

static ring_status exchange_run(ring_rendezvous *rendezvous, ring_peers *peers, int listener,
                                exchange_sink *sink, ring_error *error) {
  char mine[EXCHANGE_TEXT];
  int port = ring_rendezvous_port(rendezvous, listener, error);
  if (port < 0) return RING_SYSTEM;
  if (!exchange_compose(&peers->keys, port, rendezvous->encrypted, mine))
    return rendezvous_no_crypto(error);
  if (rendezvous->exchange(rendezvous->exchange_arg, mine, exchange_put, sink) != 0)
    return ring_error_set(error, RING_ABORTED, -1, 0, "the exchange with the other ranks failed");
  ring_wait_begin(rendezvous->wait); /* it was no stop of this rank, and now all ranks are there */
  ring_status status = exchange_check(sink, error);
  if (status == RING_OK) status = exchange_agree(rendezvous, sink, error);
  return status == RING_OK ? exchange_settle(rendezvous, peers, sink, error) : status;
}

static ring_status rendezvous_exchange(ring_rendezvous *rendezvous, ring_peers *peers,
                                       ring_error *error) {
  exchange_sink sink = {rendezvous->size, calloc((size_t)rendezvous->size, sizeof *sink.entries)};
  if (sink.entries == NULL) return ring_error_no_memory(error, rendezvous->rank);
  int listener = ring_rendezvous_listen(rendezvous, error);
  ring_status status = RING_SYSTEM;
  if (listener >= 0 && exchange_prepare(rendezvous, peers, listener) != RING_OK)
    status = ring_error_no_memory(error, rendezvous->rank);
  else if (listener >= 0)
    status = exchange_run(rendezvous, peers, listener, &sink, error);
  free(sink.entries);
  return status;
}

/* ---- All modes ---------------------------------------------------------------------------- */

static ring_status rendezvous_alone(ring_rendezvous *rendezvous, ring_peers *peers,
                                    ring_error *error) {
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch)) return rendezvous_no_crypto(error);
  if (ring_peers_place(peers, 0, rendezvous->root_host, 0) != RING_OK)
    return ring_error_no_memory(error, rendezvous->rank);
  return RING_OK;
}

ring_status ring_rendezvous_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error) {
  peers->authenticated = rendezvous->token_length > 0;
  peers->encrypted = rendezvous->encrypted;
  if (rendezvous->size == 1) return rendezvous_alone(rendezvous, peers, error);
  ring_status status = RING_OK;
  if (!ring_rendezvous_begin(rendezvous, &peers->keys))
    status = rendezvous_no_crypto(error);
  else if (rendezvous->exchange != NULL)
    status = rendezvous_exchange(rendezvous, peers, error);
  else if (rendezvous->rank == 0)
    status = ring_rendezvous_root(rendezvous, peers, error);
  else
    status = ring_rendezvous_client(rendezvous, peers, error);
  return status;
}
