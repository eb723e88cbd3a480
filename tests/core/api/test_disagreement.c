/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank calls something else than the others: every pair of calls, on every rank, for several
 * sizes and lengths (see disagreements.h). Every rank has to get an error, at the latest from its
 * close, that shows two calls which differ and names the odd rank; and no call may succeed of which
 * the rank can know that not all have made it.
 *
 *   test_disagreement                each ordered pair of kinds once, and some more: the same each
 *                                    time, and others over another link or with sanitizers
 *   test_disagreement --sample 500 --seed 7
 *   test_disagreement --all --workers 12
 *   test_disagreement --case 1234    that one, and the error of each rank
 *
 * Several worlds at a time: most of the time they wait.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "disagreements.h"
#include "ranks.h"

enum { SAMPLE = DISAGREEMENT_PAIRS + 28, WORKERS = 4, RANKS = 5 };
/* The search begins after half a second; a busy machine may make it slow. */
#define CALL_SECONDS 15.0

typedef struct outcome {
  ring_status calls[DISAGREEMENT_CALLS], end;
  bool ran[DISAGREEMENT_CALLS];
  bool exited; /* without a failure, as it was to */
  double seconds;
  ring_error error;
} outcome;

typedef struct world {
  int arrived;
  const disagreement *what;
  outcome ranks[RANKS];
} world;

/* Of all workers. */
typedef struct tally {
  atomic_int next, failed, late, statuses[RING_SYSTEM + 1];
  atomic_int worst_ms; /* of those that were not found by waiting until the deadline */
} tally;

typedef struct chosen {
  disagreement *all;
  size_t *numbers, count;
  uint64_t seed;
  int workers, pairs;
  bool verbose;
} chosen;

/* ---- In a rank ---------------------------------------------------------------------------- */

static void end_program(const program *mine, ring_comm *comm, outcome *into) {
  bool failed = ring_comm_error(comm)->status != RING_OK;
  into->exited = !failed && mine->end != DISAGREEMENT_CLOSES;
  if (into->exited && mine->end == DISAGREEMENT_EXITS) _exit(0);
  if (!into->exited) into->end = ring_comm_close(comm);
}

static void play(int rank, int size, void *shared) {
  world *of = shared;
  outcome *into = &of->ranks[rank];
  const program *mine = disagreement_of(of->what, rank);
  ring_comm *children[DISAGREEMENT_CALLS] = {0}, *comm;
  ring_options options = rank_options(rank, size);
  options.call_timeout = CALL_SECONDS;
  CHECK_INT(ring_comm_open(&options, &comm, &into->error), RING_OK);
  ranks_barrier(&of->arrived, size);
  double begun = seconds();
  for (int i = 0; i < mine->count && ring_comm_usable(comm); i++) {
    into->calls[i] = call_run(&mine->calls[i], comm, &children[i]);
    into->ran[i] = true;
  }
  end_program(mine, comm, into);
  into->seconds = seconds() - begun;
  into->error = *ring_comm_error(comm);
  for (int i = 0; i < DISAGREEMENT_CALLS; i++) ring_comm_free(children[i]);
  ring_comm_free(comm);
}

/* ---- Judging ------------------------------------------------------------------------------ */

/* Whether the text has "rank 3" with no further digit behind it. */
static bool names_rank(const char *text, int rank) {
  char name[32];
  size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
  for (const char *at = text; (at = strstr(at, name)) != NULL; at += length)
    if (at[length] == '\0' || strchr("0123456789", at[length]) == NULL) return true;
  return false;
}

/* Whether the text shows a call of a program, or its close. */
static bool shows(const program *of, const char *text) {
  char name[64];
  for (int i = 0; i < of->count; i++) {
    snprintf(name, sizeof name, "%s%s", call_name(of->calls[i].kind),
             of->calls[i].kind == CALL_message ? " " : "(");
    if (strstr(text, name) != NULL) return true;
  }
  return strstr(text, "close()") != NULL;
}

/* NULL, or what is wrong with why a rank failed. */
static const char *judge_error(const disagreement *of, const ring_error *error) {
  const char *text = error->message;
  bool gone = of->other.end != DISAGREEMENT_CLOSES;
  switch (error->status) {
  case RING_MISMATCH:
    if (!names_rank(text, of->odd)) return "the text does not name the odd rank";
    if (strstr(text, "disagree on counts") != NULL) return NULL;
    if (!shows(&of->rest, text) || !shows(&of->other, text)) return "the text does not show both";
    return NULL;
  case RING_TIMEOUT:
    return "that was found by nothing but the deadline";
  case RING_PEER_LOST:
  case RING_ABORTED:
    if (!gone) return "nobody has gone";
    return names_rank(text, of->odd) ? NULL : "the text does not name the odd rank";
  default:
    return "that is another failure";
  }
}

/* NULL, or what is wrong with what a rank got. */
static const char *judge(const disagreement *of, int rank, const outcome *got) {
  const program *mine = disagreement_of(of, rank);
  for (int i = 0; i < mine->count; i++)
    if (got->ran[i] && got->calls[i] == RING_OK && call_concerns(&mine->calls[i], rank) &&
        !disagreement_may_succeed(of, rank, i))
      return "a call succeeded that others did not make";
  if (got->exited) return NULL;
  if (got->end == RING_OK) return "it closed without an error";
  if (got->end != got->error.status) return "close gave another status than the error has";
  return judge_error(of, &got->error);
}

static void count(tally *into, const outcome *got) {
  int ms = (int)(got->seconds * 1000), worst = atomic_load(&into->worst_ms);
  atomic_fetch_add(&into->statuses[got->error.status], 1);
  while (got->error.status != RING_TIMEOUT && ms > worst &&
         !atomic_compare_exchange_weak(&into->worst_ms, &worst, ms)) {
  }
}

