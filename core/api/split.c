/* SPDX-License-Identifier: Apache-2.0
 *
 * split() makes a communicator of some ranks of another one. Every rank that gets a child listens
 * first. One allgather over the parent then gives all ranks the color, key and port of each rank:
 * the members of each child, their order and their places. Keys and epoch of a child are derived
 * from the keys and the epoch of the parent, the number of the call and the color. So all its ranks
 * know them without another message, and no other child has the same.
 *
 *   entry of a rank   color i32, key i32, port u16, failed u8
 */
#include "api/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/request.h"
#include "base/bytes.h"
#include "base/counter.h"
#include "base/error.h"
#include "engine/detector/failure.h"
#include "engine/detector/split_wait.h"
#include "rendezvous/rendezvous.h"
#include "shm/shm_failure.h"
#include "transport/socket.h"

enum { SPLIT_BYTES = 11 };

/* How often a rank whose child failed to open checks the parent for the cause, every 20 ms. A
 * lost rank that is still alive in the parent may take 200 ms, because it reports to the child
 * first. */
enum { SPLIT_CHECKS_AT_LOST = 5, SPLIT_CHECKS_AT_LIVING = 15 };

/* The most ranks that an error of split() translates to numbers of the parent. */
enum { SPLIT_TRANSLATED = 3 };

typedef struct split_member {
  int key, rank; /* in the parent */
  uint16_t port;
} split_member;

typedef struct split_run {
  ring_comm *parent;
  int color, key;
  bool wants_mpi, lasting; /* the child */
  int listener, port;
  uint8_t *entries;      /* of all ranks */
  split_member *members; /* of this rank's color, in the order of the child's ranks */
  int member_count, own; /* own: this rank's index among them */
  int *ranks;            /* their ranks in the parent */
  ring_split_wait split_wait;
} split_run;

/* The signature of the split that the communicator is in. */
static ring_call split_call(const ring_comm *parent) {
  return (ring_call){.collective = RING_COLLECTIVE_SPLIT, .sequence = parent->sequence};
}

/* A rank that fails before the child opens must break the parent: the other ranks wait in the
 * parent, or in the child, where this rank has no links yet, and then check the parent. */
static ring_status split_no_memory(ring_comm *parent) {
  ring_error error;
  ring_error_set(&error, RING_NO_MEMORY, parent->peers.rank, 0,
                 "rank %d is out of memory: it cannot split the communicator", parent->peers.rank);
  ring_comm_break(parent, &error);
  parent->error = parent->failure;
  return RING_NO_MEMORY;
}

/* ---- Exchanging --------------------------------------------------------------------------- */

static ring_status split_listen(split_run *run) {
  ring_comm *parent = run->parent;
  ring_rendezvous rendezvous = {.rank = parent->peers.rank,
                                .size = parent->peers.size,
                                .root_host = ring_peers_host(&parent->peers, parent->peers.rank),
                                .port_first = parent->port_first,
                                .port_last = parent->port_last};
  if (run->color < 0 || parent->peers.size == 1) return RING_OK;
  run->listener = ring_rendezvous_listen(&rendezvous, &parent->error);
  if (run->listener < 0) return parent->error.status;
  run->port = ring_socket_port(run->listener);
  if (run->port > 0) return RING_OK;
  return ring_error_set(&parent->error, RING_SYSTEM, rendezvous.rank, -run->port,
                        "rank %d cannot find out on which port it listens", rendezvous.rank);
}

/* A rank that cannot listen takes part all the same, so that the other ranks learn of it. */
static ring_status split_exchange(split_run *run, bool failed) {
  ring_comm *parent = run->parent;
  int rank = parent->peers.rank, size = parent->peers.size;
  parent->sequence++;
  const ring_call signature = split_call(parent);
  uint8_t *to = run->entries + (size_t)rank * SPLIT_BYTES;
  uint8_t *mine = to;
  to = bytes_put(to, (uint32_t)run->color, 4);
  to = bytes_put(to, (uint32_t)run->key, 4);
  to = bytes_put(to, (uint64_t)run->port, 2);
  bytes_put(to, failed, 1);
  collective_args args = {.work = {.outline = {.call = {.collective = RING_COLLECTIVE_ALLGATHER,
                                                        .dtype = RING_UINT8,
                                                        .count = SPLIT_BYTES},
                                               .parts = {NULL, SPLIT_BYTES}},
                                   .signature = &signature,
                                   .input = mine,
                                   .output = run->entries,
                                   .output_count = (uint64_t)size * SPLIT_BYTES},
                          .input_count = SPLIT_BYTES,
                          .out_at = (uint64_t)rank * SPLIT_BYTES,
                          .in_place = true};
  ring_counter_add(&parent->calls, 1);
  return ring_fusion_run_here(parent, &args);
}

