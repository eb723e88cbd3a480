/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"
#include "load.h"

/* The deadlines of worlds whose faults are found by them, on a machine that does nothing else. A rank that
 * dies before it is connected to any other is missed when time runs out. */
#define FAULT_OPEN_SECONDS 2.5
#define FAULT_STOPPED_SECONDS 2.0
#define FAULT_DISAGREEING_SECONDS 3.0
#define FAULT_SECONDS 60.0

/* How much longer these deadlines are here: on a busy machine a rank at work is as late as a stopped one. */
static double fault_stretch = 1;

void fault_expect_load(void) {
  fault_stretch = load_stretch(2.5);
}

bool fault_dooms(const plan_world *world, bool child, int victim, int size) {
  const plan_fault *fault = &world->fault;
  bool ends = fault->kind == PLAN_FAULT_ABORTS || fault->kind == PLAN_FAULT_DROPS;
  if (fault->kind == PLAN_FAULT_NONE || victim < 0) return false;
  if (size < 2 && !ends) return false; /* nobody is there to wait report */
  plan_family family = plan_fault_family(fault->kind);
  if (family == PLAN_FAMILY_KILLED || family == PLAN_FAMILY_STOPPED) return true;
  return world->calls[fault->round].child == child;
}

void fault_mark(state *state, int delay_us) {
  atomic_store(&state->struck, state_now() + (uint64_t)delay_us * 1000);
}

void fault_die(state *state) {
  fault_mark(state, 0);
  kill(getpid(), SIGKILL);
}

/* When the victim went on, or 0. */
static _Atomic uint64_t fault_resumed;

static void fault_continued(int signal) {
  (void)signal;
  atomic_store(&fault_resumed, state_now());
}

/* A timer of the process's own, and not of a child that watches it: its moment is exact to the
 * microsecond. It is gone with the process, or when it has gone off and fault_await deletes it. */
static timer_t fault_timer;

void fault_strike_later(const plan_fault *fault, state *state) {
  bool stops = plan_fault_family(fault->kind) == PLAN_FAMILY_STOPPED;
  int us = fault->delay_us;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = stops ? SIGSTOP : SIGKILL};
  struct itimerspec when = {.it_value = {us / 1000000, us % 1000000 * 1000 + 1}};
  struct sigaction action = {.sa_handler = fault_continued};
  atomic_store(&fault_resumed, 0);
  sigaction(SIGCONT, &action, NULL);
  fault_mark(state, us);
  if (timer_create(CLOCK_MONOTONIC, &event, &fault_timer) != 0 ||
      timer_settime(fault_timer, 0, &when, NULL) != 0)
    fault_die(state);
}

void fault_await(const plan_fault *fault) {
  const struct timespec moment = {.tv_nsec = 1000000};
  bool stops = plan_fault_family(fault->kind) == PLAN_FAMILY_STOPPED;
  while (!stops || atomic_load(&fault_resumed) == 0) nanosleep(&moment, NULL);
  timer_delete(fault_timer);
}

double fault_open_timeout(const plan_world *world) {
  bool opening = plan_fault_moment(world->fault.kind) == PLAN_MOMENT_OPENING;
  return opening ? FAULT_OPEN_SECONDS * fault_stretch : FAULT_SECONDS;
}

bool fault_drags(const plan_world *world) {
  plan_family family = plan_fault_family(world->fault.kind);
  return family == PLAN_FAMILY_DISAGREES || family == PLAN_FAMILY_STOPPED;
}

double fault_call_timeout(const plan_world *world) {
  switch (plan_fault_family(world->fault.kind)) {
  case PLAN_FAMILY_STOPPED:
    return FAULT_STOPPED_SECONDS * fault_stretch;
  case PLAN_FAMILY_DISAGREES:
    return FAULT_DISAGREEING_SECONDS * fault_stretch;
  default:
    return FAULT_SECONDS;
  }
}

/* ---- Judging ------------------------------------------------------------------------------ */

/* Whether the text has "rank 3" with nothing but the end of the number behind it. */
static bool fault_names(const char *text, int rank) {
  char name[32];
  size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
  for (const char *at = text; (at = strstr(at, name)) != NULL; at += length)
    if (strchr("0123456789", at[length]) == NULL || at[length] == '\0') return true;
  return false;
}

/* The victim's rank and, where it was lost, its host and what the others were calling. */
static bool fault_names_all(const fault_case *of, const ring_error *error) {
  char host[24];
  const char *text = error->message;
  bool calls = strstr(text, " as call ") != NULL || strstr(text, "message ") != NULL;
  snprintf(host, sizeof host, "127.0.0.%d", 1 + of->world->host[of->world->fault.rank]);
  if (!fault_names(text, of->victim)) return false;
  if (error->status != RING_PEER_LOST) return true;
  return strstr(text, host) != NULL && (calls || of->phase == FAULT_OPENING);
}

/* Whether a deadline had to pass: this rank's own or that of others, which timed out for it. */
static bool fault_took_long(const ring_error *error) {
  bool missed = error->status == RING_ABORTED &&
                strstr(error->message, "timed out waiting for this rank") != NULL;
  return error->status == RING_TIMEOUT || missed;
}

