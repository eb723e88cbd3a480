/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's side of the rendezvous by addresses: serves the acceptor until every rank has joined, tells
 * each where its parent is, gives the table to its own children, and waits until every rank has
 * reported that it knows all places. While ranks still join, one that joins twice counts by its
 * newer connection, because a rank that was started again is the one that is wanted. At the
 * deadline all that came are told who did not, whatever part of a report one of them has sent; when a
 * rank dies or fails later, or has come, goes away and is not back a moment after, all are told that. A
 * rank that wants encryption where rank 0 does not, or the other way around, and one that lacks what it
 * needs to join end the rendezvous: as soon as all have come, or a moment after, so that those who come a
 * little later are told, too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "rendezvous/root.h"
#include "rendezvous/root_report.h"
#include "rendezvous/root_state.h"
#include "transport/socket.h"

/* How long before the first rank gives up all are told. */
#define ROOT_AHEAD_NS UINT64_C(250000000)

/* Of many ranks, those from which nothing is expected soon are only looked at now and then: a sleep
 * on all connections for every one that comes would cost size * size. */
#define ROOT_FEW 64
#define ROOT_LOOK_NS UINT64_C(10000) /* for each rank */

/* How long those who have not come yet are waited for when one has come that disagrees or cannot join. */
#define ROOT_GRACE_NS UINT64_C(500000000)

static void root_depart(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  root->there -= arrival->stage >= root->goal ? 1 : 0;
  ring_socket_close(&arrival->fd);
  ring_seal_wipe(&arrival->seal);
  ring_message_receive_end(&arrival->partial);
  *arrival = (root_arrival){.fd = -1};
}

static void root_enter(root_meeting *root, int rank, root_stage stage) {
  root_arrival *arrival = &root->arrivals[rank];
  root->there += (stage >= root->goal ? 1 : 0) - (arrival->stage >= root->goal ? 1 : 0);
  arrival->stage = stage;
}

/* The rendezvous ends soon, for want of what a rank that has come wants or needs. */
static void root_lose_patience(root_meeting *root) {
  if (root->patience == 0) root->patience = ring_platform_now() + ROOT_GRACE_NS;
}

/* ---- Joining ------------------------------------------------------------------------------ */

static ring_verdict root_judge(void *owner, const ring_claim *claim) {
  root_meeting *root = owner;
  if (claim->purpose != RING_PURPOSE_RENDEZVOUS) return RING_VERDICT_STALE;
  if (claim->rank == 0) return RING_VERDICT_TWICE;
  if (claim->encrypted == root->rendezvous->encrypted) return RING_VERDICT_WELCOME;
  root_depart(root, claim->rank);
  root->arrivals[claim->rank].unlike = true;
  root_lose_patience(root);
  return RING_VERDICT_UNLIKE;
}

static void root_admit(void *owner, const ring_handshake *proven) {
  root_meeting *root = owner;
  int rank = proven->claim.rank;
  root_depart(root, rank);
  root->arrivals[rank].fd = proven->fd;
  if (ring_seal_begin(&root->arrivals[rank].seal, proven)) {
    root_enter(root, rank, ROOT_CAME);
  } else {
    root->starved = true;
    root_depart(root, rank);
  }
}

/* Reads a JOIN that is whole. One that was changed has to come anew. */
static ring_status root_read_join(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  const uint8_t *from = arrival->join;
  ring_status status = ring_seal_open(&arrival->seal, NULL, 0, arrival->join, RING_JOIN_BYTES);
  if (status == RING_NO_MEMORY) return status;
  if (status != RING_OK) {
    root_depart(root, rank);
    return RING_OK;
  }
  bool joins = bytes_get(&from, 2) != 0;
  arrival->leaves = ring_platform_now() + bytes_get(&from, 4) * UINT64_C(1000000);
  root_enter(root, rank, joins ? ROOT_JOINED : ROOT_WITHDRAWN);
  return RING_OK;
}

