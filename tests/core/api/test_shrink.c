/* SPDX-License-Identifier: Apache-2.0
 *
 * Shrinking: the living ranks of a communicator go on in a new one, whenever and however many ranks die.
 * test_shrink 500 42: 500 random jobs with the seed 42.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "victims.h"

enum { SHRINK_LIMIT_S = 60 };

/* A test of shrinking: shared by its ranks. */
typedef struct shrinking {
  int arrived, over;
  uint32_t victims;   /* a bit for each rank that is killed in a call of the first communicator */
  uint32_t followers; /* the same for ranks that are killed while they shrink */
  unsigned delay_us;  /* until a follower dies */
} shrinking;

static bool shrinking_has(uint32_t set, int rank) {
  return (set >> rank & 1) != 0;
}

static ring_options shrinking_options(int rank, int size) {
  ring_options options = rank_options(rank, size);
  options.call_timeout = SHRINK_LIMIT_S;
  return options;
}

/* Dies in the given number of microseconds, wherever the rank is then. */
static void die_later(unsigned delay_us) {
  pid_t parent = getpid(), child = fork();
  CHECK(child >= 0);
  if (child > 0) return;
  usleep(delay_us);
  kill(parent, SIGKILL);
  _exit(0);
}

/* Checks a sum over the ranks of a communicator; false: it has failed. */
static bool sums(ring_comm *comm, uint32_t living, int own) {
  int size = ring_comm_size(comm);
  int64_t value = own, sum = 0, expected = 0;
  if (ring_allreduce(comm, &value, &sum, 1, RING_INT64, RING_SUM) != RING_OK) return false;
  for (int rank = 0; rank < 32; rank++) expected += shrinking_has(living, rank) ? rank : 0;
  CHECK_INT(size, __builtin_popcount(living));
  CHECK_INT(sum, expected);
  return true;
}

/* Shrinks until the ranks that live can sum; a follower may be in the first new communicators. */
static ring_comm *shrink_to(ring_comm *comm, uint32_t living, int own) {
  for (;;) {
    ring_comm *next;
    ring_error error;
    ring_status status = ring_comm_shrink(comm, 0, &next, &error);
    if (status != RING_OK) fprintf(stderr, "rank %d: %s\n", own, error.message);
    CHECK_INT(status, RING_OK);
    CHECK(ring_comm_epoch(next) != ring_comm_epoch(comm));
    ring_comm_free(comm);
    comm = next;
    int64_t one = 1, count = 0;
    bool passed = ring_allreduce(comm, &one, &count, 1, RING_INT64, RING_SUM) == RING_OK;
    if (passed && ring_comm_size(comm) == __builtin_popcount(living) && sums(comm, living, own))
      return comm;
    while (passed) passed = ring_barrier(comm) == RING_OK; /* until a follower dies */
  }
}

static void lose_ranks(int rank, int size, void *shared) {
  shrinking *of = shared;
  uint32_t living = ((1u << size) - 1) & ~of->victims & ~of->followers;
  ring_options options = shrinking_options(rank, size);
  ring_comm *comm = open_with(&options);
  ranks_barrier(&of->arrived, size);
  if (shrinking_has(of->victims, rank)) kill(getpid(), SIGKILL);
  if (shrinking_has(of->followers, rank)) die_later(of->delay_us);
  while (ring_barrier(comm) == RING_OK) continue;
  comm = shrink_to(comm, living, rank);
  CHECK_INT(ring_comm_rank(comm), __builtin_popcount(living & ((1u << rank) - 1)));
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

/* Forks the ranks; those that are to be killed are, and no other. */
static void lose(int size, uint32_t victims, uint32_t followers, unsigned delay_us) {
  shrinking *of = shared_alloc(sizeof *of);
  pid_t processes[8];
  of->victims = victims;
  of->followers = followers;
  of->delay_us = delay_us;
  for (int rank = 0; rank < size; rank++) {
    processes[rank] = fork_for(SHRINK_LIMIT_S);
    if (processes[rank] != 0) continue;
    lose_ranks(rank, size, of);
    _exit(0);
  }
  for (int rank = 0; rank < size; rank++) {
    int status;
    CHECK_INT(waitpid(processes[rank], &status, 0), processes[rank]);
    if (shrinking_has(victims | followers, rank))
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  shared_free(of, sizeof *of);
}

static void test_one_rank_is_lost(void) {
  for (int size = 2; size <= 5; size++)
    for (int victim = 0; victim < size; victim++) lose(size, 1u << victim, 0, 0);
}

static void test_several_ranks_are_lost_at_once(void) {
  lose(4, 0x5, 0, 0);
  lose(4, 0x7, 0, 0);
  lose(8, 0x2b, 0, 0);
}

static void test_ranks_are_lost_while_others_shrink(void) {
  for (unsigned delay = 0; delay < 400; delay += 25) lose(4, 0x4, 0x1, delay * 1000);
  for (unsigned delay = 0; delay < 400; delay += 50) lose(6, 0x2, 0x9, delay * 1000);
}

/* ---- At random ---------------------------------------------------------------------------- */

static int jobs = 12;
static unsigned seed = 1;

/* Any ranks but one die, at once or while the others shrink. */
static void test_ranks_are_lost_at_random(void) {
  printf("  %d jobs with the seed %u\n", jobs, seed);
  for (int job = 0; job < jobs; job++) {
    int size = 2 + rand_r(&seed) % 7;
    uint32_t all = (1u << size) - 1, survivor = 1u << rand_r(&seed) % size;
    uint32_t victims = (uint32_t)rand_r(&seed) & all & ~survivor;
    uint32_t followers = (uint32_t)rand_r(&seed) & all & ~survivor & ~victims;
    if (victims != 0) lose(size, victims, followers, (unsigned)rand_r(&seed) % 400000);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) jobs = atoi(argv[1]);
  if (argc > 2) seed = (unsigned)atoi(argv[2]);
  RUN(test_one_rank_is_lost);
  RUN(test_several_ranks_are_lost_at_once);
  RUN(test_ranks_are_lost_while_others_shrink);
  RUN(test_ranks_are_lost_at_random);
  return 0;
}
