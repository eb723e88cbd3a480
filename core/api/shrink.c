/* SPDX-License-Identifier: Apache-2.0
 *
 * shrink() gathers the living ranks (shrink/README.md) and opens the communicator of the generation that
 * they form, whose listener is that of the failed communicator. Where it does not open, because a rank was lost
 * meanwhile, the ranks gather again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "shrink/consensus.h"
#include "transport/socket.h"

/* Seconds for the first try to open the communicator; each further try has twice as long. A rank may wait in vain for
 * one that has failed and gathers again. */
#define SHRINK_TRY 2.0
#define SHRINK_LONGEST 1e9

typedef struct shrink_run {
  ring_comm *comm;
  ring_wait wait; /* of the whole call */
  double patience;
  int *ranks; /* of the new communicator, in the roster */
} shrink_run;

/* Ends the communicator on all ranks, if it has not failed. After RING_OK this thread is the only one in it. */
static ring_status shrink_begin(ring_comm *comm, ring_error *error) {
  int rank = comm->peers.rank;
  if (comm->process != ring_platform_process())
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "this communicator belongs to the process that forked this one");
  if (comm->state == RING_COMM_OPEN) ring_comm_revoke(comm, "it called shrink()");
  if (!ring_comm_acquire_idle(comm))
    return ring_error_set(error, RING_BUSY, rank, 0, "another thread is in the communicator");
  ring_status status = RING_OK;
  if (comm->state == RING_COMM_OPEN)
    status =
        ring_error_set(error, RING_BUSY, rank, 0, "a hook of the communicator called shrink()");
  else if (comm->state == RING_COMM_CLOSED || !comm->lasting)
    status = ring_error_set(error, RING_INVALID, rank, 0,
                            "this communicator cannot be shrunk: it was closed, aborted or shrunk");
  if (status != RING_OK)
    ring_comm_leave(comm);
  else
    atomic_store(&comm->world->shrunk.set, true);
  return status;
}

/* ---- The new communicator ----------------------------------------------------------------- */

/* Derives the keys of the generation. */
static bool shrink_derive(const shrink_run *run, ring_peers *peers) {
  static const char label[] = "sparkring generation 1";
  const ring_roster *roster = run->comm->roster;
  uint8_t facts[sizeof label + 8];
  memcpy(facts, label, sizeof label);
  bytes_put(facts + sizeof label, roster->generation.epoch, 8);
  peers->epoch = roster->generation.epoch;
  return ring_keys_split(&peers->keys, &roster->peers.keys, run->ranks, facts, sizeof facts);
}

static ring_comm *shrink_alloc(shrink_run *run) {
  ring_comm *comm = run->comm;
  ring_roster *roster = comm->roster;
  const ring_generation *generation = &roster->generation;
  int size = ring_generation_below(generation, roster->peers.size), count = 0;
  ring_comm *child = ring_comm_alloc(ring_generation_below(generation, roster->peers.rank), size,
                                     comm->call_timeout);
  if (child == NULL) return NULL;
  ring_comm_inherit(child, comm);
  child->lasting = true;
  for (int rank = 0; rank < roster->peers.size; rank++)
    if (ring_generation_has(generation, rank)) run->ranks[count++] = rank;
  ring_world *world = ring_world_make(NULL);
  if (world != NULL) ring_comm_settle(child, world);
  bool made = world != NULL && shrink_derive(run, &child->peers);
  for (int i = 0; made && i < size; i++) {
    const ring_peers *from = &roster->peers;
    made = ring_peers_place(&child->peers, i, ring_peers_host(from, run->ranks[i]),
                            from->peer[run->ranks[i]].port) == RING_OK;
  }
  for (int i = 0; made && i < size; i++)
    ring_peers_number(&child->peers, i, roster->peers.peer[run->ranks[i]].world_rank);
  if (made && ring_peers_listen(&child->peers, comm->listener) == RING_OK) {
    comm->listener = -1;
    return child;
  }
  child->peers.acceptor.listener = -1; /* it stays the failed communicator's */
  ring_comm_discard(child);
  return NULL;
}

