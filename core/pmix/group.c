/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/group.h"

#include <stdlib.h>
#include <string.h>

#include "pmix/connection.h"
#include "pmix/exchange.h"

enum { GROUP_RESULTS = 3 }; /* context, members, data */

typedef struct group_call {
  pmix_info_cbfunc_t done;
  void *arg;
  pmix_data_array_t members;
  pmix_info_t results[GROUP_RESULTS];
} group_call;

/* PMIx has read the results. */
static void group_release(void *arg) {
  group_call *call = arg;
  for (int i = 0; i < GROUP_RESULTS; i++) PMIX_INFO_DESTRUCT(&call->results[i]);
  free(call->members.array);
  free(call);
}

/* Contexts count down from the greatest one, as those of PRRTE do: an MPI library counts its own up. */
static void group_finish(const ring_pmix_request *request, const ring_pmix_message *answer) {
  group_call *call = request->call;
  size_t context = UINT32_MAX - (uint32_t)answer->rank, count = 0;
  pmix_byte_object_t data = {.bytes = (char *)(uintptr_t)answer->bytes, .size = answer->length};
  if (call->members.size > 0) {
    PMIX_INFO_LOAD(&call->results[count++], PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
    PMIX_INFO_LOAD(&call->results[count++], PMIX_GROUP_MEMBERSHIP, &call->members, PMIX_DATA_ARRAY);
    if (answer->length > 0)
      PMIX_INFO_LOAD(&call->results[count++], PMIX_GROUP_ENDPT_DATA, &data, PMIX_BYTE_OBJECT);
  }
  call->done(answer->value == 1 ? PMIX_SUCCESS : PMIX_ERROR, call->results, count, call->arg,
             group_release, call);
}

static const pmix_info_t *group_directive(const pmix_info_t directives[], size_t count,
                                          const char *key) {
  for (size_t i = 0; i < count; i++)
    if (PMIX_CHECK_KEY(&directives[i], key)) return &directives[i];
  return NULL;
}

/* A call; of a construction, with the members. */
static group_call *group_make(const pmix_proc_t procs[], size_t count, pmix_info_cbfunc_t done,
                              void *arg) {
  group_call *call = ring_pmix_connection_allocate(sizeof *call);
  *call = (group_call){.done = done, .arg = arg};
  for (int i = 0; i < GROUP_RESULTS; i++) PMIX_INFO_CONSTRUCT(&call->results[i]);
  call->members = (pmix_data_array_t){.type = PMIX_PROC, .size = count};
  if (count == 0) return call;
  call->members.array = ring_pmix_connection_allocate(count * sizeof *procs);
  memcpy(call->members.array, procs, count * sizeof *procs);
  return call;
}

pmix_status_t ring_pmix_group(pmix_group_operation_t operation, char *name,
                              const pmix_proc_t procs[], size_t count,
                              const pmix_info_t directives[], size_t directive_count,
                              pmix_info_cbfunc_t done, void *arg) {
  const pmix_info_t *data = group_directive(directives, directive_count, PMIX_GROUP_ENDPT_DATA);
  bool constructs = operation == PMIX_GROUP_CONSTRUCT;
  if (!constructs && operation != PMIX_GROUP_DESTRUCT) return PMIX_ERR_NOT_SUPPORTED;
  /* PMIx 5.0 calls twice for the end of a group of one host unless that ends at once. */
  if (!constructs && group_directive(directives, directive_count, PMIX_GROUP_LOCAL_ONLY) != NULL)
    return PMIX_OPERATION_SUCCEEDED;
  group_call *call = group_make(procs, constructs ? count : 0, done, arg);
  const ring_pmix_request request = {.finish = group_finish, .call = call};
  pmix_status_t status = ring_pmix_exchange_send(&request, procs, count, name,
                                                 data != NULL ? data->value.data.bo.bytes : NULL,
                                                 data != NULL ? data->value.data.bo.size : 0);
  if (status != PMIX_SUCCESS) group_release(call);
  return status;
}
