/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmix/connection.h"
#include "pmix/job_info.h"
#include "pmix/module.h"

enum { SERVER_OPTIONS = 2, SERVER_PATIENCE_S = 1 };

/* ---- Waiting for callbacks ---------------------------------------------------------------- */

typedef struct server_gate {
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  bool open;
  pmix_status_t status;
} server_gate;

#define SERVER_GATE {.mutex = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER}

static void server_open_gate(pmix_status_t status, void *arg) {
  server_gate *gate = arg;
  pthread_mutex_lock(&gate->mutex);
  gate->open = true;
  gate->status = status;
  pthread_cond_signal(&gate->opened);
  pthread_mutex_unlock(&gate->mutex);
}

/* The result of a call that returned `status`, and calls back where that promises it. */
static pmix_status_t server_await(server_gate *gate, pmix_status_t status) {
  if (status == PMIX_OPERATION_SUCCEEDED) return PMIX_SUCCESS;
  if (status != PMIX_SUCCESS) return status;
  pthread_mutex_lock(&gate->mutex);
  while (!gate->open) pthread_cond_wait(&gate->opened, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
  return gate->status;
}

/* ---- Starting ----------------------------------------------------------------------------- */

static void server_check(pmix_status_t status, const char *call) {
  char text[RING_PMIX_PROBLEM];
  if (status == PMIX_SUCCESS) return;
  snprintf(text, sizeof text, "%s of PMIx %.60s failed with %s", call, PMIx_Get_version(),
           PMIx_Error_string(status));
  const ring_pmix_message message = {.bytes = text, .length = strlen(text)};
  ring_pmix_connection_send(RING_PMIX_REFUSED, &message);
  ring_pmix_connection_fail(text);
}

static void server_init(const ring_pmix_job *job) {
  pmix_info_t info[SERVER_OPTIONS];
  PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, job->directory, PMIX_STRING);
  PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, job->directory, PMIX_STRING);
  server_check(PMIx_server_init(ring_pmix_module(job), info, SERVER_OPTIONS), "PMIx_server_init");
  for (int i = 0; i < SERVER_OPTIONS; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

static void server_register(const ring_pmix_job *job) {
  size_t count;
  int local;
  server_gate gate = SERVER_GATE;
  pmix_info_t *info = ring_pmix_job_info_make(job, &count, &local);
  if (info == NULL) server_check(PMIX_ERR_NOMEM, "the job's map");
  pmix_status_t status =
      PMIx_server_register_nspace(job->name, local, info, count, server_open_gate, &gate);
  server_check(server_await(&gate, status), "PMIx_server_register_nspace");
  PMIX_INFO_FREE(info, count);
}

static void server_register_program(const pmix_proc_t *program) {
  server_gate gate = SERVER_GATE;
  pmix_status_t status =
      PMIx_server_register_client(program, getuid(), getgid(), NULL, server_open_gate, &gate);
  server_check(server_await(&gate, status), "PMIx_server_register_client");
}

/* Sends the environment of a program. */
static void server_send_environment(const pmix_proc_t *program) {
  char **entries = NULL, *bytes = NULL;
  ring_pmix_message message = {.rank = (int32_t)program->rank};
  server_check(PMIx_server_setup_fork(program, &entries), "PMIx_server_setup_fork");
  FILE *stream = open_memstream(&bytes, &message.length);
  for (char **entry = entries; entry != NULL && *entry != NULL; entry++) {
    if (stream != NULL) fwrite(*entry, 1, strlen(*entry) + 1, stream);
    free(*entry);
  }
  free(entries);
  if (stream == NULL || fclose(stream) != 0) ring_pmix_connection_fail("out of memory");
  message.bytes = bytes;
  ring_pmix_connection_send(RING_PMIX_ENVIRONMENT, &message);
  free(bytes);
}

void ring_pmix_server_start(const ring_pmix_job *job) {
  const ring_pmix_message ready = {0};
  pmix_proc_t program;
  server_init(job);
  server_register(job);
  for (int rank = 0; rank < job->size; rank++) {
    if (job->nodes[rank] != job->host) continue;
    PMIX_LOAD_PROCID(&program, job->name, (pmix_rank_t)rank);
    server_register_program(&program);
    server_send_environment(&program);
  }
  ring_pmix_connection_send(RING_PMIX_READY, &ready);
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* PMIx 4.2 may never call back when a program was killed while it connected. */
void ring_pmix_server_end(const ring_pmix_job *job) {
  static server_gate gate = SERVER_GATE;
  struct timespec until;
  int code = 0;
  PMIx_server_deregister_nspace(job->name, server_open_gate, &gate);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += SERVER_PATIENCE_S;
  pthread_mutex_lock(&gate.mutex);
  while (!gate.open && code == 0) code = pthread_cond_timedwait(&gate.opened, &gate.mutex, &until);
  pthread_mutex_unlock(&gate.mutex);
}
