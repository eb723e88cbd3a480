/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of sparkring_pmi.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd_registry.h"
#include "base/platform.h"
#include "messages/state.h"
#include "pmi/pmi_server.h"
#include "pmi/process_mapping.h"

#define PMI_PATIENCE_S 1e9 /* close has no deadline: a program takes as long as it takes */
#define PMI_SLICE_MS 100

static bool pmi_is_mine(const ring_pmi *pmi) {
  return pmi->process == ring_platform_process();
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* The two ends of the connection. The server's end is registered: a forked child releases it. 0 or an errno. */
static int pmi_connect(ring_pmi *pmi) {
  int ends[2];
  ring_fd_begin();
  int code = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno;
  pmi->fd = ring_fd_end(code == 0 ? ends[0] : -1);
  if (code == 0) pmi->program_fd = ends[1];
  return code;
}

static void pmi_write_environment(ring_pmi *pmi) {
  const ring_comm *comm = pmi->messages->comm;
  const struct {
    const char *name;
    int value;
  } variables[RING_PMI_VARIABLES] = {{"PMI_FD", pmi->program_fd},
                                     {"PMI_RANK", pmi->rank},
                                     {"PMI_SIZE", ring_comm_size(comm)},
                                     {"MPI_LOCALRANKID", ring_comm_local_rank(comm)},
                                     {"MPI_LOCALNRANKS", ring_comm_local_size(comm)}};
  for (int i = 0; i < RING_PMI_VARIABLES; i++) {
    snprintf(pmi->texts[i], sizeof pmi->texts[i], "%s=%d", variables[i].name, variables[i].value);
    pmi->environment[i] = pmi->texts[i];
  }
}

/* What the program finds in the key-value space from the start. False without memory. */
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
  if (code != 0) return code;
  pmi_write_environment(pmi);
  return pmi_fill_space(pmi) ? ring_pmi_server_begin(pmi) : ENOMEM;
}

/* A server that is not begun; NULL without memory. */
static ring_pmi *pmi_make(ring_messages *messages) {
  ring_pmi *pmi = calloc(1, sizeof *pmi);
  if (pmi == NULL) return NULL;
  pmi->process = ring_platform_process();
  pmi->messages = messages;
  pmi->rank = messages->rank;
  pmi->fd = pmi->program_fd = -1;
  pmi->failure.rank = -1;
  pthread_mutex_init(&pmi->mutex, NULL);
  ring_platform_condition_init(&pmi->changed);
  return pmi;
}

ring_status ring_pmi_serve(ring_comm *comm, ring_pmi **pmi) {
  ring_messages *messages;
  if (comm == NULL || pmi == NULL) return RING_INVALID;
  *pmi = NULL;
  ring_status status = ring_messages_open(comm, &messages);
  if (status != RING_OK) return status;
  ring_pmi *made = pmi_make(messages);
  int code = made != NULL ? pmi_begin(made) : ENOMEM;
  if (code == 0) {
    *pmi = made;
    return RING_OK;
  }
  int rank = ring_comm_rank(comm);
  ring_messages_abort(messages, "it has no memory, descriptors or thread for a PMI server");
  if (made != NULL)
    ring_pmi_free(made);
  else
    ring_messages_free(messages);
  return ring_error_set(&comm->error, RING_SYSTEM, rank, code,
                        "rank %d (%s) cannot start a PMI server", rank, ring_comm_host(comm, rank));
}

/* ---- The program -------------------------------------------------------------------------- */

const char *const *ring_pmi_environment(const ring_pmi *pmi) {
  return pmi->environment;
}

int ring_pmi_fd(const ring_pmi *pmi) {
  return pmi->program_fd;
}

void ring_pmi_started(ring_pmi *pmi) {
  if (pmi->program_fd >= 0) close(pmi->program_fd);
  pmi->program_fd = -1;
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

const ring_error *ring_pmi_error(const ring_pmi *pmi) {
  return &pmi->failure;
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

static void pmi_join(ring_pmi *pmi) {
  if (pmi->threaded) pthread_join(pmi->thread, NULL);
  pmi->threaded = false;
  ring_pmi_server_end(pmi);
}

/* The servers of all ranks are over, and nothing is under way. */
static ring_status pmi_close_messages(ring_pmi *pmi) {
  ring_status status = ring_messages_close(pmi->messages);
  if (status != RING_OK) pmi->failure = *ring_messages_error(pmi->messages);
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
  ring_status status = pmi_await_close(pmi, &wait);
  bool interrupted = !pmi->over && status != RING_OK;
  pthread_mutex_unlock(&pmi->mutex);
  if (interrupted) {
    ring_wait_aborted(&wait, pmi->rank, "the wait for the programs of the ranks", &error);
    ring_pmi_server_break(pmi, &error);
  }
  pmi_join(pmi);
  if (pmi->failure.status != RING_OK) return pmi->failure.status;
  return pmi->messages->closed ? RING_OK : pmi_close_messages(pmi);
}

void ring_pmi_abort(ring_pmi *pmi, const char *reason) {
  if (pmi == NULL || !pmi_is_mine(pmi) || !pmi->threaded) return;
  ring_pmi_server_fail(pmi, RING_ABORTED, pmi->rank,
                       reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
  pthread_mutex_lock(&pmi->mutex);
  pmi_await_end(pmi);
  pthread_mutex_unlock(&pmi->mutex);
}

void ring_pmi_free(ring_pmi *pmi) {
  if (pmi == NULL) return;
  ring_pmi_started(pmi);
  if (!pmi_is_mine(
          pmi)) { /* a forked child: the thread is not there, and may have held the mutex */
    if (pmi->fd >= 0) ring_fd_close(pmi->fd);
    pmi->fd = -1;
    ring_messages_free(pmi->messages);
    pmi->messages = NULL;
    return;
  }
  ring_pmi_abort(pmi, "the PMI server was freed before it was closed");
  pmi_join(pmi);
  ring_messages_free(pmi->messages);
  pthread_mutex_destroy(&pmi->mutex);
  pthread_cond_destroy(&pmi->changed);
  free(pmi);
}
