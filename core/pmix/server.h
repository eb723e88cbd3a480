/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMIx server of this process, and its one namespace: the programs of the job that run on this host.
 */
#ifndef RING_PMIX_SERVER_H
#define RING_PMIX_SERVER_H

#include "pmi/pmix_message.h"

/* Starts the server, and sends the lead the environments of all programs, or why there is no server. */
void ring_pmix_server_start(const ring_pmix_job *job);

/* Removes what programs have registered for removal, in a second at most. */
void ring_pmix_server_end(const ring_pmix_job *job);

#endif
