/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/names.h"

#include <stdlib.h>
#include <string.h>

#include "pmix/connection.h"
#include "pmix/request.h"

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

static const char *names_job;

void ring_pmix_names_begin(const char *job) {
  names_job = job;
}

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

/* The answer for one key. */
static void names_answer(const ring_pmix_request *request, const ring_pmix_message *answer) {
  names_call *call = request->call;
  bool good = answer->value == 1;
  if (!good)
    call->status = call->kind == RING_PMIX_PUBLISH ? PMIX_ERR_DUPLICATE_KEY : PMIX_ERR_NOT_FOUND;
  char *text = good && call->found != NULL ? strndup(answer->bytes, answer->length) : NULL;
  if (text != NULL) {
    pmix_pdata_t *result = &call->results[call->found_count++];
    PMIX_LOAD_PROCID(&result->proc, names_job, PMIX_RANK_UNDEF);
    PMIX_LOAD_KEY(result->key, (const char *)request->arg);
    result->value.type = PMIX_STRING;
    result->value.data.string = text;
  }
  if (--call->left == 0) names_finish(call);
}

/* Sends a request for one key, which is PMIx's until the call has its answer. `value` is NULL where there is none. The
 * answer to the last key frees the call. */
static void names_send(names_call *call, const char *key, const char *value) {
  size_t key_bytes = strlen(key) + 1, value_bytes = value != NULL ? strlen(value) + 1 : 0;
  const ring_pmix_request request = {
      .finish = names_answer, .call = call, .arg = (void *)(uintptr_t)key};
  char *bytes = ring_pmix_connection_allocate(key_bytes + value_bytes);
  memcpy(bytes, key, key_bytes);
  if (value != NULL) memcpy(bytes + key_bytes, value, value_bytes);
  ring_pmix_message message = {
      .value = (int32_t)call->kind, .bytes = bytes, .length = key_bytes + value_bytes};
  ring_pmix_request_send(&request, RING_PMIX_NAME, &message);
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

pmix_status_t ring_pmix_names_publish(const pmix_proc_t *source, const pmix_info_t info[],
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

pmix_status_t ring_pmix_names_lookup(const pmix_proc_t *source, char **keys,
                                     const pmix_info_t info[], size_t count,
                                     pmix_lookup_cbfunc_t found, void *arg) {
  (void)source, (void)info, (void)count;
  return names_by_keys(RING_PMIX_LOOKUP, keys, found, NULL, arg);
}

pmix_status_t ring_pmix_names_unpublish(const pmix_proc_t *source, char **keys,
                                        const pmix_info_t info[], size_t count,
                                        pmix_op_cbfunc_t done, void *arg) {
  (void)source, (void)info, (void)count;
  return names_by_keys(RING_PMIX_UNPUBLISH, keys, NULL, done, arg);
}
