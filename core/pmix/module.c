/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that PMIx calls run in its thread and do not wait for other programs. PMIX_SUCCESS from them promises a
 * callback.
 */
#include "pmix/module.h"

#include <stdlib.h>
#include <string.h>

#include "pmix/exchange.h"
#include "pmix/group.h"
#include "pmix/names.h"
#include "pmix/request.h"

/* ---- The life of a program ---------------------------------------------------------------- */

static void module_finish(const ring_pmix_request *request, const ring_pmix_message *answer) {
  if (request->back.done == NULL) return;
  request->back.done(answer->value == 1 ? PMIX_SUCCESS : PMIX_ERROR, request->arg);
}

static pmix_status_t module_report(const pmix_proc_t *source, char kind, int value,
                                   pmix_op_cbfunc_t done, void *arg) {
  const ring_pmix_request request = {.finish = module_finish, .arg = arg, .back.done = done};
  ring_pmix_message message = {.rank = (int32_t)source->rank, .value = value};
  if (!ring_pmix_exchange_has(source)) return PMIX_ERR_NOT_FOUND;
  return ring_pmix_request_send(&request, kind, &message);
}

static pmix_status_t module_connected(const pmix_proc_t *source, void *object, pmix_info_t info[],
                                      size_t count, pmix_op_cbfunc_t done, void *arg) {
  (void)object, (void)info, (void)count;
  return module_report(source, RING_PMIX_CONNECTED, 0, done, arg);
}

static pmix_status_t module_finalized(const pmix_proc_t *source, void *object,
                                      pmix_op_cbfunc_t done, void *arg) {
  (void)object;
  return module_report(source, RING_PMIX_FINALIZED, 0, done, arg);
}

static pmix_status_t module_abort(const pmix_proc_t *source, void *object, int code,
                                  const char text[], pmix_proc_t victims[], size_t count,
                                  pmix_op_cbfunc_t done, void *arg) {
  (void)object, (void)text, (void)victims, (void)count;
  return module_report(source, RING_PMIX_ABORTED, code, done, arg);
}

/* ---- The module --------------------------------------------------------------------------- */

/* PMIx itself removes files that a program has registered for that, but only where the host has job control. */
static pmix_status_t module_control(const pmix_proc_t *source, const pmix_proc_t targets[],
                                    size_t target_count, const pmix_info_t directives[],
                                    size_t count, pmix_info_cbfunc_t done, void *arg) {
  (void)source, (void)targets, (void)target_count, (void)directives, (void)count;
  (void)done, (void)arg;
  return PMIX_ERR_NOT_SUPPORTED;
}

/* Programs of PMIx 5 and servers of PMIx 4 read the messages of groups in two ways, so that a program would take a
 * context for a number of members. A server of PMIx 4 refuses groups: it does not know the PMIx of a program. */
static bool module_has_groups(void) {
  const char *version = PMIx_Get_version(); /* "OpenPMIx 5.0.3, repo rev: ..." */
  version += strcspn(version, "0123456789");
  return strtol(version, NULL, 10) >= 5;
}

pmix_server_module_t *ring_pmix_module(const ring_pmix_job *job) {
  static pmix_server_module_t module = {
      .client_connected2 = module_connected,
      .client_finalized = module_finalized,
      .abort = module_abort,
      .fence_nb = ring_pmix_exchange_fence,
      .direct_modex = ring_pmix_exchange_modex,
      .publish = ring_pmix_names_publish,
      .lookup = ring_pmix_names_lookup,
      .unpublish = ring_pmix_names_unpublish,
      .job_control = module_control,
  };
  ring_pmix_exchange_begin(job);
  ring_pmix_names_begin(job->name);
  if (module_has_groups()) module.group = ring_pmix_group;
  return &module;
}
