/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves the acceptor until every rank has joined, sends each its WELCOME, sends the table to its
 * own children, and waits until every rank has reported that it has the table. While ranks join, a
 * rank that joins twice counts by its newer connection, because it may have been restarted.
 *
 * At the deadline rank 0 sends the names of the missing ranks to all clients, also to a client
 * whose REPORT has arrived in part. It also sends the error of a rank that dies or fails later, or
 * that goes away before all have joined and does not come back in time. A rank that disagrees about
 * encryption, or that lacks what it needs to join, ends the rendezvous when all ranks have
 * connected, or after ROOT_GRACE_NS, so that ranks that come a little later receive the error, too.
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

/* Time between the error that is sent to all ranks and the first deadline of a rank. */
#define ROOT_AHEAD_NS UINT64_C(250000000)

/* With more ranks than this, ranks from which nothing is expected soon are polled at intervals
 * only: to poll all connections after each event would cost size * size. */
#define ROOT_FEW 64
#define ROOT_POLL_NS UINT64_C(10000) /* for each rank */

/* Time for further ranks to connect once a rank disagrees or cannot join. */
#define ROOT_GRACE_NS UINT64_C(500000000)

static void root_remove(root_state *root, int rank) {
  root_client *client = &root->clients[rank];
  root->reached -= client->stage >= root->goal ? 1 : 0;
  ring_socket_close(&client->fd);
  ring_seal_wipe(&client->seal);
  ring_message_drop_part(&client->partial);
  *client = (root_client){.fd = -1};
}

static void root_set_stage(root_state *root, int rank, root_stage stage) {
  root_client *client = &root->clients[rank];
  root->reached += (stage >= root->goal ? 1 : 0) - (client->stage >= root->goal ? 1 : 0);
  client->stage = stage;
}

/* The rendezvous will fail: it ends after a grace time. */
static void root_start_grace(root_state *root) {
  if (root->grace_ends == 0) root->grace_ends = ring_platform_now() + ROOT_GRACE_NS;
}

/* ---- Joining ------------------------------------------------------------------------------ */

static ring_answer root_judge(void *owner, const ring_claim *claim) {
  root_state *root = owner;
  if (claim->purpose != RING_PURPOSE_RENDEZVOUS) return RING_ANSWER_STALE;
  if (claim->rank == 0) return RING_ANSWER_TWICE;
  if (claim->encrypted == root->rendezvous->encrypted) return RING_ANSWER_ACCEPTED;
  root_remove(root, claim->rank);
  root->clients[claim->rank].unlike = true;
  root_start_grace(root);
  return RING_ANSWER_UNLIKE;
}

static void root_admit(void *owner, const ring_handshake *proven) {
  root_state *root = owner;
  int rank = proven->claim.rank;
  root_remove(root, rank);
  root->clients[rank].fd = proven->fd;
  if (ring_seal_begin(&root->clients[rank].seal, proven)) {
    root_set_stage(root, rank, ROOT_CONNECTED);
  } else {
    root->starved = true;
    root_remove(root, rank);
  }
}

/* Reads a complete JOIN. A JOIN with changed bytes closes the connection; the rank joins again. */
static ring_status root_read_join(root_state *root, int rank) {
  root_client *client = &root->clients[rank];
  const uint8_t *from = client->join;
  ring_status status = ring_seal_open(&client->seal, NULL, 0, client->join, RING_JOIN_BYTES);
  if (status == RING_NO_MEMORY) return status;
  if (status != RING_OK) {
    root_remove(root, rank);
    return RING_OK;
  }
  bool joins = bytes_get(&from, 2) != 0;
  client->deadline = ring_platform_now() + bytes_get(&from, 4) * UINT64_C(1000000);
  root_set_stage(root, rank, joins ? ROOT_JOINED : ROOT_WITHDRAWN);
  return RING_OK;
}

