/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the PMIx server calls.
 */
#ifndef RING_PMIX_MODULE_H
#define RING_PMIX_MODULE_H

#include <pmix.h>
#include <pmix_server.h>

#include "pmi/pmix_message.h"

/* The functions for PMIx_server_init, for programs of a job, which must outlive them. */
pmix_server_module_t *ring_pmix_module(const ring_pmix_job *job);

#endif
