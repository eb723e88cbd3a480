/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's side of the meeting by addresses: serves the porch until every rank has joined, then
 * tells everyone where everyone is. When a rank joins twice the newer connection counts, because a
 * rank that was started again is the one that is wanted. At the deadline all that came are told who
 * did not.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bytes.h"
#include "error.h"
#include "platform.h"
#include "rendezvous.h"

/* How long before the first rank gives up all are told. */
#define ROOT_AHEAD_NS UINT64_C(250000000)

typedef struct root_arrival {
  int fd; /* -1: not there */
  bool joined;
  size_t have; /* bytes of its JOIN */
  uint8_t join[RING_JOIN_BYTES];
  uint64_t leaves; /* when it gives up */
  size_t slot;
} root_arrival;

typedef struct root_meeting {
  const ring_meeting *meeting;
  int joined;
  root_arrival *arrivals; /* by rank; that of rank 0 is not used */
  ring_porch porch;
  ring_poller poller;
} root_meeting;

static void root_depart(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  root->joined -= arrival->joined ? 1 : 0;
  ring_socket_close(&arrival->fd);
  *arrival = (root_arrival){.fd = -1};
}

static ring_verdict root_judge(void *owner, const ring_claim *claim) {
  (void)owner;
  if (claim->purpose != RING_PURPOSE_MEET) return RING_VERDICT_STALE;
  return claim->rank > 0 ? RING_VERDICT_WELCOME : RING_VERDICT_TWICE;
}

static void root_admit(void *owner, const ring_claim *claim, int fd) {
  root_meeting *root = owner;
  root_depart(root, claim->rank);
  root->arrivals[claim->rank].fd = fd;
}

/* Reads the JOIN of a rank, or sees that it has gone. */
static void root_hear(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  uint8_t extra;
  void *to = arrival->joined ? &extra : arrival->join + arrival->have;
  size_t room = arrival->joined ? 1 : RING_JOIN_BYTES - arrival->have;
  ssize_t got = recv(arrival->fd, to, room, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0 || arrival->joined) {
    root_depart(root, rank);
    return;
  }
  arrival->have += (size_t)got;
  if (arrival->have < RING_JOIN_BYTES) return;
  const uint8_t *from = arrival->join + 2;
  arrival->leaves = ring_platform_now() + bytes_get(&from, 4) * UINT64_C(1000000);
  arrival->joined = true;
  root->joined++;
}

/* RING_TIMEOUT a little before the first of those who have come gives up, so that all are told. */
static ring_status root_check(const root_meeting *root) {
  uint64_t soon = ring_platform_now() + ROOT_AHEAD_NS;
  for (int rank = 1; rank < root->meeting->size; rank++)
    if (root->arrivals[rank].joined && root->arrivals[rank].leaves < soon) return RING_TIMEOUT;
  return ring_wait_check(root->meeting->wait);
}

static ring_status root_gather(root_meeting *root) {
  const int size = root->meeting->size;
  while (root->joined < size - 1) {
    ring_poller_reset(&root->poller);
    ring_porch_watch(&root->porch, &root->poller);
    for (int rank = 1; rank < size; rank++) {
      root_arrival *arrival = &root->arrivals[rank];
      arrival->slot = SIZE_MAX;
      if (arrival->fd >= 0) arrival->slot = ring_poller_add(&root->poller, arrival->fd, POLLIN);
    }
    ring_status status = ring_poller_sleep(&root->poller, ring_wait_slice(root->meeting->wait));
    if (status != RING_OK) return status;
    for (int rank = 1; rank < size; rank++)
      if (ring_poller_ready(&root->poller, root->arrivals[rank].slot)) root_hear(root, rank);
    ring_porch_serve(&root->porch, &root->poller);
    status = root_check(root);
    if (status != RING_OK && root->joined < size - 1) return status;
  }
  return RING_OK;
}

/* ---- Telling ------------------------------------------------------------------------------ */

/* Sends everybody a WELCOME. A rank that cannot take it has died, which the first barrier finds. */
static void root_tell_all(root_meeting *root, ring_status status, int fault, uint8_t *message,
                          size_t length) {
  uint8_t *to = bytes_put(message, length - 4, 4);
  to = bytes_put(to, status, 1);
  bytes_put(to, (uint32_t)fault, 4);
  for (int rank = 1; rank < root->meeting->size; rank++)
    if (root->arrivals[rank].fd >= 0)
      ring_rendezvous_move(root->meeting, &root->poller, root->arrivals[rank].fd, true, message,
                           length);
}

static ring_status root_place(root_meeting *root, ring_peers *peers, int rank) {
  const ring_meeting *meeting = root->meeting;
  const root_arrival *arrival = &root->arrivals[rank];
  const uint8_t *join = arrival->join;
  char host[RING_HOST_BYTES];
  uint16_t port = (uint16_t)bytes_get(&join, 2);
  if (meeting->hosts != NULL) return ring_peers_place(peers, rank, meeting->hosts[rank], port);
  /* A rank that came over loopback is on this host, which the others know by its own name. */
  if (!ring_socket_peer_host(arrival->fd, host, sizeof host) || ring_socket_is_loopback(host))
    return ring_peers_place(peers, rank, meeting->root_host, port);
  return ring_peers_place(peers, rank, host, port);
}

