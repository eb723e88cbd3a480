/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Who dies before it has met anybody is missed when time runs out. */
#define FAULT_OPEN_SECONDS 3.0
#define FAULT_DISAGREEING_SECONDS 3.0
#define FAULT_SECONDS 60.0

bool fault_dooms(const plan_world *world, bool child, int victim, int size) {
  const plan_fault *fault = &world->fault;
  bool ends = fault->kind == PLAN_FAULT_ABORTS || fault->kind == PLAN_FAULT_DROPS;
  if (fault->kind == PLAN_FAULT_NONE || victim < 0) return false;
  if (size < 2 && !ends) return false; /* nobody is there to notice */
  return plan_fault_kills(fault->kind) || world->calls[fault->round].child == child;
}

void fault_mark(board *board, int delay_us) {
  atomic_store(&board->struck, board_now() + (uint64_t)delay_us * 1000);
}

void fault_die(board *board) {
  fault_mark(board, 0);
  kill(getpid(), SIGKILL);
}

void fault_die_later(board *board, int delay_us) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {.it_value = {delay_us / 1000000, delay_us % 1000000 * 1000 + 1}};
  timer_t timer;
  fault_mark(board, delay_us);
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      timer_settime(timer, 0, &when, NULL) != 0)
    fault_die(board);
}

double fault_open_timeout(const plan_world *world) {
  return world->fault.kind == PLAN_FAULT_DIES_OPENING ? FAULT_OPEN_SECONDS : FAULT_SECONDS;
}

bool fault_drags(const plan_world *world) {
  plan_fault_kind kind = world->fault.kind;
  return kind == PLAN_FAULT_DIFFERS || kind == PLAN_FAULT_SKIPS || kind == PLAN_FAULT_LEAVES;
}

double fault_call_timeout(const plan_world *world) {
  return fault_drags(world) ? FAULT_DISAGREEING_SECONDS : FAULT_SECONDS;
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

static bool fault_is_expected(const fault_case *of, const ring_error *error) {
  bool named = error->rank == of->victim || fault_names(error->message, of->victim);
  switch (of->world->fault.kind) {
  case PLAN_FAULT_DIES:
  case PLAN_FAULT_DIES_LATER:
  case PLAN_FAULT_DIES_OPENING:
    if (of->phase == FAULT_OPENING && error->status == RING_TIMEOUT) return named;
    return error->status == RING_PEER_LOST && (named || of->phase == FAULT_SPLITTING);
  case PLAN_FAULT_ABORTS:
  case PLAN_FAULT_DROPS:
    return error->status == RING_ABORTED && error->rank == of->victim;
  default:
    return error->status == RING_TIMEOUT || (error->status == RING_MISMATCH && named);
  }
}

static bool fault_refuse(const ring_error *error, const char *because, char *why, size_t size) {
  snprintf(why, size, "%s: %s, rank %d: %s", because, ring_status_name(error->status), error->rank,
           error->message);
  return false;
}

/* Seconds that may pass before the error. */
static double fault_limit(const fault_case *of, bool by_timeout) {
  if (!by_timeout) return of->patience;
  bool opening = of->phase == FAULT_OPENING;
  return of->patience + (opening ? fault_open_timeout(of->world) : fault_call_timeout(of->world));
}

bool fault_judge(const fault_case *of, const ring_error *error, fault_finding *finding, char *why,
                 size_t size) {
  uint64_t struck = atomic_load(&of->board->struck), now = board_now();
  uint64_t since = struck > of->begun ? struck : of->begun;
  char late[64];
  finding->ns = now > since ? now - since : 0;
  finding->by_timeout = error->status == RING_TIMEOUT;
  bool dragged = finding->by_timeout && fault_drags(of->world);
  if (!of->doomed && !dragged) return fault_refuse(error, "failed without a reason", why, size);
  if (struck == 0) return fault_refuse(error, "failed before the fault", why, size);
  if (!fault_is_expected(of, error))
    return fault_refuse(error, "failed with another error than the fault's", why, size);
  if ((double)finding->ns <= fault_limit(of, finding->by_timeout) * 1e9) return true;
  snprintf(late, sizeof late, "failed only after %.3f s", (double)finding->ns * 1e-9);
  return fault_refuse(error, late, why, size);
}
