/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's side of the meeting by addresses: serves the porch until every rank has joined, tells
 * each where its parent is, gives the table to its own children, and waits until every rank has
 * reported that it knows all places. While ranks still join, one that joins twice counts by its
 * newer connection, because a rank that was started again is the one that is wanted. At the
 * deadline all that came are told who did not, whatever part of a report one of them has sent; when a rank dies or fails later, or has joined, goes away
 * and is not back a moment after, all are told that. A
 * rank that wants encryption where rank 0 does not, or the other way around, ends the meeting: as soon
 * as all have come, or a moment after, so that those who come a little later are told, too.
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
#include "spread.h"

/* How long before the first rank gives up all are told. */
#define ROOT_AHEAD_NS UINT64_C(250000000)

/* Of many ranks, those from which nothing is expected soon are only looked at now and then: a sleep
 * on all connections for every one that comes would cost size * size. */
#define ROOT_FEW 64
#define ROOT_LOOK_NS UINT64_C(10000) /* for each rank */

/* How long those who have not come yet are waited for when one has come that disagrees. */
#define ROOT_GRACE_NS UINT64_C(500000000)

/* And one that had joined, and was lost. */
#define ROOT_RETURN_NS UINT64_C(500000000)

typedef enum root_stage { ROOT_ABSENT, ROOT_CAME, ROOT_JOINED, ROOT_INFORMED } root_stage;

typedef struct root_arrival {
  int fd; /* -1: not there */
  root_stage stage;
  bool unlike; /* was sent away: it does not want the same encryption */
  size_t have; /* bytes of its JOIN */
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  ring_seal seal;
  ring_hearing hearing; /* of its REPORT */
  uint64_t leaves;      /* when it gives up */
  uint64_t lost;        /* when it went away after it had joined; 0: it has not */
  size_t slot;
} root_arrival;

typedef struct root_meeting {
  const ring_meeting *meeting;
  ring_peers *peers;
  root_stage goal;
  int there;              /* arrivals that have reached the goal */
  root_arrival *arrivals; /* by rank; that of rank 0 is not used */
  ring_porch porch;       /* until all have joined */
  ring_spread spread;     /* from then on */
  ring_poller poller;
  ring_poller mover; /* of notes */
  bool starved;      /* of memory, to answer a rank that has proved itself */
  uint64_t looked;   /* when all arrivals were last looked at */
  uint64_t patience; /* when it ends with those who are not there, once one has disagreed */
} root_meeting;

static void root_depart(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  root->there -= arrival->stage >= root->goal ? 1 : 0;
  ring_socket_close(&arrival->fd);
  ring_seal_wipe(&arrival->seal);
  ring_rendezvous_hear_end(&arrival->hearing);
  *arrival = (root_arrival){.fd = -1};
}

/* "rank 1 (worker-a)", or without the host where that is not known yet. */
static void root_name(const root_meeting *root, int rank, char *text, size_t size) {
  const char *host = root->goal == ROOT_INFORMED ? ring_peers_host(root->peers, rank) : NULL;
  if (root->meeting->hosts != NULL) host = root->meeting->hosts[rank];
  snprintf(text, size, host != NULL ? "rank %d (%s)" : "rank %d", rank, host);
}

/* A rank that had joined has gone: it was lost, or this one was stopped, and it has given it up. */
static ring_status root_lose(const root_meeting *root, int rank, const char *how,
                             ring_error *error) {
  char name[RING_HOST_BYTES + 32];
  double absence = ring_wait_absence(root->meeting->wait);
  root_name(root, rank, name, sizeof name);
  if (absence == 0) return ring_error_set(error, RING_PEER_LOST, rank, 0, "%s %s", name, how);
  return ring_error_set(
      error, RING_ABORTED, 0, 0,
      "rank 0 was stopped for %.1f s during open(), and %s has gone meanwhile: the "
      "others have given this rank up",
      absence, name);
}

static void root_advance(root_meeting *root, int rank) {
  root->arrivals[rank].stage++;
  root->there += root->arrivals[rank].stage == root->goal ? 1 : 0;
}