static ring_status root_welcome(root_meeting *root, ring_peers *peers, uint16_t own_port) {
  const int size = root->meeting->size;
  size_t room = RING_WELCOME_HEAD_BYTES + 8 + (size_t)size * (3 + RING_HOST_BYTES);
  uint8_t *message = malloc(room);
  if (message == NULL) return RING_NO_MEMORY;
  ring_status status = ring_peers_place(peers, 0, root->meeting->root_host, own_port);
  for (int rank = 1; status == RING_OK && rank < size; rank++)
    status = root_place(root, peers, rank);
  if (status == RING_OK) {
    uint8_t *to = bytes_put(message + RING_WELCOME_HEAD_BYTES, peers->epoch, 8);
    for (int rank = 0; rank < size; rank++) {
      const char *host = ring_peers_host(peers, rank);
      size_t length = strlen(host);
      to = bytes_put(to, peers->peer[rank].port, 2);
      to = bytes_put(to, length, 1);
      memcpy(to, host, length);
      to += length;
    }
    root_tell_all(root, RING_OK, -1, message, (size_t)(to - message));
  }
  free(message);
  return status;
}

/* "rank 1 (worker-a), rank 3 (worker-b)" */
static int root_list_missing(const root_meeting *root, char *text, size_t size) {
  int missing = 0, first = -1;
  size_t length = 0;
  text[0] = '\0';
  for (int rank = 1; rank < root->meeting->size; rank++) {
    if (root->arrivals[rank].joined) continue;
    if (first < 0) first = rank;
    if (++missing > 8 || length >= size) continue;
    bool hosts = root->meeting->hosts != NULL;
    length += (size_t)snprintf(text + length, size - length, "%srank %d%s%s%s",
                               missing == 1 ? "" : ", ", rank, hosts ? " (" : "",
                               hosts ? root->meeting->hosts[rank] : "", hosts ? ")" : "");
  }
  if (missing > 8 && length < size)
    snprintf(text + length, size - length, " and %d more", missing - 8);
  return first;
}

static ring_status root_explain(const root_meeting *root, ring_status status, ring_error *error) {
  if (status == RING_ABORTED) return ring_rendezvous_interrupted(error);
  if (status != RING_TIMEOUT)
    return ring_error_set(error, status, -1, 0, "rank 0 could not wait for the other ranks: %s",
                          ring_status_text(status));
  char missing[400];
  int first = root_list_missing(root, missing, sizeof missing);
  if (root->porch.exhausted != 0)
    return ring_error_set(
        error, RING_SYSTEM, 0, root->porch.exhausted,
        "rank 0 could not accept all ranks (missing: %s); raise its limit of open "
        "files (ulimit -n)",
        missing);
  return ring_error_set(
      error, RING_TIMEOUT, first, 0,
      "%d of %d ranks met within %.1f s; missing: %s. Usual causes: fewer free slots than "
      "partitions, an empty partition (it never starts an R closure), a firewall (open the port "
      "range and pass it on all ranks), or a token, job or address list that differs",
      root->joined + 1, root->meeting->size, ring_wait_seconds(root->meeting->wait), missing);
}

static void root_send_away(root_meeting *root, const ring_error *error) {
  uint8_t message[RING_WELCOME_HEAD_BYTES + sizeof error->message];
  size_t length = strlen(error->message);
  memcpy(message + RING_WELCOME_HEAD_BYTES, error->message, length);
  root_tell_all(root, error->status, error->rank, message, RING_WELCOME_HEAD_BYTES + length);
}

/* ---- The meeting -------------------------------------------------------------------------- */

static int root_listen(const ring_meeting *meeting, ring_error *error) {
  char ports[128];
  int fd = -EADDRINUSE;
  for (int i = 0; i < meeting->port_count && fd == -EADDRINUSE; i++)
    fd = ring_socket_listen(meeting->root_host, meeting->ports[i]);
  if (fd >= 0) return fd;
  ring_rendezvous_ports_text(meeting, ports, sizeof ports);
  ring_error_set(error, RING_SYSTEM, 0, -fd,
                 "rank 0 cannot listen on %s: none of the job's ports (%s) can be bound",
                 meeting->root_host, ports);
  return -1;
}

static ring_status root_run(root_meeting *root, ring_peers *peers, ring_error *error) {
  ring_error failure;
  uint16_t port = (uint16_t)ring_socket_port(root->porch.listener);
  ring_status status = root_gather(root);
  if (status == RING_OK && !ring_secret_random(&peers->epoch, sizeof peers->epoch))
    status = RING_SYSTEM;
  if (status == RING_OK) status = root_welcome(root, peers, port);
  if (status == RING_OK) return RING_OK;
  root_explain(root, status, &failure);
  root_send_away(root, &failure);
  if (error != NULL) *error = failure;
  return status;
}

ring_status ring_rendezvous_root(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  root_meeting root = {.meeting = meeting, .porch.listener = -1};
  int listener = root_listen(meeting, error);
  if (listener < 0) return RING_SYSTEM;
  root.arrivals = calloc((size_t)meeting->size, sizeof *root.arrivals);
  ring_status status = ring_porch_open(&root.porch, listener, 0, meeting->size, &meeting->key);
  root.porch.judge = root_judge;
  root.porch.admit = root_admit;
  root.porch.owner = &root;
  if (root.arrivals == NULL || status != RING_OK) {
    status = ring_error_set(error, RING_NO_MEMORY, -1, 0, "out of memory");
  } else {
    for (int rank = 0; rank < meeting->size; rank++) root.arrivals[rank].fd = -1;
    status = root_run(&root, peers, error);
    for (int rank = 1; rank < meeting->size; rank++) root_depart(&root, rank);
  }
  free(root.arrivals);
  ring_poller_fini(&root.poller);
  if (status == RING_OK) { /* the same listener now serves links */
    peers->key = meeting->key;
    listener = root.porch.listener;
    root.porch.listener = -1;
    status = ring_peers_listen(peers, listener);
  }
  ring_porch_close(&root.porch);
  return status;
}
