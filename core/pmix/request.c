/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that PMIx calls run in its thread and do not wait for other programs. PMIX_SUCCESS from them promises a
 * callback. The process exits without memory, and the lead reports that.
 */
#include "pmix/request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "pmix/connection.h"

/* One call of publish, lookup or unpublish has a request for each key. The requests share this record. */
typedef struct names_call {
  ring_pmix_name kind;
  size_t left; /* requests without an answer */
  pmix_status_t status;
  pmix_op_cbfunc_t done;
  pmix_lookup_cbfunc_t found;
  void *arg;
  size_t found_count;
  pmix_pdata_t *results; /* of lookup */
} names_call;

/* A request of a program, until its answer comes. */
typedef struct request_record {
  struct request_record *next;
  uint64_t ticket;
  pmix_op_cbfunc_t done;
  pmix_modex_cbfunc_t modex;
  void *arg;
  names_call *names;
  pmix_key_t key;
} request_record;

/* What another lead wants, until PMIx has it. */
typedef struct request_fetch {
  uint64_t ticket;
  int32_t lead;
} request_fetch;

static const ring_pmix_job *request_job;
static pthread_mutex_t request_mutex = PTHREAD_MUTEX_INITIALIZER;
static request_record *request_first;
static uint64_t request_ticket;

void ring_pmix_request_begin(const ring_pmix_job *job) {
  request_job = job;
}

/* Whether a program is one of the job. */
static bool request_is_rank(const pmix_proc_t *program) {
  return PMIX_CHECK_NSPACE(program->nspace, request_job->name) &&
         program->rank < (pmix_rank_t)request_job->size;
}

/* Keeps a copy of the record under a new ticket, which the message gets, and sends the message. */
static pmix_status_t request_send(const request_record *given, char kind,
                                  ring_pmix_message *message) {
  request_record *record = ring_pmix_connection_allocate(sizeof *record);
  *record = *given;
  pthread_mutex_lock(&request_mutex);
  record->ticket = message->ticket = ++request_ticket;
  record->next = request_first;
  request_first = record;
  pthread_mutex_unlock(&request_mutex);
  ring_pmix_connection_send(kind, message);
  return PMIX_SUCCESS;
}

/* ---- The life of a program ---------------------------------------------------------------- */

static pmix_status_t request_simple(const pmix_proc_t *source, char kind, int value,
                                    pmix_op_cbfunc_t done, void *arg) {
  const request_record record = {.done = done, .arg = arg};
  ring_pmix_message message = {.rank = (int32_t)source->rank, .value = value};
  if (!request_is_rank(source)) return PMIX_ERR_NOT_FOUND;
  return request_send(&record, kind, &message);
}

static pmix_status_t server_connected(const pmix_proc_t *source, void *object, pmix_info_t info[],
                                      size_t count, pmix_op_cbfunc_t done, void *arg) {
  (void)object, (void)info, (void)count;
  return request_simple(source, RING_PMIX_CONNECTED, 0, done, arg);
}

static pmix_status_t server_finalized(const pmix_proc_t *source, void *object,
                                      pmix_op_cbfunc_t done, void *arg) {
  (void)object;
  return request_simple(source, RING_PMIX_FINALIZED, 0, done, arg);
}

static pmix_status_t server_abort(const pmix_proc_t *source, void *object, int code,
                                  const char text[], pmix_proc_t victims[], size_t count,
                                  pmix_op_cbfunc_t done, void *arg) {
  (void)object, (void)text, (void)victims, (void)count;
  return request_simple(source, RING_PMIX_ABORTED, code, done, arg);
}

/* ---- Fences and modex --------------------------------------------------------------------- */

static int request_compare_ranks(const void *a, const void *b) {
  int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
  return (first > second) - (first < second);
}

/* Fills ranks[], as a message has them, ascending, with the programs that take part. *taken: how many; 0: all. */
static pmix_status_t request_take_ranks(const pmix_proc_t procs[], size_t count, int32_t *ranks,
                                        size_t *taken) {
  for (size_t i = 0; i < count; i++) {
    if (!PMIX_CHECK_NSPACE(procs[i].nspace, request_job->name)) return PMIX_ERR_NOT_SUPPORTED;
    if (procs[i].rank == PMIX_RANK_WILDCARD) return PMIX_SUCCESS;
    if (!request_is_rank(&procs[i])) return PMIX_ERR_BAD_PARAM;
    ranks[i] = (int32_t)procs[i].rank;
  }
  qsort(ranks, count, sizeof *ranks, request_compare_ranks);
  for (size_t i = 0; i < count; i++) bytes_put((uint8_t *)&ranks[i], (uint32_t)ranks[i], 4);
  *taken = count;
  return PMIX_SUCCESS;
}