/* ---- Listing ------------------------------------------------------------------------------ */

static int split_compare(const void *one, const void *other) {
  const split_member *a = one, *b = other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->rank < b->rank ? -1 : 1;
}

/* Lists the members from the entries of all ranks. Fails on all ranks alike when one could not
 * listen. */
static ring_status split_list(split_run *run) {
  ring_comm *parent = run->parent;
  const uint8_t *from = run->entries;
  for (int rank = 0; rank < parent->peers.size; rank++) {
    int color = (int32_t)(uint32_t)bytes_get(&from, 4);
    int key = (int32_t)(uint32_t)bytes_get(&from, 4);
    uint16_t port = (uint16_t)bytes_get(&from, 2);
    if (bytes_get(&from, 1) != 0 && rank != parent->peers.rank)
      return ring_error_set(&parent->error, RING_SYSTEM, rank, 0,
                            "the communicator was not split: rank %d (%s) cannot listen for links",
                            rank, ring_peers_host(&parent->peers, rank));
    if (rank == parent->peers.rank || color == run->color)
      run->members[run->member_count++] = (split_member){key, rank, port};
  }
  qsort(run->members, (size_t)run->member_count, sizeof *run->members, split_compare);
  while (run->members[run->own].rank != parent->peers.rank) run->own++;
  for (int i = 0; i < run->member_count; i++) run->ranks[i] = run->members[i].rank;
  return RING_OK;
}

/* ---- The child ---------------------------------------------------------------------------- */

/* Derives the keys and the epoch of the child. */
static bool split_derive(const split_run *run, ring_peers *peers) {
  static const char label[] = "sparkring split 1";
  const ring_peers *parent = &run->parent->peers;
  uint8_t facts[sizeof label + 16];
  ring_secret epoch;
  memcpy(facts, label, sizeof label);
  uint8_t *to = bytes_put(facts + sizeof label, parent->epoch, 8);
  to = bytes_put(to, run->parent->sequence, 4);
  bytes_put(to, (uint32_t)run->color, 4);
  if (!ring_keys_split(&peers->keys, &parent->keys, run->ranks, facts, sizeof facts) ||
      !ring_keys_mac(&peers->keys, "epoch", 5, &epoch))
    return false;
  const uint8_t *from = epoch.bytes;
  peers->epoch = bytes_get(&from, 8);
  return true;
}

/* Sets the places of the ranks of the child, and passes the listener to it. */
static ring_status split_place(split_run *run, ring_comm *child) {
  ring_comm *parent = run->parent;
  ring_status status = RING_OK;
  if (!split_derive(run, &child->peers)) return split_no_memory(parent);
  for (int i = 0; status == RING_OK && i < run->member_count; i++) {
    const split_member *member = &run->members[i];
    status = ring_peers_place(&child->peers, i, ring_peers_host(&parent->peers, member->rank),
                              member->port);
  }
  if (status == RING_OK && run->member_count > 1) {
    status = ring_peers_listen(&child->peers, run->listener);
    run->listener = -1;
  }
  return status == RING_OK ? RING_OK : split_no_memory(parent);
}

/* Whether the error of the child is nearer to the cause than the failure of the parent. The
 * other ranks of the parent may have timed out on some rank in the split. This rank is one of them, and
 * knows whether it was suspended, or for which rank it has waited as long itself. Or the other ranks
 * lost this rank, which knows what it lacked. */
static bool split_error_is_nearer(const split_run *run, const ring_error *why,
                                  const ring_wait *wait, ring_error *failure) {
  int own = run->parent->peers.rank;
  if (failure->status == RING_PEER_LOST && failure->rank == own) return why->rank == run->own;
  bool blamed = failure->status == RING_ABORTED && failure->rank == own;
  for (int i = 0; i < run->member_count && failure->status == RING_TIMEOUT; i++)
    blamed = blamed || failure->rank == run->members[i].rank;
  if (!blamed) return false;
  if (!ring_wait_was_away(wait)) return why->status == RING_TIMEOUT && why->rank != run->own;
  if (failure->status == RING_TIMEOUT) ring_error_missed(failure, own, failure->message);
  return false;
}