/* Receives the JOIN of a rank, or the end of its connection. */
static ring_status root_receive_join(root_state *root, int rank) {
  root_client *client = &root->clients[rank];
  size_t capacity = sizeof client->join - client->have;
  ssize_t got = recv(client->fd, client->join + client->have, capacity, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return RING_OK;
  if (got <= 0) {
    root_remove(root, rank);
    client->lost = ring_platform_now();
    return RING_OK;
  }
  client->have += (size_t)got;
  return client->have < sizeof client->join ? RING_OK : root_read_join(root, rank);
}

/* Receives a message without blocking. RING_BUSY while it is not complete. */
static ring_status root_receive(root_state *root, int rank, ring_message *message) {
  root_client *client = &root->clients[rank];
  ring_status status = ring_message_receive_part(root->rendezvous, client->fd, &client->seal,
                                                 &client->partial, message);
  if (status != RING_BUSY) ring_message_drop_part(&client->partial);
  return status;
}

/* The error for all ranks from the REPORT of a rank that failed. */
static ring_status root_failure_error(int rank, const ring_message *message, ring_error *error) {
  return ring_error_set(error, message->status, message->fault < 0 ? rank : message->fault, 0,
                        "rank %d reports: %.800s", rank, (const char *)message->body);
}

/* Receives the REPORT of a rank that cannot join, or stay until all have, or the end of its
 * connection. */
static ring_status root_receive_withdrawal(root_state *root, int rank) {
  root_client *client = &root->clients[rank];
  ring_message message;
  ring_status status = root_receive(root, rank, &message);
  if (status == RING_BUSY) return RING_OK;
  if (status == RING_NO_MEMORY) return status;
  if (status == RING_OK && message.status != RING_OK) {
    root_set_stage(root, rank, ROOT_WITHDRAWN);
    client->failed = true;
    root_failure_error(rank, &message, &root->report);
    root_start_grace(root);
  } else if (client->failed) {
    ring_socket_close(&client->fd); /* its report is complete */
  } else {
    root_remove(root, rank);
    if (status == RING_PEER_LOST) client->lost = ring_platform_now();
  }
  return RING_OK;
}

/* Receives the REPORT of a rank that has joined. Its failure is the failure of all ranks. */
static ring_status root_receive_report(root_state *root, int rank, ring_error *error) {
  const char *host = ring_peers_host(root->peers, rank);
  ring_message message;
  ring_status status = root_receive(root, rank, &message);
  if (status == RING_BUSY) return RING_OK;
  if (status == RING_OK && message.status != RING_OK)
    return root_failure_error(rank, &message, error);
  if (status == RING_OK && root->clients[rank].stage == ROOT_JOINED) {
    root_set_stage(root, rank, ROOT_INFORMED);
    return RING_OK;
  }
  if (status == RING_AUTH) return ring_rendezvous_tampered(rank, host, error);
  if (status != RING_OK && status != RING_PEER_LOST) return status;
  root_remove(root, rank);
  return ring_root_lost_error(root, rank, "was lost while the address table was sent", error);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* RING_TIMEOUT ROOT_AHEAD_NS before the first deadline of a connected rank, so that all receive the
 * error. */
static ring_status root_check(const root_state *root) {
  uint64_t now = ring_platform_now(), soon = now + ROOT_AHEAD_NS;
  bool all = true;
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    const root_client *client = &root->clients[rank];
    bool joined = client->stage >= ROOT_JOINED;
    if (joined && client->deadline < soon) return RING_TIMEOUT;
    all = all && (joined || client->unlike || client->failed);
  }
  bool ends = root->grace_ends != 0 && (all || now > root->grace_ends);
  if (ends && ring_root_mismatch(root) > 0) return RING_MISMATCH;
  if (ends && ring_root_failed(root)) return root->report.status;
  if (ring_root_find_lost(root) > 0) return RING_PEER_LOST;
  return ring_wait_check(root->rendezvous->wait);
}

/* Fills the poll set. Returns how many milliseconds to sleep, at most. */
static int root_watch(root_state *root) {
  const int size = root->rendezvous->size;
  int slice = ring_wait_slice(root->rendezvous->wait);
  uint64_t now = ring_platform_now(), interval = (uint64_t)size * ROOT_POLL_NS;
  bool look = size <= ROOT_FEW || now - root->polled >= interval;
  if (look) root->polled = now;
  ring_poll_set_reset(&root->poll_set);
  if (root->goal == ROOT_JOINED)
    ring_acceptor_watch(&root->acceptor, &root->poll_set);
  else
    ring_address_table_watch(&root->address_table, &root->poll_set);
  for (int rank = 1; rank < size; rank++) {
    root_client *client = &root->clients[rank];
    client->slot = SIZE_MAX;
    if (client->fd >= 0 && (look || client->stage == ROOT_CONNECTED))
      client->slot = ring_poll_set_add(&root->poll_set, client->fd, POLLIN);
  }
  int soon = (int)(interval / 1000000) + 1;
  return size <= ROOT_FEW || slice < soon ? slice : soon;
}

static ring_status root_serve(root_state *root, ring_error *error) {
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    if (!ring_poll_set_ready(&root->poll_set, root->clients[rank].slot)) continue;
    ring_status status = root->goal == ROOT_INFORMED ? root_receive_report(root, rank, error)
                         : root->clients[rank].stage == ROOT_CONNECTED
                             ? root_receive_join(root, rank)
                             : root_receive_withdrawal(root, rank);
    if (status != RING_OK) return status;
  }
  if (root->goal == ROOT_INFORMED)
    return ring_address_table_serve(&root->address_table, &root->poll_set, error);
  ring_acceptor_serve(&root->acceptor, &root->poll_set);
  return root->starved ? RING_NO_MEMORY : RING_OK;
}

/* ---- Sending ------------------------------------------------------------------------------ */

/* Sends a message to a rank. Fails without memory only: a rank that cannot receive has died, which
 * is detected elsewhere. */
static ring_status root_send(root_state *root, int rank, const ring_message *message) {
  root_client *client = &root->clients[rank];
  if (client->fd < 0) return RING_OK;
  ring_status status = ring_message_send(root->rendezvous, &root->message_poll_set, client->fd,
                                         &client->seal, message);
  return status == RING_NO_MEMORY ? status : RING_OK;
}