/* Opens the communicator of the generation. NULL with *error where it fails. */
static ring_comm *shrink_open(shrink_run *run, ring_error *error) {
  ring_comm *comm = run->comm;
  double left = ring_wait_left(&run->wait) / 1e3;
  ring_wait wait;
  ring_comm *child = shrink_alloc(run);
  if (child == NULL) {
    ring_error_no_memory(error, comm->roster->peers.rank);
    return NULL;
  }
  comm_prepare_wait(child, run->patience < left ? run->patience : left, &wait);
  ring_wait_begin(&wait);
  run->patience *= 2;
  if (ring_comm_gather_up(child, &wait, error) == RING_OK) return child;
  if (error->rank >= 0 && error->rank < child->peers.size) error->rank = run->ranks[error->rank];
  comm->listener = child->listener;
  child->listener = -1;
  ring_comm_free(child);
  return NULL;
}

/* ---- The call ----------------------------------------------------------------------------- */

static ring_status shrink_agree(shrink_run *run, ring_error *error) {
  ring_comm *comm = run->comm;
  ring_roster *roster = comm->roster;
  if (ring_peers_listen(&roster->peers, comm->listener) != RING_OK) {
    roster->peers.acceptor.listener = -1;
    return ring_error_no_memory(error, roster->peers.rank);
  }
  ring_status status = ring_consensus_run(roster, &run->wait, error);
  comm->listener = ring_acceptor_release(&roster->peers.acceptor);
  return status;
}

/* Whether another try may succeed: not where this rank itself fails or is interrupted. */
static bool shrink_may_retry(const shrink_run *run, const ring_error *why) {
  bool own = why->rank == run->comm->roster->peers.rank;
  bool lacks = why->status == RING_NO_MEMORY || why->status == RING_SYSTEM;
  return !(own && (lacks || why->status == RING_ABORTED)) && ring_wait_left(&run->wait) > 0;
}

static ring_status shrink_try(shrink_run *run, ring_comm **shrunk, ring_error *error) {
  ring_comm *comm = run->comm;
  do {
    ring_status status = shrink_agree(run, error);
    ring_comm *child = status == RING_OK ? shrink_open(run, error) : NULL;
    ring_peers_close(&comm->roster->peers);
    if (status != RING_OK) return status;
    if (child != NULL) {
      child->roster = comm->roster;
      comm->roster = NULL;
      comm->lasting = false;
      *shrunk = child;
      return RING_OK;
    }
  } while (shrink_may_retry(run, error));
  return error->status;
}

ring_status ring_comm_shrink(ring_comm *comm, double timeout, ring_comm **shrunk,
                             ring_error *error) {
  ring_error unread;
  if (error == NULL) error = &unread;
  *error = (ring_error){.rank = -1};
  if (shrunk != NULL) *shrunk = NULL;
  if (comm == NULL || shrunk == NULL)
    return ring_error_set(error, RING_INVALID, -1, 0, "shrink: comm or shrunk is NULL");
  if (isnan(timeout) || timeout < 0)
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "shrink: timeout is negative or not a number");
  ring_status status = shrink_begin(comm, error);
  if (status != RING_OK) return status;
  if (comm->roster == NULL) comm->roster = ring_roster_make(&comm->peers);
  shrink_run run = {.comm = comm, .patience = SHRINK_TRY};
  if (!(timeout > 0)) timeout = comm->call_timeout;
  ring_wait_init(&run.wait, timeout < SHRINK_LONGEST ? timeout : SHRINK_LONGEST, comm->interrupt,
                 comm->interrupt_arg);
  run.wait.watch_parent = comm->watch_parent;
  if (comm->roster != NULL) run.ranks = calloc((size_t)comm->roster->peers.size, sizeof *run.ranks);
  if (run.ranks == NULL)
    status = ring_error_no_memory(error, comm->peers.rank);
  else
    status = shrink_try(&run, shrunk, error);
  free(run.ranks);
  ring_comm_leave(comm);
  return status;
}
