/* SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *tally_doing(const state *state) {
  static const char *const names[] = {
#define TALLY_DOING_NAME(name, text) text,
      STATE_DOING_MAP(TALLY_DOING_NAME)
#undef TALLY_DOING_NAME
  };
  return names[atomic_load(&state->doing)];
}

static tally_row *tally_find(tally *of, const char *name) {
  for (int i = 0; i < of->count; i++)
    if (strcmp(of->rows[i].name, name) == 0) return &of->rows[i];
  if (of->count == TALLY_ROWS) return &of->rows[TALLY_ROWS - 1];
  tally_row *row = &of->rows[of->count++];
  snprintf(row->name, sizeof row->name, "%s", name);
  return row;
}

static void tally_add_outcome(tally_row *row, const state_outcome *outcome) {
  bool lost = outcome->status == RING_PEER_LOST, waited = outcome->status == RING_TIMEOUT;
  row->nothing += outcome->status == RING_OK;
  row->lost += lost;
  row->timeouts += waited;
  row->others += outcome->status != RING_OK && !lost && !waited;
  row->named += outcome->named;
  if (!waited && outcome->ns > row->lost_ns) row->lost_ns = outcome->ns;
  if (waited && outcome->ns > row->timeout_ns) row->timeout_ns = outcome->ns;
}

static void tally_add_victim(tally_row *row, const state_outcome *outcome) {
  row->stopped++;
  row->aborted += outcome->status == RING_ABORTED;
  row->unhurt += outcome->status == RING_OK;
  row->differently += outcome->status != RING_ABORTED && outcome->status != RING_OK;
}

/* On the child only the ranks that have failed there have an error. */
static void tally_add_to(tally *of, const char *name, const plan_world *world, const state *state) {
  tally_row *row = tally_find(of, name);
  bool stops = plan_fault_family(world->fault.kind) == PLAN_FAMILY_STOPPED;
  row->worlds++;
  for (int rank = 0; rank < world->size; rank++)
    for (int child = 0; child < 2; child++) {
      const state_outcome *outcome = &state->outcomes[rank][child];
      if (child > 0 && outcome->status == RING_OK) continue;
      if (rank != world->fault.rank)
        tally_add_outcome(row, outcome);
      else if (stops)
        tally_add_victim(row, outcome);
    }
}

void tally_add(tally *of, const plan_world *world, const state *state) {
  plan_family family = plan_fault_family(world->fault.kind);
  const char *fault = plan_family_name(family);
  const char *collective = plan_kind_name((plan_kind)atomic_load(&state->calling));
  char name[64];
  if (family == PLAN_FAMILY_NONE) return;
  snprintf(name, sizeof name, "%s, %s, %s", fault, tally_doing(state), plan_link_name(world));
  tally_add_to(of, name, world, state);
  if (atomic_load(&state->doing) != STATE_CALLING) return;
  snprintf(name, sizeof name, "%s in %s", fault, collective);
  tally_add_to(of, name, world, state);
}

static int tally_compare(const void *one, const void *other) {
  return strcmp(((const tally_row *)one)->name, ((const tally_row *)other)->name);
}

static void tally_print_row(const tally_row *row) {
  printf("%-48s %6llu %6llu %7llu %6llu %7llu %6llu %8.3f %8.3f", row->name,
         (unsigned long long)row->worlds, (unsigned long long)row->lost,
         (unsigned long long)row->timeouts, (unsigned long long)row->others,
         (unsigned long long)row->nothing, (unsigned long long)row->named,
         (double)row->lost_ns * 1e-9, (double)row->timeout_ns * 1e-9);
  if (row->stopped > 0)
    printf("   it resumed to: ABORTED %llu, another error %llu, nothing %llu",
           (unsigned long long)row->aborted, (unsigned long long)row->differently,
           (unsigned long long)row->unhurt);
  printf("\n");
}

void tally_print(const tally *of) {
  static tally sorted;
  sorted = *of;
  qsort(sorted.rows, (size_t)sorted.count, sizeof *sorted.rows, tally_compare);
  printf("%-48s        errors of the others            slowest, s\n%-48s %6s %6s %7s %6s %7s "
         "%6s %8s %8s\n",
         "", "the victim was", "worlds", "lost", "timeout", "else", "nothing", "named", "at once",
         "timeout");
  for (int i = 0; i < sorted.count; i++) tally_print_row(&sorted.rows[i]);
}
