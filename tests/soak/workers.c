/* SPDX-License-Identifier: Apache-2.0 */
#include "workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "player.h"

/* A call that hangs ends after a minute and reports why, so a worker that takes longer does not come back. */
enum { WORKERS_WORLD_MS = 200000, WORKERS_LAST_WORDS_MS = 3000 };

typedef struct workers_order {
  uint64_t world;
  int rank;
} workers_order;

/* ---- In a worker -------------------------------------------------------------------------- */

static bool worker_is_clean(int index, state_holdings *before, state_worker *tally) {
  state_holdings now;
  bool clean = state_holds_no_more(before, &now);
  tally->descriptors = now.descriptors;
  tally->resident = state_resident();
  tally->heap = state_heap();
  if (clean) return true;
  fprintf(stderr,
          "soak: worker %d held %d descriptors, %d threads, %d shared maps before the world and "
          "%d, %d, %d after it\n",
          index, before->descriptors, before->threads, before->maps, now.descriptors, now.threads,
          now.maps);
  return false;
}

static bool worker_play(const workers *of, int index, const workers_order *order,
                        state_holdings *before) {
  static plan_world world;
  state_worker *tally = &of->state->workers[index];
  plan_make(&world, &of->bounds, order->world);
  player_setting setting = {.world = &world,
                            .state = of->state,
                            .rank = order->rank,
                            .token = of->token,
                            .patience = of->patience,
                            .prints = of->prints};
  return player_play(&setting) && worker_is_clean(index, before, tally);
}

static void *worker_do_nothing(void *arg) {
  return arg;
}

/* With a process's first thread the thread sanitizer starts one of its own, which stays. */
static void worker_warm_up(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, worker_do_nothing, NULL) == 0) pthread_join(thread, NULL);
}

/* One that was continued in a world before may be so again, by who watches this terminal. */
static bool worker_receive(int line, workers_order *order) {
  ssize_t got;
  do {
    got = read(line, order, sizeof *order);
  } while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof *order;
}

/* Leaves by exit, so that a sanitizer looks for leaks. */
static void worker_live(const workers *of, int index, int line) {
  worker_warm_up();
  state_holdings before = state_count_holdings();
  workers_order order;
  char answer = 'y';
  while (answer == 'y' && worker_receive(line, &order)) {
    answer = worker_play(of, index, &order, &before) ? 'y' : 'n';
    if (write(line, &answer, 1) != 1) break;
  }
  exit(answer == 'y' ? 0 : 1);
}

/* ---- In the parent ------------------------------------------------------------------------ */

static bool workers_start_one(workers *of, int index) {
  int ends[2];
  pid_t parent = getpid();
  fflush(NULL);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    for (int i = 0; i < PLAN_RANKS; i++)
      if (of->all[i].line >= 0) close(of->all[i].line);
    worker_live(of, index, ends[1]);
  }
  close(ends[1]);
  of->all[index] = (worker){process, ends[0], -1};
  return process > 0;
}

bool workers_start(workers *of) {
  for (int i = 0; i < PLAN_RANKS; i++) of->all[i] = (worker){-1, -1, -1};
  for (int i = 0; i < PLAN_RANKS; i++)
    if (!workers_start_one(of, i)) return false;
  return true;
}

static bool workers_order_all(workers *of, const plan_world *world) {
  state_wipe(of->state);
  for (int rank = 0; rank < world->size; rank++) {
    worker *one = &of->all[world->worker[rank]];
    workers_order order = {world->number, rank};
    one->rank = rank;
    if (send(one->line, &order, sizeof order, MSG_NOSIGNAL) != (ssize_t)sizeof order) return false;
  }
  return true;
}

