/* SPDX-License-Identifier: Apache-2.0
 *
 * Splitting: a communicator of some ranks of another one. Every rank that is to have a child listens
 * first; one allgather over the parent then tells everybody each rank's color, key and port, and so
 * who is with whom, in which order, and where. Keys and epoch of a child are derived from the parent's
 * keys and epoch, the number of the call and the color: all its ranks know them without another
 * message, and no other child has the same.
 *
 *   what a rank tells   color i32, key i32, port u16, failed u8
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/request.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engine/detector/failure.h"
#include "engine/detector/split_wait.h"
#include "rendezvous/rendezvous.h"
#include "shm/shm_failure.h"
#include "transport/socket.h"

enum { SPLIT_BYTES = 11 };

/* How often a rank whose child could not be opened looks, 20 ms each time, whether the parent tells why:
 * whom it has lost there may be living, and take 200 ms to tell the child first. */
enum { SPLIT_LOOKS_AT_LOST = 5, SPLIT_LOOKS_AT_LIVING = 15 };

/* Ranks of the child that an error of split names as the parent counts them. */
enum { SPLIT_TRANSLATED = 3 };

typedef struct split_member {
  int key, rank; /* in the parent */
  uint16_t port;
} split_member;

typedef struct split_run {
  ring_comm *parent;
  int color, key;
  int listener, port;
  uint8_t *told;         /* by all ranks */
  split_member *members; /* of this rank's color, in the order of the child's ranks */
  int member_count, own; /* own: this rank's index among them */
  int *ranks;            /* their ranks in the parent */
  ring_split_wait split_wait;
} split_run;

/* The split that a communicator is in. */
static ring_call split_call(const ring_comm *parent) {
  return (ring_call){.collective = RING_COLLECTIVE_SPLIT, .sequence = parent->sequence};
}

/* Before the child opens, a rank that fails must break the parent: the others wait for it there, or in
 * the child, where it has no links yet, and look into the parent when they miss it. */
static ring_status split_no_memory(ring_comm *parent) {
  ring_error error;
  ring_error_set(&error, RING_NO_MEMORY, parent->peers.rank, 0,
                 "rank %d is out of memory: it cannot split the communicator", parent->peers.rank);
  ring_comm_break(parent, &error);
  parent->error = parent->failure;
  return RING_NO_MEMORY;
}

/* ---- Telling ------------------------------------------------------------------------------ */

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
                        "rank %d cannot tell the port that it listens on", rendezvous.rank);
}

/* A rank that cannot listen takes part all the same, so that the others hear of it. */
static ring_status split_tell(split_run *run, bool failed) {
  ring_comm *parent = run->parent;
  int rank = parent->peers.rank, size = parent->peers.size;
  parent->sequence++;
  const ring_call signature = split_call(parent);
  uint8_t *to = run->told + (size_t)rank * SPLIT_BYTES;
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
                                   .output = run->told,
                                   .output_count = (uint64_t)size * SPLIT_BYTES},
                          .input_count = SPLIT_BYTES,
                          .out_at = (uint64_t)rank * SPLIT_BYTES,
                          .in_place = true};
  engine_counter_add(&parent->calls, 1);
  return ring_fusion_run_here(parent, &args);
}

/* ---- Listing ------------------------------------------------------------------------------ */

static int split_compare(const void *one, const void *other) {
  const split_member *a = one, *b = other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->rank < b->rank ? -1 : 1;
}

/* Reads what all ranks told; fails on all of them alike when one could not listen. */
static ring_status split_list(split_run *run) {
  ring_comm *parent = run->parent;
  const uint8_t *from = run->told;
  for (int rank = 0; rank < parent->peers.size; rank++) {
    int color = (int32_t)(uint32_t)bytes_get(&from, 4);
    int key = (int32_t)(uint32_t)bytes_get(&from, 4);
    uint16_t port = (uint16_t)bytes_get(&from, 2);
    if (bytes_get(&from, 1) != 0 && rank != parent->peers.rank)
      return ring_error_set(&parent->error, RING_SYSTEM, rank, 0,
                            "the communicator was not split: rank %d (%s) cannot listen for links",
                            rank, ring_peers_host(&parent->peers, rank));
    if (color == run->color) run->members[run->member_count++] = (split_member){key, rank, port};
  }
  qsort(run->members, (size_t)run->member_count, sizeof *run->members, split_compare);
  while (run->members[run->own].rank != parent->peers.rank) run->own++;
  for (int i = 0; i < run->member_count; i++) run->ranks[i] = run->members[i].rank;
  return RING_OK;
}

