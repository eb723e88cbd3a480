/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that programs publish, look up and remove: functions for the PMIx server. They wait for no program.
 */
#ifndef RING_PMIX_NAMES_H
#define RING_PMIX_NAMES_H

#include <pmix.h>
#include <pmix_server.h>

/* What PMIx finds belongs to the namespace of that name, which must outlive the calls. */
void ring_pmix_names_begin(const char *job);

pmix_status_t ring_pmix_names_publish(const pmix_proc_t *source, const pmix_info_t info[],
                                      size_t count, pmix_op_cbfunc_t done, void *arg);
pmix_status_t ring_pmix_names_lookup(const pmix_proc_t *source, char **keys,
                                     const pmix_info_t info[], size_t count,
                                     pmix_lookup_cbfunc_t found, void *arg);
pmix_status_t ring_pmix_names_unpublish(const pmix_proc_t *source, char **keys,
                                        const pmix_info_t info[], size_t count,
                                        pmix_op_cbfunc_t done, void *arg);

#endif