/* Reads the JOIN of a rank, or sees that it has gone. */
static ring_status root_hear_join(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  size_t capacity = sizeof arrival->join - arrival->have;
  ssize_t got = recv(arrival->fd, arrival->join + arrival->have, capacity, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return RING_OK;
  if (got <= 0) {
    root_depart(root, rank);
    arrival->lost = ring_platform_now();
    return RING_OK;
  }
  arrival->have += (size_t)got;
  return arrival->have < sizeof arrival->join ? RING_OK : root_read_join(root, rank);
}

/* Hears the rest of a message, or what has come of it: then RING_BUSY. */
static ring_status root_hear(root_meeting *root, int rank, ring_message *message) {
  root_arrival *arrival = &root->arrivals[rank];
  ring_status status = ring_message_receive_part(root->rendezvous, arrival->fd, &arrival->seal,
                                                 &arrival->partial, message);
  if (status != RING_BUSY) ring_message_receive_end(&arrival->partial);
  return status;
}

/* Keeps what a rank reports that failed, for all to be told. */
static ring_status root_note_failure(int rank, const ring_message *message, ring_error *error) {
  return ring_error_set(error, message->status, message->fault < 0 ? rank : message->fault, 0,
                        "rank %d reports: %.800s", rank, (const char *)message->body);
}

/* Reads why a rank cannot join, or not stay until all have, or sees that it has gone. */
static ring_status root_hear_withdrawal(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  ring_message message;
  ring_status status = root_hear(root, rank, &message);
  if (status == RING_BUSY) return RING_OK;
  if (status == RING_NO_MEMORY) return status;
  if (status == RING_OK && message.status != RING_OK) {
    root_enter(root, rank, ROOT_WITHDRAWN);
    arrival->failed = true;
    root_note_failure(rank, &message, &root->report);
    root_lose_patience(root);
  } else if (arrival->failed) {
    ring_socket_close(&arrival->fd); /* it has said all */
  } else {
    root_depart(root, rank);
    if (status == RING_PEER_LOST) arrival->lost = ring_platform_now();
  }
  return RING_OK;
}

/* Reads what has come of the REPORT of a rank that joined; a failure there is one of all. */
static ring_status root_hear_report(root_meeting *root, int rank, ring_error *error) {
  const char *host = ring_peers_host(root->peers, rank);
  ring_message message;
  ring_status status = root_hear(root, rank, &message);
  if (status == RING_BUSY) return RING_OK;
  if (status == RING_OK && message.status != RING_OK)
    return root_note_failure(rank, &message, error);
  if (status == RING_OK && root->arrivals[rank].stage == ROOT_JOINED) {
    root_enter(root, rank, ROOT_INFORMED);
    return RING_OK;
  }
  if (status == RING_AUTH) return ring_rendezvous_altered(rank, host, error);
  if (status != RING_OK && status != RING_PEER_LOST) return status;
  root_depart(root, rank);
  return ring_root_lose(root, rank, "was lost while the ranks were told where the others are",
                        error);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* RING_TIMEOUT a little before the first of those who have come gives up, so that all are told. */
static ring_status root_check(const root_meeting *root) {
  uint64_t now = ring_platform_now(), soon = now + ROOT_AHEAD_NS;
  bool all = true;
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    const root_arrival *arrival = &root->arrivals[rank];
    bool joined = arrival->stage >= ROOT_JOINED;
    if (joined && arrival->leaves < soon) return RING_TIMEOUT;
    all = all && (joined || arrival->unlike || arrival->failed);
  }
  bool ends = root->patience != 0 && (all || now > root->patience);
  if (ends && ring_root_odd(root) > 0) return RING_MISMATCH;
  if (ends && ring_root_failed(root)) return root->report.status;
  if (ring_root_lost(root) > 0) return RING_PEER_LOST;
  return ring_wait_check(root->rendezvous->wait);
}

/* Chooses what to sleep on, and returns for how many milliseconds at most. */
static int root_watch(root_meeting *root) {
  const int size = root->rendezvous->size;
  int slice = ring_wait_slice(root->rendezvous->wait);
  uint64_t now = ring_platform_now(), interval = (uint64_t)size * ROOT_LOOK_NS;
  bool look = size <= ROOT_FEW || now - root->looked >= interval;
  if (look) root->looked = now;
  ring_poll_set_reset(&root->poll_set);
  if (root->goal == ROOT_JOINED)
    ring_acceptor_watch(&root->acceptor, &root->poll_set);
  else
    ring_address_table_watch(&root->address_table, &root->poll_set);
  for (int rank = 1; rank < size; rank++) {
    root_arrival *arrival = &root->arrivals[rank];
    arrival->slot = SIZE_MAX;
    if (arrival->fd >= 0 && (look || arrival->stage == ROOT_CAME))
      arrival->slot = ring_poll_set_add(&root->poll_set, arrival->fd, POLLIN);
  }
  int soon = (int)(interval / 1000000) + 1;
  return size <= ROOT_FEW || slice < soon ? slice : soon;
}

static ring_status root_serve(root_meeting *root, ring_error *error) {
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    if (!ring_poll_set_ready(&root->poll_set, root->arrivals[rank].slot)) continue;
    ring_status status = root->goal == ROOT_INFORMED ? root_hear_report(root, rank, error)
                         : root->arrivals[rank].stage == ROOT_CAME
                             ? root_hear_join(root, rank)
                             : root_hear_withdrawal(root, rank);
    if (status != RING_OK) return status;
  }
  if (root->goal == ROOT_INFORMED)
    return ring_address_table_serve(&root->address_table, &root->poll_set, error);
  ring_acceptor_serve(&root->acceptor, &root->poll_set);
  return root->starved ? RING_NO_MEMORY : RING_OK;
}