/* Sends RESULT to all ranks: the job has formed. */
static ring_status root_send_results(root_state *root) {
  const ring_message formed = {.fault = -1};
  ring_status status = RING_OK;
  root->confirming = true;
  for (int rank = 1; status == RING_OK && rank < root->rendezvous->size; rank++)
    status = root_send(root, rank, &formed);
  return status;
}

static ring_status root_place(root_state *root, int rank) {
  ring_peers *peers = root->peers;
  const ring_rendezvous *rendezvous = root->rendezvous;
  const root_client *client = &root->clients[rank];
  const uint8_t *join = client->join;
  char host[RING_HOST_BYTES];
  uint16_t port = (uint16_t)bytes_get(&join, 2);
  if (rendezvous->hosts != NULL)
    return ring_peers_place(peers, rank, rendezvous->hosts[rank], port);
  /* A rank that connected over loopback is on this host, which the other ranks know by another
   * name. */
  if (!ring_socket_peer_host(client->fd, host, sizeof host) || ring_socket_is_loopback(host))
    return ring_peers_place(peers, rank, rendezvous->root_host, port);
  return ring_peers_place(peers, rank, host, port);
}

/* Sends WELCOME to each rank: the epoch and its parent's address. */
static ring_status root_send_welcomes(root_state *root) {
  ring_status status = RING_OK;
  for (int rank = 1; status == RING_OK && rank < root->rendezvous->size; rank++) {
    int parent = ring_address_table_parent(rank);
    ring_message message = {.fault = -1};
    uint8_t *to = bytes_put(message.body, root->peers->epoch, 8);
    to = bytes_put(to, root->peers->peer[parent].port, 2);
    to = ring_address_pack(to, ring_peers_host(root->peers, parent));
    message.length = (size_t)(to - message.body);
    status = root_send(root, rank, &message);
  }
  return status;
}

static void root_send_error(root_state *root, const ring_error *error) {
  ring_message message = {
      .status = error->status, .fault = error->rank, .length = strlen(error->message)};
  memcpy(message.body, error->message, message.length);
  for (int rank = 1; rank < root->rendezvous->size; rank++) root_send(root, rank, &message);
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

/* When all have joined: rank 0 serves links at its listener, as any other rank does. */
static ring_status root_serve_links(root_state *root, ring_error *error) {
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
static ring_status root_await(root_state *root, root_stage goal, ring_error *error) {
  root->goal = goal;
  root->reached = 0;
  while (root->reached < root->rendezvous->size - 1) {
    int slice = root_watch(root);
    ring_status status = ring_poll_set_sleep(&root->poll_set, slice);
    if (status == RING_OK) status = root_serve(root, error);
    if (status != RING_OK) return status;
    status = root_check(root);
    if (status != RING_OK && root->reached < root->rendezvous->size - 1) return status;
    if (ring_wait_lasts(root->rendezvous->wait)) ring_root_warn(root);
  }
  return RING_OK;
}

static ring_status root_run(root_state *root, ring_error *error) {
  ring_error failure = {.status = RING_OK};
  ring_status status = root_await(root, ROOT_JOINED, &failure);
  if (status == RING_OK) status = root_serve_links(root, &failure);
  if (status == RING_OK) status = root_send_welcomes(root);
  if (status == RING_OK) status = root_await(root, ROOT_INFORMED, &failure);
  if (status == RING_OK) status = root_send_results(root);
  if (status == RING_OK) return RING_OK;
  if (failure.status == RING_OK) status = ring_root_explain(root, status, &failure);
  root_send_error(root, &failure);
  if (error != NULL) *error = failure;
  return status;
}

ring_status ring_rendezvous_root(ring_rendezvous *rendezvous, ring_peers *peers,
                                 ring_error *error) {
  root_state root = {.rendezvous = rendezvous, .peers = peers, .acceptor.listener = -1};
  int listener = root_listen(rendezvous, error);
  if (listener < 0) return RING_SYSTEM;
  size_t clients = (size_t)rendezvous->size * sizeof *root.clients;
  root.clients = ring_secret_alloc(clients);
  ring_status status =
      ring_acceptor_open(&root.acceptor, listener, 0, rendezvous->size, &peers->keys);
  root.acceptor.encrypted = rendezvous->encrypted;
  root.acceptor.judge = root_judge;
  root.acceptor.admit = root_admit;
  root.acceptor.owner = &root;
  if (root.clients == NULL || status != RING_OK) {
    status = ring_error_no_memory(error, 0);
  } else {
    for (int rank = 0; rank < rendezvous->size; rank++) root.clients[rank].fd = -1;
    status = root_run(&root, error);
    rendezvous->awaited = status != RING_OK && root.confirming;
    for (int rank = 1; rank < rendezvous->size; rank++) root_remove(&root, rank);
  }
  ring_secret_free(root.clients, clients);
  ring_address_table_free(&root.address_table);
  ring_poll_set_fini(&root.poll_set);
  ring_poll_set_fini(&root.message_poll_set);
  ring_acceptor_close(&root.acceptor);
  return status;
}
