/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load.h"

/* Resident memory depends on where the allocator finds room, too; the heap on little but what
 * libraries keep when they are first used: OpenSSL 60 KiB, with the first link that is encrypted, to
 * which a worker may come late in a short run. */
enum {
  REPORT_RESIDENT_SLACK = 2 << 20,
  REPORT_HEAP_SLACK = 16 << 10,
  REPORT_SHORT_HEAP_SLACK = 96 << 10
};

#define REPORT_EARLY_SECONDS 120.0
#define REPORT_SHORT_SECONDS (2 * REPORT_EARLY_SECONDS) /* there is less of an early time */
#define REPORT_MINUTE UINT64_C(60000000000)

#define REPORT_STEP UINT64_C(10000000) /* ns */
#define REPORT_SOON 1.0
#define REPORT_SOON_SHARE 0.9
#define REPORT_BUSY_SHARE 0.75
enum { REPORT_LEAST = 20, REPORT_BUSY_LOAD = 4 /* of a processor */ };

void report_begin(report *of, const state *state, plan_family storm, double seconds) {
  *of = (report){.state = state,
                 .storm = storm,
                 .seconds = seconds,
                 .begun = state_now(),
                 .printed = state_now()};
  for (int i = 0; i < PLAN_ELDERS; i++)
    of->resident[i].late_least = of->heap[i].late_least = UINT64_MAX;
}

double report_elapsed(const report *of) {
  return (double)(state_now() - of->begun) * 1e-9;
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

/* ---- Kills and stops ---------------------------------------------------------------------- */

/* A rank that dies before it is connected to any other is missed when time runs out. */
static void report_add_detected(report *of, const plan_world *world) {
  const state *state = of->state;
  plan_family family = plan_fault_family(world->fault.kind);
  bool killed = family == PLAN_FAMILY_KILLED, detected = false, missed = false;
  bool opened = atomic_load(&state->doing) > STATE_OPENING;
  uint64_t last = 0;
  if (!killed && family != PLAN_FAMILY_STOPPED) return;
  for (int i = 0; i < 2 * world->size; i++) {
    const state_outcome *outcome = &state->outcomes[i / 2][i % 2];
    bool timeout = killed && outcome->status == RING_TIMEOUT;
    if (i / 2 == world->fault.rank || outcome->status == RING_OK || (timeout && !opened)) continue;
    detected = true;
    missed = missed || timeout;
    if (outcome->late_ns > last) last = outcome->late_ns;
  }
  if (!detected) return;
  uint64_t step = missed ? REPORT_STEPS : last / REPORT_STEP;
  of->detected[family][step < REPORT_STEPS ? step : REPORT_STEPS - 1]++;
}

/* Seconds within which that share of the worlds had detected the fault. */
static double report_quantile(const uint64_t *detected, uint64_t worlds, double share) {
  uint64_t sum = 0;
  int step = 0;
  while (step < REPORT_STEPS - 1 && (double)(sum += detected[step]) < share * (double)worlds)
    step++;
  return (double)(step + 1) * (double)REPORT_STEP * 1e-9;
}

/* The share of the worlds that have to detect it soon. */
static double report_soon_share(void) {
  double load = 0;
  if (getloadavg(&load, 1) != 1 || load <= REPORT_BUSY_LOAD * (double)sysconf(_SC_NPROCESSORS_ONLN))
    return REPORT_SOON_SHARE;
  printf("         this machine is busy (load %.0f)\n", load);
  return REPORT_BUSY_SHARE;
}

static void report_print_detected(const uint64_t *detected, uint64_t worlds, uint64_t late,
                                  double soon, plan_family family) {
  printf("         %6llu worlds detected that a rank was %s: half of them within %.2f s%s, 90 %% "
         "%.2f s, "
         "99 %% %.2f s; %llu later than %.0f s\n",
         (unsigned long long)worlds, plan_family_name(family),
         report_quantile(detected, worlds, 0.5),
         family == PLAN_FAMILY_STOPPED ? " after the deadline" : "",
         report_quantile(detected, worlds, 0.9), report_quantile(detected, worlds, 0.99),
         (unsigned long long)late, soon);
}

/* Nearly all worlds that detect the fault have to do so soon and, if all have it, most have to detect it. */
static bool report_detected_soon(const report *of, plan_family family) {
  const uint64_t *detected = of->detected[family];
  uint64_t worlds = 0, late = 0;
  double soon = UNLOADED(REPORT_SOON);
  for (int i = 0; i < REPORT_STEPS; i++) {
    worlds += detected[i];
    if ((double)(i + 1) * (double)REPORT_STEP * 1e-9 > soon) late += detected[i];
  }
  if (worlds > 0) report_print_detected(detected, worlds, late, soon, family);
  if (of->storm == family && of->worlds >= REPORT_LEAST && worlds < of->worlds / 2) {
    printf("soak: of %llu worlds only %llu detected that a rank was %s\n",
           (unsigned long long)of->worlds, (unsigned long long)worlds, plan_family_name(family));
    return false;
  }
  if (worlds < REPORT_LEAST) return true;
  double share = report_soon_share();
  if ((double)(worlds - late) >= share * (double)worlds) return true;
  printf("soak: less than %.0f %% of them detected it within %.0f s\n", 100 * share, soon);
  return false;
}

/* ---- Words -------------------------------------------------------------------------------- */

static void report_print(const report *of) {
  uint64_t calls = 0, bytes = 0, failures = 0, timeouts = 0, worst = 0, resident = 0, heap = 0,
           faults = 0;
  int descriptors = 0;
  for (int i = 0; i < PLAN_RANKS; i++) {
    const state_worker *worker = &of->state->workers[i];
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
  tally_add(&of->tally, world, of->state);
  report_add_detected(of, world);
  for (int i = 0; i < PLAN_ELDERS; i++) {
    report_sample(of, &of->resident[i], of->state->workers[i].resident);
    report_sample(of, &of->heap[i], of->state->workers[i].heap);
  }
  if (state_now() < of->printed + REPORT_MINUTE) return;
  of->printed += REPORT_MINUTE;
  report_print(of);
}

bool report_end(report *of) {
  bool flat = true;
  uint64_t heap_slack =
      of->seconds < REPORT_SHORT_SECONDS ? REPORT_SHORT_HEAP_SLACK : REPORT_HEAP_SLACK;
  report_print(of);
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
  bool killed = report_detected_soon(of, PLAN_FAMILY_KILLED);
  return report_detected_soon(of, PLAN_FAMILY_STOPPED) && killed && flat;
}