static void show(size_t number, const world *of, int rank, const char *wrong) {
  char text[800];
  const outcome *got = &of->ranks[rank];
  disagreement_print(of->what, text, sizeof text);
  fprintf(stderr, "case %zu: %s\n  rank %d%s%s after %.3f s: %s: %s\n", number, text, rank,
          wrong == NULL ? "" : ": ", wrong == NULL ? "" : wrong, got->seconds,
          ring_status_name(got->error.status), got->error.message);
}

static void judge_world(const chosen *from, size_t number, const world *of, tally *into) {
  bool failed = false, late = false;
  for (int rank = 0; rank < of->what->size; rank++) {
    const char *wrong = judge(of->what, rank, &of->ranks[rank]);
    count(into, &of->ranks[rank]);
    late = late || of->ranks[rank].error.status == RING_TIMEOUT ||
           of->ranks[rank].seconds > CALL_SECONDS;
    failed = failed || wrong != NULL;
    if (wrong != NULL || from->verbose) show(number, of, rank, wrong);
  }
  if (late && !failed && !from->verbose) {
    char text[800];
    disagreement_print(of->what, text, sizeof text);
    printf("only at the deadline: case %zu: %s\n", number, text);
    fflush(stdout);
  }
  atomic_fetch_add(&into->late, late ? 1 : 0);
  atomic_fetch_add(&into->failed, failed ? 1 : 0);
}

/* ---- All of them -------------------------------------------------------------------------- */

static void run_worker(const chosen *from, tally *into) {
  world *of = shared_alloc(sizeof *of);
  for (;;) {
    size_t at = (size_t)atomic_fetch_add(&into->next, 1);
    if (at >= from->count) break;
    memset(of, 0, sizeof *of);
    of->what = &from->all[from->numbers[at]];
    run_ranks(of->what->size, play, of);
    judge_world(from, from->numbers[at], of, into);
  }
  shared_free(of, sizeof *of);
}

static void run_workers(const chosen *from, tally *into) {
  int status, bad = 0;
  fflush(NULL);
  for (int i = 0; i < from->workers; i++) {
    if (fork() != 0) continue;
    run_worker(from, into);
    exit(0);
  }
  while (wait(&status) > 0) bad += status != 0;
  CHECK_INT(bad, 0);
}

/* All in a random order (SplitMix64). */
static void shuffle(size_t *numbers, size_t all, uint64_t seed) {
  for (size_t i = 0; i < all; i++) numbers[i] = i;
  for (size_t i = 0; i < all; i++) {
    uint64_t x = seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    size_t other = i + (size_t)((x ^ x >> 31) % (all - i)), kept = numbers[i];
    numbers[i] = numbers[other];
    numbers[other] = kept;
  }
}

/* `count` of all: the first of each pair of kinds, then the first of what is left. */
static void choose(chosen *from, size_t all, size_t count) {
  bool arrived[DISAGREEMENT_PAIRS] = {0};
  size_t *numbers = from->numbers = malloc(all * sizeof *numbers);
  CHECK(numbers != NULL && count <= all);
  shuffle(numbers, all, from->seed);
  for (size_t i = 0; i < all; i++) {
    int pair = disagreement_pair(&from->all[numbers[i]]);
    size_t kept = numbers[i];
    if (arrived[pair]) continue;
    arrived[pair] = true;
    numbers[i] = numbers[from->pairs];
    numbers[from->pairs++] = kept;
  }
  CHECK_INT(from->pairs, DISAGREEMENT_PAIRS);
  from->count = count;
  if (count < (size_t)from->pairs) from->pairs = (int)count;
}

static void report(const chosen *from, size_t all, const tally *of) {
  printf(
      "%zu of %zu disagreements over %s, of %d of %d pairs of kinds (seed %llu): %d found only at "
      "the deadline, %d wrong; the slowest other after %.3f s; errors:",
      from->count, all, ranks_link(), from->pairs, DISAGREEMENT_PAIRS,
      (unsigned long long)from->seed, of->late, of->failed, of->worst_ms * 1e-3);
  for (int status = 0; status <= RING_SYSTEM; status++)
    if (of->statuses[status] > 0)
      printf(" %s %d,", ring_status_name((ring_status)status), of->statuses[status]);
  printf("\n");
}

int main(int count, char **arguments) {
  chosen from = {.workers = WORKERS, .seed = 1 + !ranks_share + 2 * SPARKRING_SANITIZED};
  size_t all, sample = SAMPLE;
  from.all = disagreements_make(&all);
  for (int i = 1; i < count; i++) {
    const char *value = i + 1 < count ? arguments[i + 1] : "0";
    if (strcmp(arguments[i], "--all") == 0) sample = all;
    if (strcmp(arguments[i], "--sample") == 0) sample = strtoul(value, NULL, 10);
    if (strcmp(arguments[i], "--workers") == 0) from.workers = atoi(value);
    if (strcmp(arguments[i], "--seed") == 0) from.seed = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "--case") != 0) continue;
    from.verbose = true;
    sample = 0;
  }
  choose(&from, all, sample < all ? sample : all);
  if (from.verbose) {
    from.numbers[0] = strtoul(arguments[count - 1], NULL, 10);
    from.count = 1;
    from.pairs = 1;
  }
  tally *tally = shared_alloc(sizeof *tally);
  run_workers(&from, tally);
  report(&from, all, tally);
  int failed = tally->failed;
  shared_free(tally, sizeof *tally);
  free(from.numbers);
  free(from.all);
  return failed == 0 ? 0 : 1;
}
