/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors run out: on one rank of a workload there are n, for every n from those already open
 * to enough. Once more with a victim that is slow to report: the other ranks, which see its link
 * end, are faster.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "check.h"
#include "ranks.h"
#include "workload.h"

enum { MOST = 40, VICTIMS = 3, PARTS = 2 };

static bool slow; /* after it could not open a child */

ring_status __real_ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error);
ring_status __wrap_ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error);

ring_status __wrap_ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error) {
  ring_status status = __real_ring_comm_gather_up(comm, wait, error);
  if (slow && status == RING_SYSTEM) usleep(300000);
  return status;
}

typedef struct ration {
  int spare;
} ration;

static void starve(void *arg) {
  const ration *r = arg;
  struct rlimit limit;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 3 + (rlim_t)r->spare;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void feed(void *arg) {
  (void)arg;
  struct rlimit limit;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int problems;

/* Whether nothing was left out for want of descriptors. */
static bool is_whole(const workload *work) {
  const char *wanted =
      work->link == WORKLOAD_CONNECTIONS ? "tcp x3" : workload_link_name(work->link);
  return !workload_failed(work) && strcmp(work->ends[work->victim].link, wanted) == 0;
}

/* Runs with every number of descriptors of a part, the even or the odd ones, until one is enough. */
static void run_part(int runner, int runners, void *unused) {
  (void)runners, (void)unused;
  const int part = runner % PARTS, kind = runner / PARTS % VICTIMS, victim = kind % 2;
  const workload_link link = (workload_link)(runner / PARTS / VICTIMS);
  slow = kind == 2;
  workload *work = workload_alloc(link, victim);
  ration *r = work->arg = shared_alloc(sizeof *r);
  int failed = 0, enough = 0;
  double delay = 0;
  work->starve = starve;
  work->feed = feed;
  for (r->spare = part; r->spare < MOST && enough == 0; r->spare += PARTS) {
    char what[64];
    snprintf(what, sizeof what, "%d descriptors", r->spare);
    problems += !workload_run_again(work, what);
    const workload_end *end = &work->ends[victim];
    if (workload_failed(work)) {
      failed++;
      if (strstr(end->message, "ulimit -n") == NULL || end->status != RING_SYSTEM) problems++;
      if (strcmp(end->step, "open") != 0 && workload_delay(work) > delay)
        delay = workload_delay(work);
    }
    enough += is_whole(work);
    printf("%s, rank %d, %d descriptors: %s %s; link %s\n", workload_link_name(link), victim,
           r->spare, end->step != NULL ? end->step : "came through",
           end->step != NULL ? end->message : "", end->link);
  }
  printf("%s, rank %d, part %d: %d numbers of descriptors are too few; the others knew within %.3f "
         "s\n",
         workload_link_name(link), victim, part, failed, delay);
  CHECK(failed > 0 && enough > 0);
  CHECK_INT(problems, 0);
  shared_free(r, sizeof *r);
  workload_free(work);
}

static void test_every_number_of_descriptors(void) {
  run_ranks(PARTS * VICTIMS * WORKLOAD_LINKS, run_part, NULL);
}

int main(void) {
  RUN(test_every_number_of_descriptors);
  return 0;
}
