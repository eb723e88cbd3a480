/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>

/* Resident memory depends on where the allocator finds room, too; the heap on little but what
 * libraries keep when they are first used: OpenSSL 60 KiB, with the first link that is encrypted, to
 * which a worker may come late in a short run. */
enum {
  REPORT_RESIDENT_SLACK = 2 << 20,
  REPORT_HEAP_SLACK = 16 << 10,
  REPORT_SHORT_HEAP_SLACK = 96 << 10
};

#define REPORT_SHORT_SECONDS 60.0

#define REPORT_EARLY_SECONDS 120.0
#define REPORT_MINUTE UINT64_C(60000000000)

void report_begin(report *of, const board *board, double seconds) {
  *of = (report){.board = board, .seconds = seconds, .begun = board_now(), .said = board_now()};
  for (int i = 0; i < PLAN_ELDERS; i++)
    of->resident[i].late_least = of->heap[i].late_least = UINT64_MAX;
}

double report_elapsed(const report *of) {
  return (double)(board_now() - of->begun) * 1e-9;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void report_sample(const report *of, report_memory *memory, uint64_t bytes) {
  double elapsed = report_elapsed(of);
  double early = of->seconds / 2 < REPORT_EARLY_SECONDS ? of->seconds / 2 : REPORT_EARLY_SECONDS;
  if (elapsed <= early && bytes > memory->early_most) memory->early_most = bytes;
  if (elapsed >= of->seconds * 0.75 && bytes < memory->late_least) memory->late_least = bytes;
}

static bool report_is_flat(const report_memory *memory, uint64_t slack, int elder,
                           const char *name) {
  bool sampled = memory->early_most > 0 && memory->late_least != UINT64_MAX;
  if (!sampled || memory->late_least <= memory->early_most + slack) return true;
  printf("soak: the %s of worker %d has grown from %llu to %llu bytes\n", name, elder,
         (unsigned long long)memory->early_most, (unsigned long long)memory->late_least);
  return false;
}

/* ---- Words -------------------------------------------------------------------------------- */

static void report_say(const report *of) {
  uint64_t calls = 0, bytes = 0, failures = 0, timeouts = 0, worst = 0, resident = 0, heap = 0,
           faults = 0;
  int descriptors = 0;
  for (int i = 0; i < PLAN_RANKS; i++) {
    const board_worker *worker = &of->board->workers[i];
    calls += worker->calls;
    bytes += worker->bytes;
    failures += worker->failures;
    timeouts += worker->timeouts;
    if (worker->worst_ns > worst) worst = worker->worst_ns;
    if (i < PLAN_ELDERS) resident += worker->resident;
    if (i < PLAN_ELDERS) heap += worker->heap;
    if (i < PLAN_ELDERS) descriptors += worker->descriptors;
  }
  for (int i = 1; i < PLAN_FAULTS; i++) faults += of->faults[i];
  printf("%6.0f s: %llu worlds, %llu faults, %llu calls, %.1f GB, %llu errors that had to be (%llu "
         "by timeout), the "
         "slowest other after %.3f s; %d workers hold %.1f MB resident, %.1f kB of heap, %d "
         "descriptors\n",
         report_elapsed(of), (unsigned long long)of->worlds, (unsigned long long)faults,
         (unsigned long long)calls, (double)bytes * 1e-9, (unsigned long long)failures,
         (unsigned long long)timeouts, (double)worst * 1e-9, PLAN_ELDERS, (double)resident * 1e-6,
         (double)heap * 1e-3, descriptors);
  fflush(stdout);
}

void report_add(report *of, const plan_world *world) {
  of->worlds++;
  of->repeated += world->twice;
  of->faults[world->fault.kind]++;
  tally_add(&of->tally, world, of->board);
  for (int i = 0; i < PLAN_ELDERS; i++) {
    report_sample(of, &of->resident[i], of->board->workers[i].resident);
    report_sample(of, &of->heap[i], of->board->workers[i].heap);
  }
  if (board_now() < of->said + REPORT_MINUTE) return;
  of->said += REPORT_MINUTE;
  report_say(of);
}

bool report_end(report *of) {
  bool flat = true;
  uint64_t heap_slack =
      of->seconds < REPORT_SHORT_SECONDS ? REPORT_SHORT_HEAP_SLACK : REPORT_HEAP_SLACK;
  report_say(of);
  tally_print(&of->tally);
  for (int i = 1; i < PLAN_FAULTS; i++)
    printf("         %6llu x %s\n", (unsigned long long)of->faults[i],
           plan_fault_name((plan_fault_kind)i));
  printf("         %6llu worlds were played twice, with the same bits\n",
         (unsigned long long)of->repeated);
  for (int i = 0; i < PLAN_ELDERS; i++) {
    if (!report_is_flat(&of->resident[i], REPORT_RESIDENT_SLACK, i, "resident memory"))
      flat = false;
    if (!report_is_flat(&of->heap[i], heap_slack, i, "heap")) flat = false;
  }
  return flat;
}
