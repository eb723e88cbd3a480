/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains how a call would be carried out: asks the backend, or chooses and builds the schedule as
 * for the call and counts its steps.
 */
#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "base/dtype.h"
#include "base/error.h"

typedef struct explain_widths {
  uint64_t chunk; /* elements of a whole frame */
  uint64_t element, wide;
} explain_widths;

/* ---- What is asked ------------------------------------------------------------------------ */

/* Whether the count of the call is one rank's part of the bytes. In collectives with counts it
 * is the sum. */
static bool explain_has_parts(uint8_t collective) {
  ring_call one = {.collective = collective, .dtype = RING_INT8, .count = 1};
  return ring_selection_bytes(&one, 2) == 2;
}

static ring_status explain_check(ring_comm *comm, const char *name, ring_dtype dtype, int root,
                                 uint8_t *collective) {
  char names[256];
  if (name == NULL || !ring_algorithm_collective(name, strlen(name), collective)) {
    ring_algorithm_list_collectives(names, sizeof names);
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "explain: %.64s is no collective; there are %s",
                          name != NULL ? name : "NULL", names);
  }
  if (ring_dtype_size(dtype) == 0)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "explain: %d is no dtype: pass a ring_dtype", (int)dtype);
  if (root < 0 || root >= comm->peers.size)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "explain: root %d is no rank: ranks go from 0 to %d", root,
                          comm->peers.size - 1);
  return RING_OK;
}

/* The outline of the call. With counts, all parts are equal. */
static ring_outline explain_outline(const ring_comm *comm, uint8_t collective, size_t bytes,
                                    ring_dtype dtype, int root) {
  uint64_t element = ring_dtype_size(dtype), size = (uint64_t)comm->peers.size;
  uint64_t elements = bytes / element + (bytes % element > 0 ? 1 : 0);
  uint64_t part = elements / size + (elements % size > 0 ? 1 : 0);
  bool counted = ring_collective_has_counts(collective);
  ring_call call = {.collective = collective,
                    .dtype = (uint8_t)dtype,
                    .root = ring_collective_has_root(collective) ? root : 0,
                    .count = elements};
  if (collective == RING_COLLECTIVE_BARRIER) call.count = call.dtype = 0;
  if (explain_has_parts(collective)) call.count = part;
  if (counted) call.count = part * size;
  return (ring_outline){.call = call,
                        .rank = comm->peers.rank,
                        .size = comm->peers.size,
                        .nodes = comm->topology.nodes,
                        .parts = {NULL, part},
                        .received = {NULL, part}};
}

/* ---- Counting ----------------------------------------------------------------------------- */

/* Counts frames and bytes of a lane that sends or receives, cut as the engine cuts them. */
static void explain_count_lane(const ring_schedule *schedule, const ring_lane *lane,
                               const explain_widths *widths, uint64_t *messages, uint64_t *bytes) {
  for (size_t i = 0; i < lane->count; i++) {
    const ring_step *step = &schedule->steps[lane->first + i];
    bool wide = step->op == RING_STEP_SEND ? step->source == RING_SPACE_SCRATCH
                                           : (step->flags & RING_STEP_WIDE) != 0;
    uint64_t frames = (step->count + widths->chunk - 1) / widths->chunk;
    if (frames == 0) frames = 1;
    *messages += frames;
    *bytes += frames * RING_HEADER_BYTES + step->count * (wide ? widths->wide : widths->element);
  }
}

static bool explain_is_new_peer(const ring_schedule *schedule, size_t lane) {
  for (size_t i = 0; i < lane; i++)
    if (schedule->lanes[i].peer == schedule->lanes[lane].peer) return false;
  return true;
}

static void explain_count(const ring_schedule *schedule, const explain_widths *widths,
                          ring_explanation *explanation) {
  for (size_t i = 0; i < schedule->lane_count; i++) {
    const ring_lane *lane = &schedule->lanes[i];
    if (lane->kind == RING_LANE_SEND)
      explain_count_lane(schedule, lane, widths, &explanation->messages_sent,
                         &explanation->bytes_sent);
    if (lane->kind == RING_LANE_RECV)
      explain_count_lane(schedule, lane, widths, &explanation->messages_received,
                         &explanation->bytes_received);
    if (lane->kind != RING_LANE_LOCAL && explain_is_new_peer(schedule, i)) explanation->links++;
    for (size_t j = 0; j < lane->count; j++)
      if (lane->kind != RING_LANE_LOCAL || schedule->steps[lane->first + j].count > 0)
        explanation->steps++; /* local steps without elements only keep an order */
  }
}

/* ---- Words -------------------------------------------------------------------------------- */

/* "812.3 us" */
static void explain_time(double seconds, char *text, size_t capacity) {
  if (seconds < 1e-3)
    snprintf(text, capacity, "%.1f us", 1e6 * seconds);
  else if (seconds < 1)
    snprintf(text, capacity, "%.1f ms", 1e3 * seconds);
  else
    snprintf(text, capacity, "%.2f s", seconds);
}