static pmix_status_t request_fence(const pmix_proc_t procs[], size_t count, const char *data,
                                   size_t length, const request_record *record) {
  size_t taken = 0;
  if (count == 0 || count > (size_t)request_job->size) return PMIX_ERR_BAD_PARAM;
  if (length > RING_PMIX_MOST - count * sizeof(int32_t)) return PMIX_ERR_OUT_OF_RESOURCE;
  char *bytes = ring_pmix_connection_allocate(count * sizeof(int32_t) + length);
  pmix_status_t status = request_take_ranks(procs, count, (int32_t *)(void *)bytes, &taken);
  if (status == PMIX_SUCCESS) {
    size_t head = taken * sizeof(int32_t);
    if (length > 0) memcpy(bytes + head, data, length);
    ring_pmix_message message = {.value = (int32_t)taken, .bytes = bytes, .length = head + length};
    status = request_send(record, RING_PMIX_FENCE, &message);
  }
  free(bytes);
  return status;
}

/* This process owns `data`, unless this function fails. */
static pmix_status_t server_fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[],
                                  size_t info_count, char *data, size_t length,
                                  pmix_modex_cbfunc_t done, void *arg) {
  const request_record record = {.modex = done, .arg = arg};
  (void)info, (void)info_count;
  pmix_status_t status = request_fence(procs, count, data, length, &record);
  if (status == PMIX_SUCCESS) free(data);
  return status;
}

static pmix_status_t server_modex(const pmix_proc_t *target, const pmix_info_t info[], size_t count,
                                  pmix_modex_cbfunc_t done, void *arg) {
  const request_record record = {.modex = done, .arg = arg};
  ring_pmix_message message = {.rank = (int32_t)target->rank};
  (void)info, (void)count;
  if (!request_is_rank(target)) return PMIX_ERR_NOT_FOUND;
  return request_send(&record, RING_PMIX_MODEX, &message);
}

/* `data` stays PMIx's. */
static void request_fetched(pmix_status_t status, char *data, size_t length, void *arg) {
  request_fetch *fetch = arg;
  bool good = status == PMIX_SUCCESS && length <= RING_PMIX_MOST;
  const ring_pmix_message message = {.ticket = fetch->ticket,
                                     .rank = fetch->lead,
                                     .value = good,
                                     .bytes = data,
                                     .length = good && data != NULL ? length : 0};
  ring_pmix_connection_send(RING_PMIX_FETCHED, &message);
  free(fetch);
}

void ring_pmix_request_fetch(const ring_pmix_message *message) {
  pmix_proc_t target;
  request_fetch *fetch = ring_pmix_connection_allocate(sizeof *fetch);
  *fetch = (request_fetch){message->ticket, message->value};
  PMIX_LOAD_PROCID(&target, request_job->name, (pmix_rank_t)message->rank);
  pmix_status_t status = PMIx_server_dmodex_request(&target, request_fetched, fetch);
  if (status != PMIX_SUCCESS) request_fetched(status, NULL, 0, fetch);
}

/* ---- Names -------------------------------------------------------------------------------- */

/* The answer to the call: all its requests have one. */
static void names_finish(names_call *call) {
  if (call->found != NULL) {
    if (call->found_count > 0) call->status = PMIX_SUCCESS;
    call->found(call->status, call->results, call->found_count, call->arg);
    PMIX_PDATA_FREE(call->results, call->found_count);
  } else {
    call->done(call->status, call->arg);
  }
  free(call);
}

/* Called with the mutex. Returns whether all requests of the call have an answer. */
static bool names_answer(const request_record *record, const ring_pmix_message *answer) {
  names_call *call = record->names;
  bool good = answer->value == 1;
  if (!good)
    call->status = call->kind == RING_PMIX_PUBLISH ? PMIX_ERR_DUPLICATE_KEY : PMIX_ERR_NOT_FOUND;
  char *text = good && call->found != NULL ? strndup(answer->bytes, answer->length) : NULL;
  if (text != NULL) {
    pmix_pdata_t *result = &call->results[call->found_count++];
    PMIX_LOAD_PROCID(&result->proc, request_job->name, PMIX_RANK_UNDEF);
    PMIX_LOAD_KEY(result->key, record->key);
    result->value.type = PMIX_STRING;
    result->value.data.string = text;
  }
  return --call->left == 0;
}

/* Sends a request for one key; `value` is NULL where there is none. The answer to the last key frees the call. */
static void names_send(names_call *call, const char *key, const char *value) {
  size_t key_bytes = strlen(key) + 1, value_bytes = value != NULL ? strlen(value) + 1 : 0;
  request_record record = {.names = call};
  char *bytes = ring_pmix_connection_allocate(key_bytes + value_bytes);
  memcpy(bytes, key, key_bytes);
  if (value != NULL) memcpy(bytes + key_bytes, value, value_bytes);
  PMIX_LOAD_KEY(record.key, key);
  ring_pmix_message message = {
      .value = (int32_t)call->kind, .bytes = bytes, .length = key_bytes + value_bytes};
  request_send(&record, RING_PMIX_NAME, &message);
  free(bytes);
}

/* Whether a key can be sent. */
static bool names_is_key(const char *key) {
  return key[0] != '\0' && strlen(key) <= PMIX_MAX_KEYLEN;
}

/* A call with `count` keys. */
static names_call *names_make(ring_pmix_name kind, size_t count, void *arg) {
  names_call *call = ring_pmix_connection_allocate(sizeof *call);
  call->kind = kind;
  call->left = count;
  call->arg = arg;
  if (kind == RING_PMIX_LOOKUP) PMIX_PDATA_CREATE(call->results, count);
  if (kind == RING_PMIX_LOOKUP && call->results == NULL) ring_pmix_connection_fail("out of memory");
  return call;
}

