/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that programs put for one another, in fences or by request: functions for the PMIx server. They wait for no
 * program.
 */
#ifndef RING_PMIX_EXCHANGE_H
#define RING_PMIX_EXCHANGE_H

#include <pmix.h>
#include <pmix_server.h>

#include "pmix/request.h"

/* For programs of a job, which must outlive the calls. */
void ring_pmix_exchange_begin(const ring_pmix_job *job);

/* Whether a program is one of the job. */
bool ring_pmix_exchange_has(const pmix_proc_t *program);

/* Sends the request for a fence of programs: the answer has the data of all their hosts. Fences of the same programs
 * with different names are different fences. */
pmix_status_t ring_pmix_exchange_send(const ring_pmix_request *request, const pmix_proc_t procs[],
                                      size_t count, const char *name, const char *data,
                                      size_t length);

/* This process owns `data`, unless the call fails. */
pmix_status_t ring_pmix_exchange_fence(const pmix_proc_t procs[], size_t count,
                                       const pmix_info_t info[], size_t info_count, char *data,
                                       size_t length, pmix_modex_cbfunc_t done, void *arg);

pmix_status_t ring_pmix_exchange_modex(const pmix_proc_t *target, const pmix_info_t info[],
                                       size_t count, pmix_modex_cbfunc_t done, void *arg);

/* Sends what a program of this host has put, as soon as it has. The ticket and `value` of the message are sent back. */
void ring_pmix_exchange_fetch(const ring_pmix_message *message);

#endif