/* A victim that goes on after the others have timed out gets their error, unless it was connected to nobody
 * when it was stopped or has a link to nobody, and nobody is left to connect to, or its links were so full
 * that nothing could be sent. The others name it among those they missed, but in a world that splits: a rank
 * that waits for it on the other communicator is missed, too, may be the first of them, also in the victim's
 * error, and may hide the victim, or miss it where the victim has no part. A rank that has timed out for it
 * in a split, where texts have the numbers of the child, drops the parent, and reports why; this may come
 * before a rank's own time is over. */
static bool fault_stop_is_expected(const fault_case *of, const ring_error *error, bool named) {
  bool waited = error->status == RING_TIMEOUT, lost = error->status == RING_PEER_LOST;
  bool splits = of->phase == FAULT_SPLITTING;
  int inside = splits ? plan_child_rank(of->world, of->world->fault.rank) : of->victim;
  bool elsewhere = of->world->splits && error->rank != of->victim;
  if (of->own && waited) return of->phase == FAULT_OPENING || elsewhere;
  if (of->own && lost)
    return strstr(error->message, "nothing listens on its port") != NULL ||
           strstr(error->message, "it ended the connection") != NULL ||
           error->system_errno == ECONNRESET;
  if (of->own) return error->status == RING_ABORTED;
  if (of->world->splits && fault_took_long(error)) return true;
  if (!of->doomed) return false;
  /* A pending connection that rank 0, starved, could not answer in time knows that some are missing, and not which. */
  bool unknown = of->phase == FAULT_OPENING && error->rank < 0;
  named = named || unknown || fault_names(error->message, inside);
  if (of->world->splits && error->status == RING_ABORTED) return error->rank != of->victim && named;
  return (waited || lost) && named;
}

/* A rank that was killed while opening is missed at the deadline if nobody was connected to it; and if an
 * exchange was under way, that failed. */
static bool fault_kill_is_expected(const fault_case *of, const ring_error *error, bool named) {
  const char *text = error->message;
  bool opening = of->phase == FAULT_OPENING;
  bool unmet = strstr(text, "ranks joined within") != NULL ||
               (strstr(text, "did not find rank 0") != NULL && strstr(text, "went away") == NULL);
  if (opening && error->status == RING_TIMEOUT) return named && unmet && !of->world->exchanges;
  if (opening && error->status == RING_ABORTED)
    return of->world->exchanges && exchange_is_broken(of->world, of->state);
  return error->status == RING_PEER_LOST && fault_names_all(of, error);
}

static bool fault_is_expected(const fault_case *of, const ring_error *error) {
  bool named = error->rank == of->victim || fault_names(error->message, of->victim);
  switch (plan_fault_family(of->world->fault.kind)) {
  case PLAN_FAMILY_KILLED:
    return fault_kill_is_expected(of, error, named);
  case PLAN_FAMILY_STOPPED:
    return fault_stop_is_expected(of, error, named);
  case PLAN_FAMILY_ENDED:
    return error->status == RING_ABORTED && error->rank == of->victim;
  default:
    return fault_took_long(error) || (error->status == RING_MISMATCH && named);
  }
}

static bool fault_refuse(const ring_error *error, const char *because, char *why, size_t size) {
  snprintf(why, size, "%s: %s, rank %d: %s", because, ring_status_name(error->status), error->rank,
           error->message);
  return false;
}

/* Seconds after which the error is due. */
static double fault_due(const fault_case *of, bool by_timeout) {
  bool stopped = plan_fault_family(of->world->fault.kind) == PLAN_FAMILY_STOPPED;
  if (!by_timeout && !stopped) return 0;
  bool opening = of->phase == FAULT_OPENING;
  return opening ? fault_open_timeout(of->world) : fault_call_timeout(of->world);
}

bool fault_judge(const fault_case *of, const ring_error *error, fault_finding *finding, char *why,
                 size_t size) {
  uint64_t struck = atomic_load(&of->state->struck), now = state_now();
  uint64_t since = struck > of->begun ? struck : of->begun;
  uint64_t resumed = of->own ? atomic_load(&fault_resumed) : 0;
  if (resumed > since) since = resumed;
  char late[64];
  finding->ns = now > since ? now - since : 0;
  finding->by_timeout = fault_took_long(error);
  uint64_t due = (uint64_t)(fault_due(of, finding->by_timeout) * 1e9);
  finding->late_ns = finding->ns > due ? finding->ns - due : 0;
  finding->named = fault_names_all(of, error);
  bool dragged = finding->by_timeout && fault_drags(of->world);
  if (!of->doomed && !dragged) return fault_refuse(error, "failed without a reason", why, size);
  if (struck == 0) return fault_refuse(error, "failed before the fault", why, size);
  if (!fault_is_expected(of, error))
    return fault_refuse(error, "failed with another error than the fault's", why, size);
  if ((double)finding->late_ns <= UNLOADED(of->patience) * 1e9) return true;
  snprintf(late, sizeof late, "failed only after %.3f s", (double)finding->ns * 1e-9);
  return fault_refuse(error, late, why, size);
}