/* Whether a rank is still in the parent, as far as this rank can see. A link that has ended may
 * still hold frames that no rank has read. */
static bool split_is_present(const ring_comm *parent, int rank) {
  const ring_link *link = parent->peers.peer[rank].link;
  int index = ring_shm_index(&parent->shm, rank);
  if (index >= 0) return ring_arena_taken(parent->shm.arena, index);
  return link != NULL && !ring_socket_has_ended(link->fd);
}

/* Whether the parent has failed on other ranks. When a rank was lost in the child, other ranks
 * learn the cause in the child and report it in the parent a moment later. A rank that is still
 * in the parent reports there why it left the child. */
static bool split_parent_failed(const split_run *run, const ring_error *why, ring_error *failure) {
  ring_comm *parent = run->parent;
  const ring_call call = split_call(parent);
  bool lost = why->status == RING_PEER_LOST && why->rank >= 0 && why->rank < run->member_count;
  int rank = lost ? run->ranks[why->rank] : -1;
  int checks = lost ? SPLIT_CHECKS_AT_LOST : 1;
  *failure = run->split_wait.failure;
  if (failure->status != RING_OK) return true;
  for (int i = 0; i < checks; i++) {
    if (ring_native_peer_failed(&parent->native, &call, failure)) return true;
    if (lost)
      checks = split_is_present(parent, rank) ? SPLIT_CHECKS_AT_LIVING : SPLIT_CHECKS_AT_LOST;
  }
  return false;
}

/* The rank that all wait for. A rank that was missed in the child may itself have waited in the
 * parent. */
static const ring_suspect *split_suspect(const split_run *run, const ring_error *why) {
  const ring_wait_report *suspects = &run->split_wait.suspects;
  bool waited = why->status == RING_TIMEOUT && why->rank != run->own;
  return waited && suspects->count > 0 ? &suspects->suspects[0] : NULL;
}

/* Whether a text contains "rank 3" without a further digit. */
static bool split_names(const char *text, int rank) {
  char name[32];
  size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
  for (const char *at = text; (at = strstr(at, name)) != NULL; at += length)
    if (at[length] < '0' || at[length] > '9') return true;
  return false;
}

/* Appends the numbers in the parent of the ranks that an error of the child names: first of the
 * rank at fault, then of others, because a mismatch names two. */
static void split_translate(const split_run *run, const ring_error *why, char *text, size_t size) {
  size_t at = 0;
  int named = 0, count = run->member_count, first = why->rank;
  bool known = first >= 0 && first < count;
  for (int i = known ? -1 : 0; i < count && named < SPLIT_TRANSLATED && at < size; i++) {
    int index = i < 0 ? first : i;
    if (i >= 0 && (i == first || !split_names(why->message, i))) continue;
    at += (size_t)snprintf(text + at, size - at, " (rank %d of it is rank %d, %s, here)", index,
                           run->ranks[index],
                           ring_peers_host(&run->parent->peers, run->ranks[index]));
    named++;
  }
}

/* Sets the error of split(): the failure of the parent, or why the child did not open, with its
 * ranks. A rank that was lost in the child is lost to the parent, too. The failure is sent in the
 * parent, because other ranks of the parent may wait for this rank. A lack of memory on this rank is
 * also sent there: the child may have no link. */
static ring_status split_explain(const split_run *run, const ring_error *why,
                                 const ring_wait *wait) {
  ring_comm *parent = run->parent;
  bool known = why->rank >= 0 && why->rank < run->member_count;
  int rank = known ? run->ranks[why->rank] : -1;
  char ranks[320] = "", culprit[320] = "";
  ring_error error;
  bool failed = split_parent_failed(run, why, &error);
  if (failed && !split_error_is_nearer(run, why, wait, &error)) {
    ring_comm_break(parent, &error);
    parent->error = parent->failure;
    return parent->error.status;
  }
  split_translate(run, why, ranks, sizeof ranks);
  const ring_suspect *suspect = split_suspect(run, why);
  bool here = suspect != NULL && (suspect->state & RING_SUSPECT_NEEDED) != 0;
  if (here || (suspect != NULL && suspect->rank != rank)) {
    rank = suspect->rank;
    snprintf(culprit, sizeof culprit, ": all wait for rank %d (%s)%s", rank,
             ring_peers_host(&parent->peers, rank), here ? ", some still in the parent" : "");
  }
  ring_error_set(&error, why->status, rank, 0,
                 "split() as call %u could not open the new communicator%s%s: %.600s",
                 (unsigned)parent->sequence, culprit, ranks, why->message);
  error.system_errno = why->system_errno;
  bool lacks =
      why->rank == run->own && (why->status == RING_NO_MEMORY || why->status == RING_SYSTEM);
  bool breaks = failed || lacks || here || why->status == RING_PEER_LOST;
  if (breaks) ring_comm_break(parent, &error);
  parent->error = breaks ? parent->failure : error;
  return parent->error.status;
}