/* Whether an entry of publish is data, and no directive. */
static bool names_is_data(const pmix_info_t *info) {
  return strncmp(info->key, "pmix", 4) != 0;
}

static pmix_status_t server_publish(const pmix_proc_t *source, const pmix_info_t info[],
                                    size_t count, pmix_op_cbfunc_t done, void *arg) {
  size_t keys = 0;
  (void)source;
  for (size_t i = 0; i < count; i++) {
    if (!names_is_data(&info[i])) continue;
    if (info[i].value.type != PMIX_STRING) return PMIX_ERR_NOT_SUPPORTED;
    if (!names_is_key(info[i].key)) return PMIX_ERR_BAD_PARAM;
    keys++;
  }
  if (keys == 0) return PMIX_ERR_BAD_PARAM;
  names_call *call = names_make(RING_PMIX_PUBLISH, keys, arg);
  call->done = done;
  for (size_t i = 0; keys > 0; i++) { /* the last answer also frees `info` */
    if (!names_is_data(&info[i])) continue;
    keys--;
    names_send(call, info[i].key, info[i].value.data.string);
  }
  return PMIX_SUCCESS;
}

/* Lookup (`found`) and unpublish (`done`). */
static pmix_status_t names_by_keys(ring_pmix_name kind, char **keys, pmix_lookup_cbfunc_t found,
                                   pmix_op_cbfunc_t done, void *arg) {
  size_t count = 0;
  for (; keys != NULL && keys[count] != NULL; count++)
    if (!names_is_key(keys[count])) return PMIX_ERR_BAD_PARAM;
  if (count == 0) return PMIX_ERR_BAD_PARAM;
  names_call *call = names_make(kind, count, arg);
  call->done = done;
  call->found = found;
  for (size_t i = 0; i < count; i++) names_send(call, keys[i], NULL);
  return PMIX_SUCCESS;
}

static pmix_status_t server_lookup(const pmix_proc_t *source, char **keys, const pmix_info_t info[],
                                   size_t count, pmix_lookup_cbfunc_t found, void *arg) {
  (void)source, (void)info, (void)count;
  return names_by_keys(RING_PMIX_LOOKUP, keys, found, NULL, arg);
}

static pmix_status_t server_unpublish(const pmix_proc_t *source, char **keys,
                                      const pmix_info_t info[], size_t count, pmix_op_cbfunc_t done,
                                      void *arg) {
  (void)source, (void)info, (void)count;
  return names_by_keys(RING_PMIX_UNPUBLISH, keys, NULL, done, arg);
}

/* ---- Answers ------------------------------------------------------------------------------ */

/* Removes the record with that ticket from the list; NULL: there is none. Called with the mutex. */
static request_record *request_take(uint64_t ticket) {
  request_record **at = &request_first;
  while (*at != NULL && (*at)->ticket != ticket) at = &(*at)->next;
  request_record *record = *at;
  if (record != NULL) *at = record->next;
  return record;
}

/* Gives a copy of the data to PMIx. */
static void request_finish_modex(const request_record *record, const ring_pmix_message *answer) {
  bool good = answer->value == 1;
  char *copy = good && answer->length > 0 ? malloc(answer->length) : NULL;
  if (copy != NULL) memcpy(copy, answer->bytes, answer->length);
  bool whole = good && (answer->length == 0 || copy != NULL);
  record->modex(whole ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, copy, copy != NULL ? answer->length : 0,
                record->arg, free, copy);
}

void ring_pmix_request_answer(const ring_pmix_message *answer) {
  bool names_end = false;
  pthread_mutex_lock(&request_mutex);
  request_record *record = request_take(answer->ticket);
  if (record != NULL && record->names != NULL) names_end = names_answer(record, answer);
  pthread_mutex_unlock(&request_mutex);
  if (record == NULL) ring_pmix_connection_fail("the lead sent an answer to no request");
  if (names_end)
    names_finish(record->names);
  else if (record->modex != NULL)
    request_finish_modex(record, answer);
  else if (record->done != NULL)
    record->done(answer->value == 1 ? PMIX_SUCCESS : PMIX_ERROR, record->arg);
  free(record);
}

/* PMIx itself removes files that a program has registered for that, but only where the host has job control. */
static pmix_status_t server_control(const pmix_proc_t *source, const pmix_proc_t targets[],
                                    size_t target_count, const pmix_info_t directives[],
                                    size_t count, pmix_info_cbfunc_t done, void *arg) {
  (void)source, (void)targets, (void)target_count, (void)directives, (void)count;
  (void)done, (void)arg;
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_server_module_t ring_pmix_module = {
    .client_connected2 = server_connected,
    .client_finalized = server_finalized,
    .abort = server_abort,
    .fence_nb = server_fence,
    .direct_modex = server_modex,
    .publish = server_publish,
    .lookup = server_lookup,
    .unpublish = server_unpublish,
    .job_control = server_control,
};