/* Who has ended must be the victim of a fault that kills. */
static bool workers_replace(workers *of, int index, const plan_world *world) {
  worker *one = &of->all[index];
  int status = 0;
  waitpid(one->process, &status, 0);
  close(one->line);
  one->line = -1;
  one->process = -1;
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  bool doomed = plan_fault_family(world->fault.kind) == PLAN_FAMILY_KILLED;
  if (killed && doomed && one->rank == world->fault.rank) return workers_start_one(of, index);
  fprintf(stderr, "soak: rank %d of world %llu ended with status %#x\n", one->rank,
          (unsigned long long)world->number, (unsigned)status);
  return false;
}

/* Takes the answer of one, or its end. */
static bool workers_receive(workers *of, int index, const plan_world *world) {
  char answer = 'n';
  ssize_t got = read(of->all[index].line, &answer, 1);
  if (got < 0 && errno == EINTR) return true;
  if (got < 1) return workers_replace(of, index, world);
  of->all[index].rank = -1;
  return answer == 'y';
}

static int workers_playing(const workers *of) {
  int playing = 0;
  for (int i = 0; i < PLAN_RANKS; i++) playing += of->all[i].rank >= 0;
  return playing;
}

/* The victim goes on when it has been stopped and the others have finished without it. */
static void workers_continue(const workers *of, const plan_world *world) {
  const worker *victim = &of->all[world->worker[world->fault.rank]];
  siginfo_t stopped = {0};
  bool stops = plan_fault_family(world->fault.kind) == PLAN_FAMILY_STOPPED;
  if (!stops || workers_playing(of) > 1 || victim->rank < 0) return;
  waitid(P_PID, (id_t)victim->process, &stopped, WSTOPPED | WNOHANG);
  if (stopped.si_pid != victim->process) return;
  atomic_store(&of->state->over, true);
  kill(victim->process, SIGCONT);
}

static void workers_report_hang(const workers *of, const plan_world *world) {
  for (int i = 0; i < PLAN_RANKS; i++)
    if (of->all[i].rank >= 0)
      fprintf(stderr, "soak: rank %d of world %llu (process %d) has not finished\n",
              of->all[i].rank, (unsigned long long)world->number, (int)of->all[i].process);
}

/* After a failure the others get a moment to report. */
bool workers_play(workers *of, const plan_world *world) {
  bool good = workers_order_all(of, world);
  uint64_t give_up = state_now() + WORKERS_WORLD_MS * UINT64_C(1000000);
  while (workers_playing(of) > 0 && state_now() < give_up) {
    struct pollfd entries[PLAN_RANKS];
    for (int i = 0; i < PLAN_RANKS; i++)
      entries[i] = (struct pollfd){of->all[i].rank >= 0 ? of->all[i].line : -1, POLLIN, 0};
    workers_continue(of, world);
    if (poll(entries, PLAN_RANKS, workers_playing(of) > 1 && good ? 1000 : 20) < 0) continue;
    for (int i = 0; i < PLAN_RANKS; i++) {
      if (entries[i].revents == 0 || workers_receive(of, i, world)) continue;
      of->all[i].rank = -1;
      if (good) give_up = state_now() + WORKERS_LAST_WORDS_MS * UINT64_C(1000000);
      good = false;
    }
  }
  if (workers_playing(of) > 0 && good) workers_report_hang(of, world);
  return good && workers_playing(of) == 0;
}

/* One that has no world to play has no reason to end. */
static void worker_report_end(const worker *one) {
  int status;
  if (one->process > 0 && one->rank < 0 && waitpid(one->process, &status, WNOHANG) > 0)
    fprintf(stderr, "soak: process %d has ended between two worlds with status %#x\n",
            (int)one->process, (unsigned)status);
}

void workers_end(workers *of) {
  for (int i = 0; i < PLAN_RANKS; i++) {
    worker *one = &of->all[i];
    worker_report_end(one);
    if (one->process > 0 && one->rank >= 0) kill(one->process, SIGKILL);
    if (one->line >= 0) close(one->line);
    if (one->process > 0) waitpid(one->process, NULL, 0);
    *one = (worker){-1, -1, -1};
  }
}