static void explain_write(ring_explanation *e, const ring_outline *outline, int hosts, bool unfit) {
  char time[32], next_time[32], next[80] = "", what[96], where[32] = "";
  explain_time(e->seconds, time, sizeof time);
  explain_time(e->runner_up_seconds, next_time, sizeof next_time);
  if (hosts > 1) snprintf(where, sizeof where, " of %d hosts", hosts);
  if (e->runner_up[0] != '\0')
    snprintf(next, sizeof next, "; next would be %s, about %s", e->runner_up, next_time);
  snprintf(what, sizeof what, " of %llu bytes (count %llu, %s)", (unsigned long long)e->bytes,
           (unsigned long long)e->count, e->dtype);
  if (outline->call.collective == RING_COLLECTIVE_BARRIER) what[0] = '\0';
  snprintf(e->text, sizeof e->text,
           "%s%s on %d ranks%s over %s: %s (%s%s), about %s%s\n"
           "rank %d: %llu steps, %llu links; sends %llu messages, %llu bytes; receives %llu "
           "messages, %llu bytes; backend %s",
           e->collective, what, outline->size, where, e->tier, e->algorithm, e->reason,
           unfit ? "; the rule cannot serve it" : "", time, next, outline->rank,
           (unsigned long long)e->steps, (unsigned long long)e->links,
           (unsigned long long)e->messages_sent, (unsigned long long)e->bytes_sent,
           (unsigned long long)e->messages_received, (unsigned long long)e->bytes_received,
           e->backend);
}

/* A call that the backend carries out in a way of its own, without a schedule over links. */
static void explain_way(const ring_outline *outline, const ring_selection *selection,
                        const ring_backend_way *way, ring_explanation *e) {
  char time[48] = "", next_time[32], what[96];
  const ring_call *call = &outline->call;
  e->algorithm = way->algorithm;
  e->reason = way->reason;
  e->seconds = 1e-12 * (double)way->cost;
  e->runner_up = ring_algorithm_name(selection->algorithm);
  e->runner_up_seconds = 1e-12 * (double)selection->cost;
  if (way->cost > 0) explain_time(e->seconds, stpcpy(time, ", about "), sizeof time - 8);
  explain_time(e->runner_up_seconds, next_time, sizeof next_time);
  snprintf(what, sizeof what, " of %llu bytes (count %llu, %s)", (unsigned long long)e->bytes,
           (unsigned long long)e->count, e->dtype);
  if (call->collective == RING_COLLECTIVE_BARRIER) what[0] = '\0';
  snprintf(e->text, sizeof e->text,
           "%s%s on %d ranks over %s: %s (%s)%s; next would be %s over links, about %s\n"
           "rank %d: %s; backend %s",
           e->collective, what, outline->size, e->tier, e->algorithm, e->reason, time, e->runner_up,
           next_time, outline->rank, way->traffic, e->backend);
}

/* ---- All of it ---------------------------------------------------------------------------- */

static ring_status explain_outlined(ring_comm *comm, const ring_outline *outline,
                                    ring_explanation *explanation) {
  const ring_call *call = &outline->call;
  ring_dtype dtype = (ring_dtype)call->dtype;
  const ring_selector *selector = &comm->native.plans.selector;
  ring_selection selection = ring_select(selector, call, outline->size);
  ring_algorithm next;
  uint64_t next_cost;
  bool contested = ring_select_next(selector, call, outline->size, &selection, &next, &next_cost);
  bool reduces = ring_collective_reduces(call->collective);
  explain_widths widths = {.chunk = RING_CHUNK_BYTES / ring_dtype_size(dtype),
                           .element = ring_dtype_size(dtype),
                           .wide = reduces ? ring_dtype_wide_size(dtype) : ring_dtype_size(dtype)};
  const ring_backend *backend = comm->backend;
  if (!ring_backend_serves(backend, outline)) backend = &comm->native.base;
  ring_backend_way way;
  ring_schedule schedule = {0};
  if (ring_plan_build(&schedule, outline, selection.algorithm) != RING_OK) {
    ring_schedule_free(&schedule);
    return ring_error_set(&comm->error, RING_NO_MEMORY, comm->peers.rank, 0,
                          "rank %d is out of memory: it cannot plan the call", comm->peers.rank);
  }
  *explanation = (ring_explanation){.collective = ring_collective_name(call->collective),
                                    .dtype = ring_dtype_name(dtype),
                                    .algorithm = ring_algorithm_name(selection.algorithm),
                                    .reason = selection.ruled ? "rule"
                                              : contested     ? "least cost"
                                                              : "only one",
                                    .tier = ring_tier_name(selector->tier),
                                    .backend = backend->table->name,
                                    .bytes = ring_selection_bytes(call, outline->size),
                                    .count = call->count,
                                    .seconds = 1e-12 * (double)selection.cost,
                                    .runner_up = contested ? ring_algorithm_name(next) : "",
                                    .runner_up_seconds = contested ? 1e-12 * (double)next_cost : 0};
  if (backend->table->explain(backend, outline, &way)) {
    explain_way(outline, &selection, &way, explanation);
  } else {
    explain_count(&schedule, &widths, explanation);
    explain_write(explanation, outline, comm->topology.hosts, selection.unfit && !selection.ruled);
  }
  ring_schedule_free(&schedule);
  return RING_OK;
}

ring_status ring_comm_explain(ring_comm *comm, const char *collective, size_t bytes,
                              ring_dtype dtype, int root, ring_explanation *explanation) {
  uint8_t code = 0;
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  if (explanation == NULL)
    status = ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                            "explain: explanation is NULL");
  if (status == RING_OK) status = explain_check(comm, collective, dtype, root, &code);
  if (status == RING_OK) {
    ring_outline outline = explain_outline(comm, code, bytes, dtype, root);
    status = explain_outlined(comm, &outline, explanation);
  }
  ring_comm_leave(comm);
  return status;
}