/* ---- Telling ------------------------------------------------------------------------------ */

/* Sends a message to a rank, unless there is no memory for it. One that cannot take it has died, which
 * is found by other ways. */
static ring_status root_tell(root_meeting *root, int rank, const ring_message *message) {
  root_arrival *arrival = &root->arrivals[rank];
  if (arrival->fd < 0) return RING_OK;
  ring_status status =
      ring_message_send(root->rendezvous, &root->mover, arrival->fd, &arrival->seal, message);
  return status == RING_NO_MEMORY ? status : RING_OK;
}

/* Tells all ranks that the job has formed. */
static ring_status root_confirm(root_meeting *root) {
  const ring_message formed = {.fault = -1};
  ring_status status = RING_OK;
  root->confirms = true;
  for (int rank = 1; status == RING_OK && rank < root->rendezvous->size; rank++)
    status = root_tell(root, rank, &formed);
  return status;
}

static ring_status root_place(root_meeting *root, int rank) {
  ring_peers *peers = root->peers;
  const ring_rendezvous *rendezvous = root->rendezvous;
  const root_arrival *arrival = &root->arrivals[rank];
  const uint8_t *join = arrival->join;
  char host[RING_HOST_BYTES];
  uint16_t port = (uint16_t)bytes_get(&join, 2);
  if (rendezvous->hosts != NULL)
    return ring_peers_place(peers, rank, rendezvous->hosts[rank], port);
  /* A rank that came over loopback is on this host, which the others know by its own name. */
  if (!ring_socket_peer_host(arrival->fd, host, sizeof host) || ring_socket_is_loopback(host))
    return ring_peers_place(peers, rank, rendezvous->root_host, port);
  return ring_peers_place(peers, rank, host, port);
}

/* Tells each rank the epoch and where its parent is. */
static ring_status root_welcome(root_meeting *root) {
  ring_status status = RING_OK;
  for (int rank = 1; status == RING_OK && rank < root->rendezvous->size; rank++) {
    int parent = ring_address_table_parent(rank);
    ring_message message = {.fault = -1};
    uint8_t *to = bytes_put(message.body, root->peers->epoch, 8);
    to = bytes_put(to, root->peers->peer[parent].port, 2);
    to = ring_address_pack(to, ring_peers_host(root->peers, parent));
    message.length = (size_t)(to - message.body);
    status = root_tell(root, rank, &message);
  }
  return status;
}

static void root_send_away(root_meeting *root, const ring_error *error) {
  ring_message message = {
      .status = error->status, .fault = error->rank, .length = strlen(error->message)};
  memcpy(message.body, error->message, message.length);
  for (int rank = 1; rank < root->rendezvous->size; rank++) root_tell(root, rank, &message);
}

/* ---- The rendezvous -------------------------------------------------------------------------- */