/* The child has opened: it has a place in the world, and its ranks keep their numbers there. */
static void split_settle(const split_run *run, ring_comm *child, ring_world *world) {
  const ring_comm *parent = run->parent;
  for (int i = 0; i < run->member_count; i++)
    ring_peers_number(&child->peers, i, parent->peers.peer[run->ranks[i]].world_rank);
  ring_comm_settle(child, world);
  child->lasting = run->lasting;
}

static ring_status split_open(split_run *run, ring_comm **out) {
  ring_comm *parent = run->parent;
  ring_comm *child = ring_comm_alloc(run->own, run->member_count, parent->call_timeout);
  ring_world *world = child != NULL ? ring_world_make(parent->world) : NULL;
  if (world == NULL) {
    ring_comm_discard(child);
    return split_no_memory(parent);
  }
  ring_wait wait;
  comm_prepare_wait(parent, parent->call_timeout, &wait);
  ring_wait_begin(&wait);
  ring_comm_inherit(child, parent);
  child->wants_mpi = run->wants_mpi;
  ring_error why;
  ring_status status = split_place(run, child);
  if (status == RING_OK) {
    child->native.engine.split_wait = &run->split_wait;
    status = ring_comm_gather_up(child, &wait, &why);
    child->native.engine.split_wait = NULL;
    if (status != RING_OK) status = split_explain(run, &why, &wait);
    ring_split_wait_end(&run->split_wait);
    if (status == RING_OK) split_settle(run, child, world);
    *out = status == RING_OK ? child : NULL;
    if (status == RING_OK) return RING_OK;
  }
  ring_world_drop(world);
  ring_comm_discard(child);
  return status;
}

/* Reports that arrive in the parent from now on may show that the parent has failed. */
static ring_status split_begin_wait(split_run *run) {
  ring_comm *parent = run->parent;
  run->split_wait = (ring_split_wait){
      .engine = &parent->native.engine, .call = split_call(parent), .ranks = run->ranks};
  ring_status status = ring_split_wait_begin(&run->split_wait);
  if (status == RING_OK) return RING_OK;
  ring_comm_break(parent, &run->split_wait.failure);
  parent->error = parent->failure;
  return status;
}

static ring_status split_run_all(split_run *run, ring_comm **child) {
  size_t size = (size_t)run->parent->peers.size;
  run->entries = calloc(size, SPLIT_BYTES);
  run->members = calloc(size, sizeof *run->members);
  run->ranks = calloc(size, sizeof *run->ranks);
  if (run->entries == NULL || run->members == NULL || run->ranks == NULL)
    return split_no_memory(run->parent);
  ring_status listened = split_listen(run);
  ring_status status = split_exchange(run, listened != RING_OK);
  if (status == RING_OK) status = listened;
  if (status == RING_OK) status = split_begin_wait(run);
  if (status == RING_OK) status = split_list(run);
  if (status != RING_OK || run->color < 0) return status;
  run->split_wait.size = run->member_count;
  return split_open(run, child);
}

/* users: the child is the user's, not one for messages or a device. */
static ring_status split_run_in(ring_comm *comm, int color, int key, bool users,
                                ring_comm **child) {
  if (child != NULL) *child = NULL;
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  split_run run = {.parent = comm,
                   .color = color < 0 ? -1 : color,
                   .key = key,
                   .wants_mpi = users && comm->wants_mpi,
                   .lasting = users,
                   .listener = -1};
  if (child == NULL)
    status = ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                            "split: child is NULL: pass where to put it");
  else
    status = split_run_all(&run, child);
  ring_socket_close(&run.listener);
  free(run.entries);
  free(run.members);
  free(run.ranks);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_comm_split(ring_comm *comm, int color, int key, ring_comm **child) {
  return split_run_in(comm, color, key, true, child);
}

ring_status ring_comm_split_native(ring_comm *comm, ring_comm **child) {
  return split_run_in(comm, 0, 0, false, child);
}
