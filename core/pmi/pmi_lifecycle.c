/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of sparkring_pmi.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/environment.h"
#include "base/error.h"
#include "base/fd_registry.h"
#include "base/platform.h"
#include "messages/message_progress.h"
#include "pmi/pmi_failure.h"
#include "pmi/pmi_links.h"
#include "pmi/pmi_server.h"
#include "pmi/pmix_start.h"
#include "pmi/process_mapping.h"

#define PMI_PATIENCE_S 1e9 /* close has no deadline */
#define PMI_SLICE_MS 100

static bool pmi_is_mine(const ring_pmi *pmi) {
  return pmi->process == ring_platform_process();
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* The two ends of the connection. Both are registered: a forked child that kept one would hide the end of server or
 * program. 0 or an errno. */
static int pmi_connect(ring_pmi *pmi) {
  int ends[2];
  ring_fd_begin();
  int code = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno;
  if (code == 0) ring_fd_add(pmi->program_fd = ends[1]);
  pmi->fd = ring_fd_end(code == 0 ? ends[0] : -1);
  return code;
}

/* The pipe that wakes the thread, of which no end blocks. 0 or an errno. */
static int pmi_make_wakeup(ring_pmi *pmi) {
  int ends[2];
  int code = ring_platform_pipe(ends);
  for (int i = 0; i < 2 && code == 0; i++) {
    pmi->wakeup[i] = ends[i];
    fcntl(ends[i], F_SETFL, O_NONBLOCK);
  }
  return code;
}

/* The variables of PMI-1, and behind them those of PMIx. False without memory. */
static bool pmi_write_environment(ring_pmi *pmi) {
  const ring_comm *comm = pmi->messages->comm;
  const struct {
    const char *name;
    int value;
  } variables[RING_PMI_VARIABLES] = {{"PMI_FD", pmi->program_fd},
                                     {"PMI_RANK", pmi->rank},
                                     {"PMI_SIZE", ring_comm_size(comm)},
                                     {"MPI_LOCALRANKID", ring_comm_local_rank(comm)},
                                     {"MPI_LOCALNRANKS", ring_comm_local_size(comm)},
                                     {RING_ENVIRONMENT_PROGRAM, 1}};
  const char *more = pmi->pmix.environment.bytes;
  size_t count = RING_PMI_VARIABLES, more_bytes = pmi->pmix.environment.length;
  for (size_t at = 0; at < more_bytes; at++) count += more[at] == '\0';
  pmi->environment = calloc(count + 1, sizeof(*pmi->environment));
  if (pmi->environment == NULL) return false;
  for (size_t at = 0, i = RING_PMI_VARIABLES; at < more_bytes; at += strlen(more + at) + 1)
    pmi->environment[i++] = more + at;
  for (int i = 0; i < RING_PMI_VARIABLES; i++) {
    snprintf(pmi->texts[i], sizeof pmi->texts[i], "%s=%d", variables[i].name, variables[i].value);
    pmi->environment[i] = pmi->texts[i];
  }
  return true;
}

/* Fills the key-value space with the pairs that the program finds at its start. False without memory. */
static bool pmi_fill_space(ring_pmi *pmi) {
  const ring_comm *comm = pmi->messages->comm;
  ring_pmi_protocol *protocol = &pmi->protocol;
  char mapping[RING_PMI_VALUE_MOST + 1];
  protocol->rank = pmi->rank;
  protocol->size = ring_comm_size(comm);
  snprintf(protocol->space, sizeof protocol->space, "sparkring_%" PRIx64, ring_comm_epoch(comm));
  if (ring_process_mapping(comm->topology.nodes, protocol->size, mapping, sizeof mapping) &&
      !ring_key_values_put(&protocol->values, "PMI_process_mapping", mapping))
    return false;
  protocol->values.fenced = protocol->values.length;
  return true;
}

/* 0 or an errno. */
static int pmi_begin(ring_pmi *pmi) {
  int code = pmi_connect(pmi);
  if (code == 0) code = pmi_make_wakeup(pmi);
  if (code != 0) return code;
  return pmi_fill_space(pmi) ? ring_pmi_server_begin(pmi) : ENOMEM;
}

/* A server that is not begun; NULL without memory. */
static ring_pmi *pmi_make(const ring_comm *comm) {
  ring_pmi *pmi = calloc(1, sizeof *pmi);
  if (pmi == NULL) return NULL;
  pmi->process = ring_platform_process();
  pmi->rank = ring_comm_rank(comm);
  pmi->fd = pmi->program_fd = pmi->wakeup[0] = pmi->wakeup[1] = -1;
  pmi->failure.rank = -1;
  pthread_mutex_init(&pmi->mutex, NULL);
  ring_platform_condition_init(&pmi->changed);
  return pmi;
}

static void pmi_destroy(ring_pmi *pmi) {
  pthread_mutex_destroy(&pmi->mutex);
  pthread_cond_destroy(&pmi->changed);
  free(pmi->environment);
  free(pmi->pmix.environment.bytes);
  free(pmi);
}

/* Frees a server that has not served. Its thread waits for the links. */
static void pmi_discard(ring_pmi *pmi) {
  if (pmi == NULL) return;
  ring_pmi_server_cancel(pmi);
  if (pmi->messages != NULL) ring_pmi_server_end(pmi);
  ring_pmix_end(&pmi->pmix);
  ring_pmi_started(pmi);
  pmi_destroy(pmi);
}

/* Opens the links. Not RING_OK where any rank has no server: comm->error explains. */
static ring_status pmi_agree(ring_comm *comm, ring_messages *messages, ring_pmi *pmi, int code) {
  ring_pmi_report report = {.code = code, .rank = messages->rank};
  if (pmi != NULL) memcpy(report.problem, pmi->pmix.problem, sizeof report.problem);
  ring_status status = ring_pmi_open_links(messages, &report);
  if (status != RING_OK) {
    comm->error = *ring_messages_error(messages);
    return status;
  }
  if (report.code != 0)
    return ring_error_set(&comm->error, RING_SYSTEM, report.rank, report.code,
                          "rank %d (%s) cannot start a PMI server", report.rank,
                          ring_comm_host(comm, report.rank));
  if (pmi != NULL) memcpy(pmi->pmix.problem, report.problem, sizeof report.problem);
  return RING_OK;
}

/* PMIx is served on all hosts, or on none. A rank that fails has all ranks fail. */
static ring_status pmi_finish_pmix(ring_comm *comm, ring_pmi *pmi) {
  ring_error error;
  ring_status status = RING_OK;
  if (pmi->pmix.problem[0] == '\0')
    status = ring_pmix_start_finish(&pmi->pmix, pmi->messages, &pmi->control, &error);
  else
    ring_pmix_end(&pmi->pmix);
  if (status == RING_OK && !pmi_write_environment(pmi))
    status = ring_pmi_failure_no_memory(&error, pmi->messages);
  if (status == RING_OK) return RING_OK;
  ring_messages_fail(pmi->messages, &error);
  comm->error = error;
  return status;
}

ring_status ring_pmi_serve(ring_comm *comm, int pmix, ring_pmi **pmi) {
  ring_messages *messages;
  if (comm == NULL || pmi == NULL) return RING_INVALID;
  *pmi = NULL;
  ring_pmi *made = pmi_make(comm);
  if (made != NULL) ring_pmix_start_begin(&made->pmix, comm, pmix != 0); /* goes on meanwhile */
  ring_status status = ring_messages_open(comm, &messages);
  if (status != RING_OK) {
    pmi_discard(made);
    return status;
  }
  if (made != NULL) made->messages = messages;
  int code = made != NULL ? pmi_begin(made) : ENOMEM;
  status = pmi_agree(comm, messages, made, code);
  if (status == RING_OK && made != NULL) status = pmi_finish_pmix(comm, made);
  if (status == RING_OK && made != NULL) {
    ring_pmi_server_run(made);
    *pmi = made;
    return RING_OK;
  }
  pmi_discard(made);
  ring_messages_close(messages); /* on all ranks: none may fail them before all have the reason */
  ring_messages_free(messages);
  return status;
}

/* ---- The program -------------------------------------------------------------------------- */

const char *const *ring_pmi_environment(const ring_pmi *pmi) {
  return pmi->environment;
}

const char *ring_pmi_pmix_problem(const ring_pmi *pmi) {
  return pmi->pmix.problem[0] != '\0' ? pmi->pmix.problem : NULL;
}

int ring_pmi_fd(ring_pmi *pmi) {
  if (!pmi_is_mine(pmi)) return -1;
  pthread_mutex_lock(&pmi->mutex);
  int fd = pmi->program_fd;
  pthread_mutex_unlock(&pmi->mutex);
  return fd;
}

/* Called with the mutex, or in a forked child. */
static void pmi_close_program_fd(ring_pmi *pmi) {
  if (pmi->program_fd >= 0) ring_fd_close(pmi->program_fd);
  pmi->program_fd = -1;
}

void ring_pmi_started(ring_pmi *pmi) {
  if (!pmi_is_mine(pmi)) return;
  pthread_mutex_lock(&pmi->mutex);
  pmi_close_program_fd(pmi);
  pthread_mutex_unlock(&pmi->mutex);
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* The status of a server that is over; RING_OK before. Called with the mutex. */
static ring_status pmi_status(const ring_pmi *pmi) {
  return pmi->over ? pmi->failure.status : RING_OK;
}

ring_status ring_pmi_test(ring_pmi *pmi, ring_pmi_state *state, int *exit_code) {
  if (pmi == NULL || !pmi_is_mine(pmi)) return RING_INVALID;
  pthread_mutex_lock(&pmi->mutex);
  if (state != NULL) *state = pmi->state;
  if (exit_code != NULL) *exit_code = pmi->exit_code;
  ring_status status = pmi_status(pmi);
  pthread_mutex_unlock(&pmi->mutex);
  return status;
}

const ring_error *ring_pmi_error(ring_pmi *pmi) {
  static const ring_error none = {.rank = -1};
  if (!pmi_is_mine(pmi)) return &none;
  pthread_mutex_lock(&pmi->mutex);
  bool failed = pmi_status(pmi) != RING_OK; /* and so nothing writes the failure any more */
  pthread_mutex_unlock(&pmi->mutex);
  return failed ? &pmi->failure : &none;
}

/* Waits for the end of the thread. Called with the mutex. */
static void pmi_await_end(ring_pmi *pmi) {
  while (!pmi->over) ring_platform_condition_wait(&pmi->changed, &pmi->mutex, PMI_SLICE_MS);
}

/* Waits until the servers have ended, unless a hook ends the wait. Called with the mutex. */
static ring_status pmi_await_close(ring_pmi *pmi, ring_wait *wait) {
  ring_status status = RING_OK;
  while (!pmi->over && status == RING_OK) {
    ring_platform_condition_wait(&pmi->changed, &pmi->mutex, PMI_SLICE_MS);
    pthread_mutex_unlock(&pmi->mutex);
    status = ring_wait_check(wait);
    pthread_mutex_lock(&pmi->mutex);
  }
  return status;
}

/* The servers of all ranks are over, and nothing is under way. */
static ring_status pmi_close_messages(ring_pmi *pmi) {
  if (pmi->messages->closed || ring_messages_close(pmi->messages) == RING_OK) return RING_OK;
  pthread_mutex_lock(&pmi->mutex);
  ring_pmi_server_keep(pmi, ring_messages_error(pmi->messages));
  ring_status status = pmi_status(pmi);
  pthread_mutex_unlock(&pmi->mutex);
  return status;
}

ring_status ring_pmi_close(ring_pmi *pmi) {
  ring_wait wait;
  ring_error error;
  if (pmi == NULL || !pmi_is_mine(pmi)) return RING_INVALID;
  ring_pmi_started(pmi);
  comm_prepare_wait(pmi->messages->comm, PMI_PATIENCE_S, &wait);
  ring_wait_begin(&wait);
  pthread_mutex_lock(&pmi->mutex);
  pmi->closing = true;
  if (!pmi->over) ring_pmi_server_wake(pmi);
  ring_status status = pmi_await_close(pmi, &wait);
  bool interrupted = !pmi->over && status != RING_OK;
  pthread_mutex_unlock(&pmi->mutex);
  if (interrupted) {
    ring_wait_aborted(&wait, pmi->rank, "the wait for the programs of the ranks", &error);
    ring_messages_fail(pmi->messages, &error);
  }
  ring_pmi_server_end(pmi);
  pthread_mutex_lock(&pmi->mutex);
  status = pmi_status(pmi);
  pthread_mutex_unlock(&pmi->mutex);
  return status != RING_OK ? status : pmi_close_messages(pmi);
}

void ring_pmi_abort(ring_pmi *pmi, const char *reason) {
  ring_error error;
  if (pmi == NULL || !pmi_is_mine(pmi)) return;
  ring_pmi_failure_set(&error, pmi->messages, RING_ABORTED, pmi->rank, "%s",
                       reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
  ring_messages_fail(pmi->messages, &error);
  pthread_mutex_lock(&pmi->mutex);
  pmi_await_end(pmi);
  pthread_mutex_unlock(&pmi->mutex);
}

/* A forked child has no thread, and the mutex may be locked for ever. */
static void pmi_free_copy(ring_pmi *pmi) {
  if (pmi->fd >= 0) ring_fd_close(pmi->fd);
  pmi_close_program_fd(pmi);
  for (int i = 0; i < 2; i++)
    if (pmi->wakeup[i] >= 0) close(pmi->wakeup[i]);
  ring_pmix_process_forget(&pmi->pmix.process);
  ring_messages_free(pmi->messages);
  free(pmi->environment);
  free(pmi->pmix.environment.bytes);
  free(pmi);
}

void ring_pmi_free(ring_pmi *pmi) {
  if (pmi == NULL) return;
  if (!pmi_is_mine(pmi)) {
    pmi_free_copy(pmi);
    return;
  }
  ring_pmi_started(pmi);
  ring_pmi_abort(pmi, "the PMI server was freed before it was closed");
  ring_pmi_server_end(pmi);
  ring_messages_free(pmi->messages);
  pmi_destroy(pmi);
}