/* ---- The child ---------------------------------------------------------------------------- */

/* Its keys and epoch. */
static bool split_derive(const split_run *run, ring_peers *peers) {
  static const char label[] = "sparkring split 1";
  const ring_peers *parent = &run->parent->peers;
  uint8_t facts[sizeof label + 16];
  ring_secret epoch;
  memcpy(facts, label, sizeof label);
  uint8_t *to = bytes_put(facts + sizeof label, parent->epoch, 8);
  to = bytes_put(to, run->parent->sequence, 4);
  bytes_put(to, (uint32_t)run->color, 4);
  peers->authenticated = parent->authenticated;
  peers->encrypted = parent->encrypted;
  if (!ring_keys_split(&peers->keys, &parent->keys, run->ranks, facts, sizeof facts) ||
      !ring_keys_mac(&peers->keys, "epoch", 5, &epoch))
    return false;
  const uint8_t *from = epoch.bytes;
  peers->epoch = bytes_get(&from, 8);
  return true;
}

/* Says where its ranks are, and gives it the listener. */
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

/* The failure of the parent may be that its other ranks waited for those that are in the split, of which
 * this is one, and did not know for which: it knows better whether it was stopped, or has waited itself
 * as long, and for whom. Or that they have seen this one go: it knows what it lacked. */
