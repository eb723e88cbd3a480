/* SPDX-License-Identifier: Apache-2.0
 *
 * soak: for a set time random worlds of 2 to 8 ranks, each of which opens, calls random collectives
 * in random ways, is checked against a plain reference, and closes, or breaks as it should.
 *
 *   soak --seed 7 --seconds 1800 --faults 0.3
 *   soak --seed 7 --faults 0.3 --world 123         only that one, again, with every error
 *   soak --faults 1 --only killed --worlds 500     a storm of kills
 *
 * All that is decided follows from the seed and the options but --seconds, --worlds, --world and
 * --patience. Who wins a race does not.
 *
 * After every world all that it has made must be gone: what a worker holds (workers.h), and what is
 * in the house (house.h).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "house.h"
#include "report.h"
#include "workers.h"

typedef struct soak_options {
  plan_bounds bounds;
  double seconds, patience;
  long long world;  /* -1: all */
  long long worlds; /* how many at most; 0: as many as there is time for */
} soak_options;

static void soak_usage(void) {
  fprintf(stderr, "usage: soak [--seed N] [--seconds S] [--ranks FROM-TO] [--faults SHARE]\n"
                  "            [--only any|killed|stopped|ended|disagreed] [--worlds N]\n"
                  "            [--link any|tcp|tls|shm] [--patience S] [--world N]\n");
  exit(2);
}

static double soak_number(const char *text, double least, double most) {
  char *end;
  double number = strtod(text, &end);
  if (end == text || *end != '\0' || !(number >= least && number <= most)) soak_usage();
  return number;
}

static plan_link soak_link(const char *text) {
  static const char *const names[] = {[PLAN_LINK_ANY] = "any",
                                      [PLAN_LINK_TCP] = "tcp",
                                      [PLAN_LINK_TLS] = "tls",
                                      [PLAN_LINK_SHM] = "shm"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(text, names[i]) == 0) return (plan_link)i;
  soak_usage();
  return PLAN_LINK_ANY;
}

static plan_family soak_family(const char *text) {
  for (int i = 0; i < PLAN_FAMILIES; i++)
    if (strcmp(text, plan_family_name((plan_family)i)) == 0) return (plan_family)i;
  soak_usage();
  return PLAN_FAMILY_NONE;
}

static void soak_read_option(soak_options *options, const char *name, const char *value) {
  plan_bounds *bounds = &options->bounds;
  if (strcmp(name, "--seed") == 0)
    bounds->seed = (uint64_t)soak_number(value, 0, 0x1p53);
  else if (strcmp(name, "--seconds") == 0)
    options->seconds = soak_number(value, 0, 1e7);
  else if (strcmp(name, "--faults") == 0)
    bounds->faults = soak_number(value, 0, 1);
  else if (strcmp(name, "--patience") == 0)
    options->patience = soak_number(value, 0, 1e4);
  else if (strcmp(name, "--world") == 0)
    options->world = (long long)soak_number(value, 0, 0x1p53);
  else if (strcmp(name, "--worlds") == 0)
    options->worlds = (long long)soak_number(value, 1, 0x1p53);
  else if (strcmp(name, "--only") == 0)
    bounds->only = soak_family(value);
  else if (strcmp(name, "--link") == 0)
    bounds->link = soak_link(value);
  else if (strcmp(name, "--ranks") != 0 ||
           sscanf(value, "%d-%d", &bounds->ranks_from, &bounds->ranks_to) != 2 ||
           bounds->ranks_from < 2 || bounds->ranks_to < bounds->ranks_from ||
           bounds->ranks_to > PLAN_RANKS)
    soak_usage();
}

/* ---- Checks of the parent ----------------------------------------------------------------- */

/* Results of an allreduce are the same to the bit on all ranks of a communicator that have one. */
static bool soak_digests_agree(const plan_world *world, const state *state) {
  for (int round = 0; round < world->rounds; round++) {
    const plan_call *call = &world->calls[round];
    uint64_t of_color[PLAN_COLORS] = {0};
    bool all_get = call->kind == PLAN_allreduce || call->kind == PLAN_allreduce_group;
    for (int rank = 0; all_get && rank < world->size; rank++) {
      uint64_t *first = &of_color[call->child ? world->color[rank] : 0];
      uint64_t digest = state->digests[round][rank];
      if (*first == 0) *first = digest;
      if (digest == 0 || digest == *first) continue;
      fprintf(stderr, "soak: world %llu, round %d: rank %d has other bits than a lower rank\n",
              (unsigned long long)world->number, round, rank);
      return false;
    }
  }
  return true;
}

