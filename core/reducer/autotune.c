/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/autotune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "api/comm_lifecycle.h"
#include "base/platform.h"

#define AUTOTUNE_GAIN 1.03

/* What is tried: each threshold with the first cycle time, then each cycle time with the best threshold. */
static const uint64_t autotune_thresholds[] = {1,
                                               UINT64_C(1) << 18,
                                               UINT64_C(1) << 20,
                                               UINT64_C(1) << 22,
                                               UINT64_C(1) << 24,
                                               UINT64_C(1) << 26,
                                               UINT64_C(1) << 27};
static const uint64_t autotune_cycle_times[] = {0, 250000, 1000000, 2500000, AUTOTUNE_CYCLE_MOST};
enum {
  AUTOTUNE_THRESHOLDS = sizeof autotune_thresholds / sizeof autotune_thresholds[0],
  AUTOTUNE_PAIRS = AUTOTUNE_THRESHOLDS +
      sizeof autotune_cycle_times / sizeof autotune_cycle_times[0]
};

int ring_autotune_begin(ring_autotune *autotune, ring_autotune_pair now, const char *log) {
  *autotune = (ring_autotune){.now = now, .best = now, .step = 1, .runs = true};
  if (log == NULL) return 0;
  autotune->log = fopen(log, "ae");
  if (autotune->log == NULL) return errno;
  struct stat about;
  if (fstat(fileno(autotune->log), &about) == 0 && about.st_size == 0)
    fputs("threshold,cycle_time,bytes_per_second,chosen\n", autotune->log);
  return 0;
}

void ring_autotune_end(ring_autotune *autotune) {
  if (autotune->log != NULL) fclose(autotune->log);
  autotune->log = NULL;
  autotune->runs = false;
}

static void autotune_log(const ring_autotune *autotune, const ring_autotune_pair *pair, double rate,
                         bool chosen) {
  if (autotune->log == NULL) return;
  fprintf(autotune->log, "%" PRIu64 ",%.5f,%.0f,%d\n", pair->threshold,
          (double)pair->cycle_time / 1e9, rate, chosen);
  fflush(autotune->log);
}

static int autotune_compare(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

/* The pair that is tried after `tried` samples, of which the first two are those of the settings at the start:
 * the first one warms up. */
static ring_autotune_pair autotune_pair(const ring_autotune *autotune) {
  ring_autotune_pair pair = autotune->best;
  if (autotune->tried < 2) return pair;
  size_t next = autotune->tried - 2;
  if (next < AUTOTUNE_THRESHOLDS)
    pair.threshold = autotune_thresholds[next];
  else if (next < AUTOTUNE_PAIRS)
    pair.cycle_time = autotune_cycle_times[next - AUTOTUNE_THRESHOLDS];
  return pair;
}

/* Ends a sample, and turns to the next pair. */
static void autotune_judge(ring_autotune *autotune) {
  qsort(autotune->rates, AUTOTUNE_STEPS, sizeof(double), autotune_compare);
  double rate = autotune->rates[AUTOTUNE_STEPS / 2];
  autotune_log(autotune, &autotune->now, rate, false);
  if (autotune->tried++ > 0 && rate > AUTOTUNE_GAIN * autotune->best_rate) {
    autotune->best = autotune->now;
    autotune->best_rate = rate;
  }
  autotune->now = autotune_pair(autotune);
  autotune->moves = true;
  autotune->steps = 0;
  if (autotune->tried < 2 + AUTOTUNE_PAIRS) return;
  autotune_log(autotune, &autotune->best, autotune->best_rate, true);
  ring_autotune_end(autotune);
}

static void autotune_end_step(ring_autotune *autotune) {
  uint64_t now = ring_platform_now();
  if (autotune->steps > 0)
    autotune->rates[autotune->steps - 1] =
        (double)autotune->bytes * 1e9 / (double)(now - autotune->begun + 1);
  autotune->begun = now;
  autotune->bytes = 0;
  autotune->step++;
  if (autotune->steps++ == AUTOTUNE_STEPS) autotune_judge(autotune);
}

void ring_autotune_count(ring_autotune *autotune, const ring_negotiation *negotiation) {
  for (size_t i = 0; i < negotiation->ready_count && autotune->runs; i++) {
    const ring_ready *ready = &negotiation->ready[i];
    if (ready->entry->step == autotune->step) autotune_end_step(autotune);
    ready->entry->step = autotune->step;
    autotune->bytes +=
        ring_tensor_elements(&ready->tensor, 0) * ring_dtype_size(ready->tensor.dtype);
  }
}

ring_status ring_autotune_move(ring_autotune *autotune, ring_comm *comm) {
  uint64_t pair[2] = {autotune->now.threshold, autotune->now.cycle_time};
  ring_status status = ring_broadcast(comm, pair, pair, 2, RING_UINT64, 0);
  if (status != RING_OK) return status;
  if (pair[1] > AUTOTUNE_CYCLE_MOST)
    return ring_comm_accuse(comm, 0, "a reducer an impossible cycle time");
  autotune->now = (ring_autotune_pair){pair[0], pair[1]};
  autotune->moves = false;
  return RING_OK;
}