/* ---- Joining ------------------------------------------------------------------------------ */

static ring_verdict root_judge(void *owner, const ring_claim *claim) {
  root_meeting *root = owner;
  if (claim->purpose != RING_PURPOSE_MEET) return RING_VERDICT_STALE;
  if (claim->rank == 0) return RING_VERDICT_TWICE;
  if (claim->encrypted == root->meeting->encrypted) return RING_VERDICT_WELCOME;
  root_depart(root, claim->rank);
  root->arrivals[claim->rank].unlike = true;
  if (root->patience == 0) root->patience = ring_platform_now() + ROOT_GRACE_NS;
  return RING_VERDICT_UNLIKE;
}

static void root_admit(void *owner, const ring_handshake *proven) {
  root_meeting *root = owner;
  int rank = proven->claim.rank;
  root_depart(root, rank);
  root->arrivals[rank].fd = proven->fd;
  if (ring_seal_begin(&root->arrivals[rank].seal, proven)) {
    root_advance(root, rank);
  } else {
    root->starved = true;
    root_depart(root, rank);
  }
}

/* Reads a JOIN that is whole; RING_AUTH for one that no rank has sent. */
static ring_status root_read_join(root_arrival *arrival) {
  const uint8_t *from = arrival->join;
  ring_status status = ring_seal_open(&arrival->seal, NULL, 0, arrival->join, RING_JOIN_BYTES);
  if (status != RING_OK) return status;
  if (bytes_get(&from, 2) == 0) return RING_AUTH; /* no port */
  arrival->leaves = ring_platform_now() + bytes_get(&from, 4) * UINT64_C(1000000);
  return RING_OK;
}