static bool split_knows_better(const split_run *run, const ring_error *why, const ring_wait *wait,
                               ring_error *failure) {
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

/* Whether a rank is still there in the parent, as far as this one can see: it may have ended with words
 * of before that nobody has read. */
static bool split_sees(const ring_comm *parent, int rank) {
  const ring_link *link = parent->peers.peer[rank].link;
  int index = ring_shm_index(&parent->shm, rank);
  if (index >= 0) return ring_arena_taken(parent->shm.arena, index);
  return link != NULL && !ring_socket_has_ended(link->fd);
}

/* Whether the parent has failed, which the other ranks have heard and this one has not. Of one that was
 * lost in the child, others hear there why, and pass it on a moment later; and who is still there in the
 * parent says there why it has left the child. */
static bool split_hears(const split_run *run, const ring_error *why, ring_error *failure) {
  ring_comm *parent = run->parent;
  const ring_call call = split_call(parent);
  bool lost = why->status == RING_PEER_LOST && why->rank >= 0 && why->rank < run->member_count;
  int rank = lost ? run->ranks[why->rank] : -1;
  int looks = lost ? SPLIT_LOOKS_AT_LOST : 1;
  *failure = run->split_wait.failure;
  if (failure->status != RING_OK) return true;
  for (int i = 0; i < looks; i++) {
    if (ring_native_peer_failed(&parent->native, &call, failure)) return true;
    if (lost) looks = split_sees(parent, rank) ? SPLIT_LOOKS_AT_LIVING : SPLIT_LOOKS_AT_LOST;
  }
  return false;
}

/* Whom all wait for: a rank that was missed in the child may have waited itself, in the parent. */
static const ring_suspect *split_suspect(const split_run *run, const ring_error *why) {
  const ring_wait_report *suspects = &run->split_wait.suspects;
  bool waited = why->status == RING_TIMEOUT && why->rank != run->own;
  return waited && suspects->count > 0 ? &suspects->suspects[0] : NULL;
}

/* Whether a text has "rank 3", with no digit behind it. */
static bool split_names(const char *text, int rank) {
  char name[32];
  size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
  for (const char *at = text; (at = strstr(at, name)) != NULL; at += length)
    if (at[length] < '0' || at[length] > '9') return true;
  return false;
}

/* The ranks that an error of the child names, as the parent counts them: first the one at fault, then
 * others, for a mismatch has two. */
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

/* Why the child could not be opened, which is told in the child's ranks; or that the parent has failed.
 * Who was lost in the child is lost to the parent, too, whose other ranks may be waiting for this one,
 * which may now end. What this rank lacked is told there, too: in the child there may be no link. */
static ring_status split_explain(const split_run *run, const ring_error *why,
                                 const ring_wait *wait) {
  ring_comm *parent = run->parent;
  bool known = why->rank >= 0 && why->rank < run->member_count;
  int rank = known ? run->ranks[why->rank] : -1;
  char who[320] = "", whom[320] = "";
  ring_error error;
  bool failed = split_hears(run, why, &error);
  if (failed && !split_knows_better(run, why, wait, &error)) {
    ring_comm_break(parent, &error);
    parent->error = parent->failure;
    return parent->error.status;
  }
  split_translate(run, why, who, sizeof who);
  const ring_suspect *suspect = split_suspect(run, why);
  bool here = suspect != NULL && (suspect->state & RING_SUSPECT_NEEDED) != 0;
  if (here || (suspect != NULL && suspect->rank != rank)) {
    rank = suspect->rank;
    snprintf(whom, sizeof whom, ": all wait for rank %d (%s)%s", rank,
             ring_peers_host(&parent->peers, rank), here ? ", some still in the parent" : "");
  }
  ring_error_set(&error, why->status, rank, 0,
                 "split() as call %u could not open the new communicator%s%s: %.600s",
                 (unsigned)parent->sequence, whom, who, why->message);
  error.system_errno = why->system_errno;
  bool lacks =
      why->rank == run->own && (why->status == RING_NO_MEMORY || why->status == RING_SYSTEM);
  bool breaks = failed || lacks || here || why->status == RING_PEER_LOST;
  if (breaks) ring_comm_break(parent, &error);
  parent->error = breaks ? parent->failure : error;
  return parent->error.status;
}

static ring_status split_open(split_run *run, ring_comm **out) {
  ring_comm *parent = run->parent;
  ring_comm *child = ring_comm_alloc(run->own, run->member_count, parent->call_timeout);
  if (child == NULL) return split_no_memory(parent);
  ring_wait wait;
  comm_prepare_wait(parent, parent->call_timeout, &wait);
  ring_wait_begin(&wait);
  child->shares = parent->shares;
  child->peers.connections = parent->peers.connections;
  child->peers.inside_connections = parent->peers.inside_connections;
  child->native.plans.selector = parent->native.plans.selector;
  child->port_first = parent->port_first;
  child->port_last = parent->port_last;
  child->interrupt = parent->interrupt;
  child->interrupt_arg = parent->interrupt_arg;
  child->alarm = parent->alarm;
  child->watch_parent = parent->watch_parent;
  ring_error why;
  ring_status status = split_place(run, child);
  if (status == RING_OK) {
    child->native.engine.split_wait = &run->split_wait;
    status = ring_comm_gather_up(child, &wait, &why);
    child->native.engine.split_wait = NULL;
    if (status != RING_OK) status = split_explain(run, &why, &wait);
    ring_split_wait_end(&run->split_wait);
    *out = status == RING_OK ? child : NULL;
    if (status == RING_OK) return RING_OK;
  }
  child->state = RING_COMM_BROKEN;
  ring_comm_free(child);
  return status;
}

/* What it hears in the parent then may show that this one has failed. */
static ring_status split_begin_descent(split_run *run) {
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
  run->told = calloc(size, SPLIT_BYTES);
  run->members = calloc(size, sizeof *run->members);
  run->ranks = calloc(size, sizeof *run->ranks);
  if (run->told == NULL || run->members == NULL || run->ranks == NULL)
    return split_no_memory(run->parent);
  ring_status listened = split_listen(run);
  ring_status status = split_tell(run, listened != RING_OK);
  if (status == RING_OK) status = listened;
  if (status == RING_OK) status = split_begin_descent(run);
  if (status == RING_OK) status = split_list(run);
  if (status != RING_OK || run->color < 0) return status;
  run->split_wait.size = run->member_count;
  return split_open(run, child);
}

ring_status ring_comm_split(ring_comm *comm, int color, int key, ring_comm **child) {
  if (child != NULL) *child = NULL;
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  split_run run = {.parent = comm, .color = color < 0 ? -1 : color, .key = key, .listener = -1};
  if (child == NULL)
    status = ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                            "split: child is NULL: pass where to put it");
  else
    status = split_run_all(&run, child);
  ring_socket_close(&run.listener);
  free(run.told);
  free(run.members);
  free(run.ranks);
  ring_comm_leave(comm);
  return status;
}
