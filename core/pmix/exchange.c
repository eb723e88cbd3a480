/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "pmix/connection.h"

/* A request of another lead, until PMIx has the data. */
typedef struct exchange_fetch {
  uint64_t ticket;
  int32_t lead;
} exchange_fetch;

static const ring_pmix_job *exchange_job;

void ring_pmix_exchange_begin(const ring_pmix_job *job) {
  exchange_job = job;
}

bool ring_pmix_exchange_has(const pmix_proc_t *program) {
  return PMIX_CHECK_NSPACE(program->nspace, exchange_job->name) &&
         program->rank < (pmix_rank_t)exchange_job->size;
}

/* Gives a copy of the data to PMIx. */
static void exchange_finish(const ring_pmix_request *request, const ring_pmix_message *answer) {
  bool good = answer->value == 1;
  char *copy = good && answer->length > 0 ? malloc(answer->length) : NULL;
  if (copy != NULL) memcpy(copy, answer->bytes, answer->length);
  bool whole = good && (answer->length == 0 || copy != NULL);
  request->back.modex(whole ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, copy,
                      copy != NULL ? answer->length : 0, request->arg, free, copy);
}

/* ---- Fences ------------------------------------------------------------------------------- */

static int exchange_compare_ranks(const void *a, const void *b) {
  int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
  return (first > second) - (first < second);
}

/* Fills ranks[], as a message has them, ascending, with the programs that take part. *taken: how many; 0: all. */
static pmix_status_t exchange_take_ranks(const pmix_proc_t procs[], size_t count, int32_t *ranks,
                                         size_t *taken) {
  for (size_t i = 0; i < count; i++) {
    if (!PMIX_CHECK_NSPACE(procs[i].nspace, exchange_job->name)) return PMIX_ERR_NOT_SUPPORTED;
    if (procs[i].rank == PMIX_RANK_WILDCARD) return PMIX_SUCCESS;
    if (!ring_pmix_exchange_has(&procs[i])) return PMIX_ERR_BAD_PARAM;
    ranks[i] = (int32_t)procs[i].rank;
  }
  qsort(ranks, count, sizeof *ranks, exchange_compare_ranks);
  for (size_t i = 0; i < count; i++) bytes_put((uint8_t *)&ranks[i], (uint32_t)ranks[i], 4);
  *taken = count;
  return PMIX_SUCCESS;
}

pmix_status_t ring_pmix_exchange_send(const ring_pmix_request *request, const pmix_proc_t procs[],
                                      size_t count, const char *name, const char *data,
                                      size_t length) {
  size_t taken = 0, name_bytes = strlen(name) + 1;
  if (count == 0 || count > (size_t)exchange_job->size) return PMIX_ERR_BAD_PARAM;
  if (length > RING_PMIX_MOST - count * sizeof(int32_t) - name_bytes)
    return PMIX_ERR_OUT_OF_RESOURCE;
  char *bytes = ring_pmix_connection_allocate(count * sizeof(int32_t) + name_bytes + length);
  pmix_status_t status = exchange_take_ranks(procs, count, (int32_t *)(void *)bytes, &taken);
  if (status == PMIX_SUCCESS) {
    char *to = bytes + taken * sizeof(int32_t);
    memcpy(to, name, name_bytes);
    if (length > 0) memcpy(to + name_bytes, data, length);
    ring_pmix_message message = {.value = (int32_t)taken,
                                 .bytes = bytes,
                                 .length = (size_t)(to - bytes) + name_bytes + length};
    status = ring_pmix_request_send(request, RING_PMIX_FENCE, &message);
  }
  free(bytes);
  return status;
}

pmix_status_t ring_pmix_exchange_fence(const pmix_proc_t procs[], size_t count,
                                       const pmix_info_t info[], size_t info_count, char *data,
                                       size_t length, pmix_modex_cbfunc_t done, void *arg) {
  const ring_pmix_request request = {.finish = exchange_finish, .arg = arg, .back.modex = done};
  (void)info, (void)info_count;
  pmix_status_t status = ring_pmix_exchange_send(&request, procs, count, "", data, length);
  if (status == PMIX_SUCCESS) free(data);
  return status;
}

/* ---- One program's data ------------------------------------------------------------------- */

pmix_status_t ring_pmix_exchange_modex(const pmix_proc_t *target, const pmix_info_t info[],
                                       size_t count, pmix_modex_cbfunc_t done, void *arg) {
  const ring_pmix_request request = {.finish = exchange_finish, .arg = arg, .back.modex = done};
  ring_pmix_message message = {.rank = (int32_t)target->rank};
  (void)info, (void)count;
  if (!ring_pmix_exchange_has(target)) return PMIX_ERR_NOT_FOUND;
  return ring_pmix_request_send(&request, RING_PMIX_MODEX, &message);
}

/* `data` stays PMIx's. */
static void exchange_fetched(pmix_status_t status, char *data, size_t length, void *arg) {
  exchange_fetch *fetch = arg;
  bool good = status == PMIX_SUCCESS && length <= RING_PMIX_MOST;
  const ring_pmix_message message = {.ticket = fetch->ticket,
                                     .rank = fetch->lead,
                                     .value = good,
                                     .bytes = data,
                                     .length = good && data != NULL ? length : 0};
  ring_pmix_connection_send(RING_PMIX_FETCHED, &message);
  free(fetch);
}

void ring_pmix_exchange_fetch(const ring_pmix_message *message) {
  pmix_proc_t target;
  exchange_fetch *fetch = ring_pmix_connection_allocate(sizeof *fetch);
  *fetch = (exchange_fetch){message->ticket, message->value};
  PMIX_LOAD_PROCID(&target, exchange_job->name, (pmix_rank_t)message->rank);
  pmix_status_t status = PMIx_server_dmodex_request(&target, exchange_fetched, fetch);
  if (status != PMIX_SUCCESS) exchange_fetched(status, NULL, 0, fetch);
}
