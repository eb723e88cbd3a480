/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what the algorithms have to do, for bench/tune.py:
 *   effort                             COLLECTIVE ALGORITHM, a line for each that there is
 *   effort COLLECTIVE RANKS BYTES ...  ALGORITHM and its effort (core/tuner/cost.h), for each such triple
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cost.h"

/* One that a communicator on one host can run. */
static bool runs(int algorithm, uint8_t collective) {
  return algorithm != RING_ALGORITHM_HIERARCHICAL &&
         ring_algorithm_serves((ring_algorithm)algorithm, collective);
}

static void print_pairs(void) {
  for (int collective = 0; collective <= UINT8_MAX; collective++)
    for (int algorithm = 0; algorithm < RING_ALGORITHMS; algorithm++)
      if (runs(algorithm, (uint8_t)collective))
        printf("%s %s\n", ring_collective_name((uint8_t)collective),
               ring_algorithm_name((ring_algorithm)algorithm));
}

static void print_efforts(uint8_t collective, int ranks, uint64_t bytes) {
  for (int i = 0; i < RING_ALGORITHMS; i++) {
    ring_algorithm algorithm = (ring_algorithm)i;
    if (!runs(i, collective)) continue;
    ring_effort effort = ring_effort_of(algorithm, collective, ranks, bytes);
    printf("%s %s %d %llu %llu %llu %llu %llu %llu %llu\n", ring_collective_name(collective),
           ring_algorithm_name(algorithm), ranks, (unsigned long long)bytes,
           (unsigned long long)effort.rounds, (unsigned long long)effort.messages,
           (unsigned long long)effort.all_messages, (unsigned long long)effort.bytes,
           (unsigned long long)effort.all_bytes, (unsigned long long)effort.reduced);
  }
}

int main(int argc, char **argv) {
  if (argc == 1) print_pairs();
  for (int i = 1; i + 2 < argc; i += 3) {
    uint8_t collective;
    if (!ring_algorithm_collective(argv[i], strlen(argv[i]), &collective)) return 1;
    print_efforts(collective, atoi(argv[i + 1]), strtoull(argv[i + 2], NULL, 10));
  }
  return 0;
}
