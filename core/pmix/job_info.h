/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts that PMIx gives programs about their job: sizes, the hosts, the host of each rank.
 */
#ifndef RING_PMIX_JOB_INFO_H
#define RING_PMIX_JOB_INFO_H

#include <pmix.h>
#include <pmix_server.h>

#include "pmi/pmix_message.h"

/* An array of *count entries for PMIx_server_register_nspace, to be freed with PMIX_INFO_FREE; NULL without
 * memory. *local: programs of this host. */
pmix_info_t *ring_pmix_job_info_make(const ring_pmix_job *job, size_t *count, int *local);

#endif