static int root_listen(const ring_rendezvous *rendezvous, ring_error *error) {
  char ports[128];
  int fd = -EADDRINUSE;
  for (int i = 0; i < rendezvous->port_count && fd == -EADDRINUSE; i++)
    fd = ring_socket_listen(rendezvous->root_host, rendezvous->ports[i]);
  if (fd >= 0) return fd;
  ring_rendezvous_ports_text(rendezvous, ports, sizeof ports);
  ring_error_set(error, RING_SYSTEM, 0, -fd,
                 "rank 0 cannot listen on %s: none of the job's ports (%s) can be bound",
                 rendezvous->root_host, ports);
  return -1;
}

/* All have joined: from here on this is a rank like the others, and serves links. */
static ring_status root_settle(root_meeting *root, ring_error *error) {
  ring_peers *peers = root->peers;
  int listener = root->acceptor.listener;
  int port = ring_rendezvous_port(root->rendezvous, listener, error);
  if (port < 0) return RING_SYSTEM;
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch)) return RING_SYSTEM;
  ring_status status = ring_peers_place(peers, 0, root->rendezvous->root_host, (uint16_t)port);
  for (int rank = 1; status == RING_OK && rank < root->rendezvous->size; rank++)
    status = root_place(root, rank);
  if (status != RING_OK) return status;
  root->acceptor.listener = -1;
  ring_acceptor_close(&root->acceptor);
  status = ring_peers_listen(peers, listener);
  return status == RING_OK ? ring_address_table_begin(&root->address_table, peers, error) : status;
}

/* Waits until all ranks have reached a stage. */
static ring_status root_await(root_meeting *root, root_stage goal, ring_error *error) {
  root->goal = goal;
  root->there = 0;
  while (root->there < root->rendezvous->size - 1) {
    int slice = root_watch(root);
    ring_status status = ring_poll_set_sleep(&root->poll_set, slice);
    if (status == RING_OK) status = root_serve(root, error);
    if (status != RING_OK) return status;
    status = root_check(root);
    if (status != RING_OK && root->there < root->rendezvous->size - 1) return status;
    if (ring_wait_lasts(root->rendezvous->wait)) ring_root_warn(root);
  }
  return RING_OK;
}

static ring_status root_run(root_meeting *root, ring_error *error) {
  ring_error failure = {.status = RING_OK};
  ring_status status = root_await(root, ROOT_JOINED, &failure);
  if (status == RING_OK) status = root_settle(root, &failure);
  if (status == RING_OK) status = root_welcome(root);
  if (status == RING_OK) status = root_await(root, ROOT_INFORMED, &failure);
  if (status == RING_OK) status = root_confirm(root);
  if (status == RING_OK) return RING_OK;
  if (failure.status == RING_OK) status = ring_root_explain(root, status, &failure);
  root_send_away(root, &failure);
  if (error != NULL) *error = failure;
  return status;
}

ring_status ring_rendezvous_root(ring_rendezvous *rendezvous, ring_peers *peers,
                                 ring_error *error) {
  root_meeting root = {.rendezvous = rendezvous, .peers = peers, .acceptor.listener = -1};
  int listener = root_listen(rendezvous, error);
  if (listener < 0) return RING_SYSTEM;
  size_t arrivals = (size_t)rendezvous->size * sizeof *root.arrivals;
  root.arrivals = ring_secret_alloc(arrivals);
  ring_status status =
      ring_acceptor_open(&root.acceptor, listener, 0, rendezvous->size, &peers->keys);
  root.acceptor.encrypted = rendezvous->encrypted;
  root.acceptor.judge = root_judge;
  root.acceptor.admit = root_admit;
  root.acceptor.owner = &root;
  if (root.arrivals == NULL || status != RING_OK) {
    status = ring_error_no_memory(error, 0);
  } else {
    for (int rank = 0; rank < rendezvous->size; rank++) root.arrivals[rank].fd = -1;
    status = root_run(&root, error);
    rendezvous->awaited = status != RING_OK && root.confirms;
    for (int rank = 1; rank < rendezvous->size; rank++) root_depart(&root, rank);
  }
  ring_secret_free(root.arrivals, arrivals);
  ring_address_table_free(&root.address_table);
  ring_poll_set_fini(&root.poll_set);
  ring_poll_set_fini(&root.mover);
  ring_acceptor_close(&root.acceptor);
  return status;
}
