/* SPDX-License-Identifier: Apache-2.0
 *
 * Name servers that are slow, silent, or do not know a machine yet. The linker sends the core's lookups
 * through here. The names of the hosts choose how their lookups go; all resolve to this machine.
 */
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "load.h"
#include "ranks.h"

/* ---- The name server ---------------------------------------------------------------------- */

static int *asked;         /* by all ranks, in shared memory */
static pthread_key_t kept; /* what a resolver keeps for each of its threads */
static bool kept_is_freed;

static void free_slowly(void *unused) {
  (void)unused;
  usleep(400000);
  kept_is_freed = true;
}

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found) {
  if (strcmp(host, "never") == 0) return EAI_NONAME;
  if (strcmp(host, "silent") == 0) return EAI_AGAIN;
  if (strcmp(host, "hangs") == 0) sleep(4);
  if (strcmp(host, "slow") == 0) usleep(700000);
  if (strcmp(host, "keeps") == 0) pthread_setspecific(kept, &kept);
  if (strcmp(host, "unknown-at-first") == 0 && __sync_fetch_and_add(asked, 1) < 3)
    return EAI_NONAME;
  if (strcmp(host, "silent-at-first") == 0 && __sync_fetch_and_add(asked, 1) < 2) return EAI_AGAIN;
  return __real_getaddrinfo("127.0.0.1", service, hints, found);
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* Rank 1 looks for rank 0 on this host; gives how long that took. */
static double fail_to_open(const char *host, double timeout, ring_status expected,
                           const char *text) {
  ring_options options = rank_options(1, 2);
  ring_comm *comm = NULL;
  ring_error error;
  double begun = seconds();
  options.addresses = (const char *const[]){host, "127.0.0.1"};
  options.timeout = timeout;
  CHECK_INT(ring_comm_open(&options, &comm, &error), expected);
  CHECK(comm == NULL);
  CHECK_CONTAINS(error.message, text);
  return seconds() - begun;
}

static void test_the_deadline_holds(void) {
  double took = fail_to_open("hangs", 0.5, RING_TIMEOUT,
                             "cannot resolve the host hangs of rank 0: the name server has not "
                             "answered yet");
  CHECK(took >= 0.4 && took < 3.5);
  took = fail_to_open("silent", 0.5, RING_TIMEOUT, "cannot resolve the host silent of rank 0: ");
  CHECK(took >= 0.4 && took < 2.5);
  took = fail_to_open("never", 0.5, RING_TIMEOUT, "cannot resolve the host never of rank 0: ");
  CHECK(took >= 0.4 && took < 2.5);
}

static void test_a_name_that_does_not_exist(void) {
  double took =
      fail_to_open("never", 60, RING_PEER_LOST, "cannot resolve the host never of rank 0");
  CHECK(took >= 4.9 && took < 15);
}

/* A process that forks or ends next neither copies nor leaks what its resolver kept. */
static void test_the_resolver_has_ended(void) {
  ring_options options = rank_options(1, 2);
  ring_comm *comm = NULL;
  CHECK_INT(pthread_key_create(&kept, free_slowly), 0);
  options.addresses = (const char *const[]){"keeps", "127.0.0.1"};
  options.timeout = 1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_TIMEOUT);
  CHECK(kept_is_freed);
  pthread_key_delete(kept);
}

static int stop_at_once(void *unused) {
  (void)unused;
  return 1;
}

static void test_an_interrupt(void) {
  ring_options options = rank_options(1, 2);
  ring_comm *comm = NULL;
  ring_error error;
  double begun = seconds();
  options.addresses = (const char *const[]){"hangs", "127.0.0.1"};
  options.interrupt = stop_at_once;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_ABORTED);
  CHECK_CONTAINS(error.message, "was interrupted during open()");
  CHECK(seconds() - begun < UNLOADED(2));
}

/* ---- Working ------------------------------------------------------------------------------ */

/* Links are opened in the calls, by name: every rank has an address of this name. */
static void work(int rank, int size, void *host) {
  ring_options options = rank_options(rank, size);
  const char *addresses[] = {host, host, host, host};
  float sum = (float)rank;
  options.addresses = addresses;
  options.shared_memory = RING_OFF;
  options.algorithms = "allreduce:ring";
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_allreduce(comm, &sum, &sum, 1, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(sum == (float)(size * (size - 1)) / 2);
  int64_t from[4] = {rank, rank, rank, rank}, to[4];
  CHECK_INT(ring_alltoall(comm, from, to, 1, RING_INT64), RING_OK);
  for (int i = 0; i < size; i++) CHECK_INT(to[i], i);
  close_rank(comm);
}

static void work_on(char *host) {
  asked = shared_alloc(sizeof *asked);
  run_ranks(4, work, host);
  shared_free(asked, sizeof *asked);
}

static void test_ranks_that_are_found_late(void) {
  char slow[] = "slow", unknown[] = "unknown-at-first", silent[] = "silent-at-first";
  work_on(slow);
  work_on(unknown);
  work_on(silent);
}

int main(void) {
  RUN(test_ranks_that_are_found_late); /* forks: before there are threads */
  RUN(test_the_deadline_holds);
  RUN(test_a_name_that_does_not_exist);
  RUN(test_the_resolver_has_ended);
  RUN(test_an_interrupt);
  return 0;
}