/* Reads the JOIN of a rank, or sees that it has gone. One whose JOIN was changed has to come anew. */
static ring_status root_hear_join(root_meeting *root, int rank) {
  root_arrival *arrival = &root->arrivals[rank];
  bool joined = arrival->stage == ROOT_JOINED;
  uint8_t extra;
  void *to = joined ? &extra : arrival->join + arrival->have;
  size_t room = joined ? 1 : sizeof arrival->join - arrival->have;
  ssize_t got = recv(arrival->fd, to, room, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return RING_OK;
  if (got <= 0 || joined) {
    root_depart(root, rank);
    if (got <= 0 && joined) arrival->lost = ring_platform_now();
    return RING_OK;
  }
  arrival->have += (size_t)got;
  if (arrival->have < sizeof arrival->join) return RING_OK;
  ring_status status = root_read_join(arrival);
  if (status == RING_NO_MEMORY) return status;
  if (status == RING_OK)
    root_advance(root, rank);
  else
    root_depart(root, rank);
  return RING_OK;
}

/* Reads what has come of the REPORT of a rank that joined; a failure there is one of all. */
static ring_status root_hear_report(root_meeting *root, int rank, ring_error *error) {
  const char *host = ring_peers_host(root->peers, rank);
  root_arrival *arrival = &root->arrivals[rank];
  ring_note note;
  ring_status status = ring_rendezvous_hear_part(root->meeting, arrival->fd, &arrival->seal,
                                                 &arrival->hearing, &note);
  if (status == RING_BUSY) return RING_OK;
  ring_rendezvous_hear_end(&arrival->hearing);
  if (status == RING_OK && note.status != RING_OK)
    return ring_error_set(error, note.status, note.fault < 0 ? rank : note.fault, 0,
                          "rank %d reports: %.800s", rank, (const char *)note.body);
  if (status == RING_OK && arrival->stage == ROOT_JOINED) {
    root_advance(root, rank);
    return RING_OK;
  }
  if (status == RING_AUTH) return ring_rendezvous_altered(rank, host, error);
  if (status != RING_OK && status != RING_PEER_LOST) return status;
  root_depart(root, rank);
  return root_lose(root, rank, "was lost while the ranks were told where the others are", error);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* The first rank that does not want the same encryption, or -1. */
static int root_odd(const root_meeting *root) {
  for (int rank = 1; rank < root->meeting->size; rank++)
    if (root->arrivals[rank].unlike) return rank;
  return -1;
}

/* The first rank that had joined and has been away for long, or -1. */
static int root_lost(const root_meeting *root) {
  for (int rank = 1; rank < root->meeting->size; rank++) {
    uint64_t lost = root->arrivals[rank].lost;
    if (lost != 0 && ring_platform_now() - lost > ROOT_RETURN_NS) return rank;
  }
  return -1;
}

/* RING_TIMEOUT a little before the first of those who have come gives up, so that all are told. */
static ring_status root_check(const root_meeting *root) {
  uint64_t now = ring_platform_now(), soon = now + ROOT_AHEAD_NS;
  bool all = true;
  for (int rank = 1; rank < root->meeting->size; rank++) {
    const root_arrival *arrival = &root->arrivals[rank];
    bool joined = arrival->stage >= ROOT_JOINED;
    if (joined && arrival->leaves < soon) return RING_TIMEOUT;
    all = all && (joined || arrival->unlike);
  }
  bool ends = root->patience != 0 && (all || now > root->patience);
  if (ends && root_odd(root) > 0) return RING_MISMATCH;
  if (root_lost(root) > 0) return RING_PEER_LOST;
  return ring_wait_check(root->meeting->wait);
}

/* Chooses what to sleep on, and returns for how many milliseconds at most. */
static int root_watch(root_meeting *root) {
  const int size = root->meeting->size;
  int slice = ring_wait_slice(root->meeting->wait);
  uint64_t now = ring_platform_now(), interval = (uint64_t)size * ROOT_LOOK_NS;
  bool look = size <= ROOT_FEW || now - root->looked >= interval;
  if (look) root->looked = now;
  ring_poller_reset(&root->poller);
  if (root->goal == ROOT_JOINED)
    ring_porch_watch(&root->porch, &root->poller);
  else
    ring_spread_watch(&root->spread, &root->poller);
  for (int rank = 1; rank < size; rank++) {
    root_arrival *arrival = &root->arrivals[rank];
    arrival->slot = SIZE_MAX;
    if (arrival->fd >= 0 && (look || arrival->stage == ROOT_CAME))
      arrival->slot = ring_poller_add(&root->poller, arrival->fd, POLLIN);
  }
  int soon = (int)(interval / 1000000) + 1;
  return size <= ROOT_FEW || slice < soon ? slice : soon;
}

static ring_status root_serve(root_meeting *root, ring_error *error) {
  for (int rank = 1; rank < root->meeting->size; rank++) {
    if (!ring_poller_ready(&root->poller, root->arrivals[rank].slot)) continue;
    ring_status status = root->goal == ROOT_JOINED ? root_hear_join(root, rank)
                                                   : root_hear_report(root, rank, error);
    if (status != RING_OK) return status;
  }
  if (root->goal == ROOT_INFORMED) return ring_spread_serve(&root->spread, &root->poller, error);
  ring_porch_serve(&root->porch, &root->poller);
  return root->starved ? RING_NO_MEMORY : RING_OK;
}

/* ---- Telling ------------------------------------------------------------------------------ */

/* Sends a note to a rank, unless there is no memory for it. One that cannot take it has died, which
 * is found by other ways. */
static ring_status root_tell(root_meeting *root, int rank, const ring_note *note) {
  root_arrival *arrival = &root->arrivals[rank];
  if (arrival->fd < 0) return RING_OK;
  ring_status status =
      ring_rendezvous_tell(root->meeting, &root->mover, arrival->fd, &arrival->seal, note);
  return status == RING_NO_MEMORY ? status : RING_OK;
}

/* Tells all ranks that the job has formed. */
static ring_status root_confirm(root_meeting *root) {
  const ring_note formed = {.fault = -1};
  ring_status status = RING_OK;
  for (int rank = 1; status == RING_OK && rank < root->meeting->size; rank++)
    status = root_tell(root, rank, &formed);
  return status;
}

static ring_status root_place(root_meeting *root, int rank) {
  ring_peers *peers = root->peers;
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

/* Tells each rank the epoch and where its parent is. */
static ring_status root_welcome(root_meeting *root) {
  ring_status status = RING_OK;
  for (int rank = 1; status == RING_OK && rank < root->meeting->size; rank++) {
    int parent = ring_spread_parent(rank);
    ring_note note = {.fault = -1};
    uint8_t *to = bytes_put(note.body, root->peers->epoch, 8);
    to = bytes_put(to, root->peers->peer[parent].port, 2);
    to = ring_address_pack(to, ring_peers_host(root->peers, parent));
    note.length = (size_t)(to - note.body);
    status = root_tell(root, rank, &note);
  }
  return status;
}

/* Whether a rank keeps the others from the goal; one whose parent does only waits for that one. */
static bool root_misses(const root_meeting *root, int rank) {
  if (root->arrivals[rank].stage >= root->goal) return false;
  int parent = ring_spread_parent(rank);
  return root->goal == ROOT_JOINED || parent == 0 || root->arrivals[parent].stage >= root->goal;
}

/* "rank 1 (worker-a), rank 3 (worker-b)" */
static int root_list_missing(const root_meeting *root, char *text, size_t size) {
  int missing = 0, first = -1;
  size_t length = 0;
  text[0] = '\0';
  for (int rank = 1; rank < root->meeting->size; rank++) {
    if (!root_misses(root, rank)) continue;
    if (first < 0) first = rank;
    if (++missing > 8 || length >= size) continue;
    char name[RING_HOST_BYTES + 32];
    root_name(root, rank, name, sizeof name);
    length +=
        (size_t)snprintf(text + length, size - length, "%s%s", missing == 1 ? "" : ", ", name);
  }
  if (missing > 8 && length < size)
    snprintf(text + length, size - length, " and %d more", missing - 8);
  return first;
}

static ring_status root_explain(const root_meeting *root, ring_status status, ring_error *error) {
  if (status == RING_ABORTED) return ring_rendezvous_aborted(root->meeting, error);
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, 0);
  if (root_odd(root) > 0)
    return ring_rendezvous_disagree(root->meeting, root_odd(root), root->meeting->encrypted, error);
  if (status == RING_PEER_LOST && root_lost(root) > 0)
    return root_lose(root, root_lost(root),
                     "was lost in open(): it had come, and went away before all ranks had come",
                     error);
  if (status != RING_TIMEOUT)
    return ring_error_set(error, status, 0, 0, "rank 0 could not wait for the other ranks: %s",
                          ring_status_text(status));
  char missing[400];
  int first = root_list_missing(root, missing, sizeof missing);
  const ring_porch *porch = root->goal == ROOT_JOINED ? &root->porch : &root->peers->porch;
  if (porch->lacked != 0)
    return ring_error_set(error, RING_SYSTEM, 0, porch->lacked,
                          "rank 0 could not accept all ranks (missing: %s)", missing);
  if (porch->starved)
    return ring_error_set(error, RING_SYSTEM, 0, 0,
                          "rank 0 could not answer all ranks (missing: %s): OpenSSL gave no random "
                          "numbers",
                          missing);
  if (root->goal == ROOT_INFORMED)
    return ring_error_set(error, RING_TIMEOUT, first, 0,
                          "%d of %d ranks met and learned where the others are within %.1f s; "
                          "missing: %s. Rank %d has stopped, or rank %d, from which it learns it, "
                          "has, or a firewall is between them (open the port range and pass it on "
                          "all ranks)",
                          root->there + 1, root->meeting->size,
                          ring_wait_seconds(root->meeting->wait), missing, first,
                          ring_spread_parent(first));
  return ring_error_set(
      error, RING_TIMEOUT, first, 0,
      "%d of %d ranks met within %.1f s; missing: %s. Usual causes: fewer free slots than "
      "partitions, an empty partition (it never starts an R closure), a firewall (open the port "
      "range and pass it on all ranks), or a token, job or address list that differs",
      root->there + 1, root->meeting->size, ring_wait_seconds(root->meeting->wait), missing);
}

static void root_warn(const root_meeting *root) {
  char missing[400], text[sizeof(((ring_error *)0)->message)];
  const char *what = root->goal == ROOT_JOINED ? "come" : "learned where the others are";
  root_list_missing(root, missing, sizeof missing);
  snprintf(
      text, sizeof text, "rank 0 has waited %.1f s in open(): %d of %d ranks have %s; missing: %s",
      ring_wait_seconds(root->meeting->wait), root->there + 1, root->meeting->size, what, missing);
  ring_wait_tell(root->meeting->wait, text);
}

static void root_send_away(root_meeting *root, const ring_error *error) {
  ring_note note = {
      .status = error->status, .fault = error->rank, .length = strlen(error->message)};
  memcpy(note.body, error->message, note.length);
  for (int rank = 1; rank < root->meeting->size; rank++) root_tell(root, rank, &note);
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

/* All have joined: from here on this is a rank like the others, and serves links. */
static ring_status root_settle(root_meeting *root, ring_error *error) {
  ring_peers *peers = root->peers;
  int listener = root->porch.listener;
  int port = ring_rendezvous_port(root->meeting, listener, error);
  if (port < 0) return RING_SYSTEM;
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch)) return RING_SYSTEM;
  ring_status status = ring_peers_place(peers, 0, root->meeting->root_host, (uint16_t)port);
  for (int rank = 1; status == RING_OK && rank < root->meeting->size; rank++)
    status = root_place(root, rank);
  if (status != RING_OK) return status;
  root->porch.listener = -1;
  ring_porch_close(&root->porch);
  status = ring_peers_listen(peers, listener);
  return status == RING_OK ? ring_spread_begin(&root->spread, peers, error) : status;
}

/* Waits until all ranks have reached a stage. */
static ring_status root_await(root_meeting *root, root_stage goal, ring_error *error) {
  root->goal = goal;
  root->there = 0;
  while (root->there < root->meeting->size - 1) {
    int slice = root_watch(root);
    ring_status status = ring_poller_sleep(&root->poller, slice);
    if (status == RING_OK) status = root_serve(root, error);
    if (status != RING_OK) return status;
    status = root_check(root);
    if (status != RING_OK && root->there < root->meeting->size - 1) return status;
    if (ring_wait_lasts(root->meeting->wait)) root_warn(root);
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
  if (failure.status == RING_OK) status = root_explain(root, status, &failure);
  root_send_away(root, &failure);
  if (error != NULL) *error = failure;
  return status;
}

ring_status ring_rendezvous_root(ring_meeting *meeting, ring_peers *peers, ring_error *error) {
  root_meeting root = {.meeting = meeting, .peers = peers, .porch.listener = -1};
  int listener = root_listen(meeting, error);
  if (listener < 0) return RING_SYSTEM;
  size_t arrivals = (size_t)meeting->size * sizeof *root.arrivals;
  root.arrivals = ring_secret_alloc(arrivals);
  ring_status status = ring_porch_open(&root.porch, listener, 0, meeting->size, &peers->keys);
  root.porch.encrypted = meeting->encrypted;
  root.porch.judge = root_judge;
  root.porch.admit = root_admit;
  root.porch.owner = &root;
  if (root.arrivals == NULL || status != RING_OK) {
    status = ring_error_no_memory(error, 0);
  } else {
    for (int rank = 0; rank < meeting->size; rank++) root.arrivals[rank].fd = -1;
    status = root_run(&root, error);
    for (int rank = 1; rank < meeting->size; rank++) root_depart(&root, rank);
  }
  ring_secret_free(root.arrivals, arrivals);
  ring_spread_free(&root.spread);
  ring_poller_fini(&root.poller);
  ring_poller_fini(&root.mover);
  ring_porch_close(&root.porch);
  return status;
}
