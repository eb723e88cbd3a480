/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of programs: the functions that the PMIx server calls, and the answers.
 */
#ifndef RING_PMIX_REQUEST_H
#define RING_PMIX_REQUEST_H

#include <pmix.h>
#include <pmix_server.h>

#include "pmi/pmix_message.h"

/* The functions for PMIx_server_init. */
extern pmix_server_module_t ring_pmix_module;

/* Before PMIx calls the functions. */
void ring_pmix_request_begin(const ring_pmix_job *job);

/* Answers the request with the message's ticket. */
void ring_pmix_request_answer(const ring_pmix_message *answer);

/* Sends what a program of this host has put, as soon as it has. The ticket and `value` of the message are sent back. */
void ring_pmix_request_fetch(const ring_pmix_message *message);

#endif
