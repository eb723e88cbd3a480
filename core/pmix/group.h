/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of programs, which MPI_Comm_create_from_group and MPI_Intercomm_create_from_groups of Open MPI construct: a
 * function for the PMIx server. It waits for no program.
 */
#ifndef RING_PMIX_GROUP_H
#define RING_PMIX_GROUP_H

#include <pmix.h>
#include <pmix_server.h>

/* Constructs a group, or ends it: a fence of its programs with the group's name. A constructed group gets its members,
 * the data of all hosts, and a context that no other group of the job has. */
pmix_status_t ring_pmix_group(pmix_group_operation_t operation, char *name,
                              const pmix_proc_t procs[], size_t count,
                              const pmix_info_t directives[], size_t directive_count,
                              pmix_info_cbfunc_t done, void *arg);

#endif