static bool soak_play(workers *workers, const plan_world *world) {
  static uint64_t before[PLAN_ROUNDS][PLAN_RANKS];
  if (!workers_play(workers, world) || !soak_digests_agree(world, workers->state)) return false;
  if (!world->twice) return true;
  memcpy(before, workers->state->digests, sizeof before);
  if (!workers_play(workers, world)) return false;
  if (memcmp(before, workers->state->digests, sizeof before) == 0) return true;
  fprintf(stderr, "soak: world %llu gave other bits when it was played again\n",
          (unsigned long long)world->number);
  return false;
}

/* Nothing is left of the workers in the parent. */
static bool soak_left_nothing(state_holdings *before) {
  state_holdings now;
  if (state_holds_no_more(before, &now)) return true;
  fprintf(stderr, "soak: %d descriptors, %d threads and %d maps where there were %d, %d and %d\n",
          now.descriptors, now.threads, now.maps, before->descriptors, before->threads,
          before->maps);
  return false;
}

/* ---- Running ------------------------------------------------------------------------------ */

static bool soak_goes_on(const soak_options *options, const report *report) {
  if (options->world >= 0) return false;
  if (options->worlds > 0) return report->worlds < (uint64_t)options->worlds;
  return report_elapsed(report) < options->seconds;
}

static bool soak_run(const soak_options *options, workers *workers, const house *house) {
  static plan_world world;
  static report report;
  house_things before = house_count(house);
  uint64_t number = options->world < 0 ? 0 : (uint64_t)options->world;
  plan_family storm = options->bounds.faults < 1 ? PLAN_FAMILY_NONE : options->bounds.only;
  report_begin(&report, workers->state, storm, options->seconds);
  do {
    plan_make(&world, &options->bounds, number++);
    if (!soak_play(workers, &world) || !house_is_clean(house, &before)) {
      char text[640];
      plan_describe(&world, text, sizeof text);
      fprintf(stderr, "soak: failed in %s\nAgain: --world %llu and the options that were given\n",
              text, (unsigned long long)world.number);
      return false;
    }
    report_add(&report, &world);
  } while (soak_goes_on(options, &report));
  return report_end(&report);
}

/* What threads keep for their next allocation counts as allocated, and long buffers that come to
 * lie in their heaps stay resident; both would hide a leak. Begins again without that. Where the
 * C library knows no such settings, that changes nothing. */
static void soak_restart(char **arguments) {
  if (getenv("GLIBC_TUNABLES") != NULL) return;
  setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=131072", 1);
  execv("/proc/self/exe", arguments);
}

int main(int count, char **arguments) {
  soak_options options = {.bounds = {.seed = (uint64_t)time(NULL),
                                     .ranks_from = 2,
                                     .ranks_to = PLAN_RANKS,
                                     .faults = 0.2},
                          .seconds = 60,
                          .patience = 1,
                          .world = -1};
  if (count % 2 == 0) soak_usage();
  for (int i = 1; i < count; i += 2) soak_read_option(&options, arguments[i], arguments[i + 1]);
  workers workers = {
      .bounds = options.bounds, .patience = options.patience, .prints = options.world >= 0};
  soak_restart(arguments);
  state_holdings before = state_count_holdings();
  house house = {0};
  workers.state = state_make();
  if (workers.state == NULL || !house_enter(&house)) return 1;
  house_things empty = house_count(&house);
  snprintf(workers.token, sizeof workers.token, "soak of process %d", (int)getpid());
  printf("soak: seed %llu\n", (unsigned long long)options.bounds.seed);
  fault_expect_load();
  bool good = workers_start(&workers) && soak_run(&options, &workers, &house);
  workers_end(&workers);
  state_free(workers.state);
  good = house_is_clean(&house, &empty) && good;
  good = house_leave(&house) && good;
  good = soak_left_nothing(&before) && good;
  printf("%s\n", good ? "all was well" : "FAILED");
  return good ? 0 : 1;
}
