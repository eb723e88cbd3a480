/* SPDX-License-Identifier: Apache-2.0
 *
 * The process mapping: which ranks share a host, as MPICH reads it from the key PMI_process_mapping. MPICH
 * uses shared memory between them.
 */
#ifndef RING_PMI_PROCESS_MAPPING_H
#define RING_PMI_PROCESS_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "(vector,(first host,hosts,ranks of each),...)". nodes[r] is the host of rank r; hosts are numbered
 * in the order of their first ranks. False where the text is longer than `capacity`: MPICH then compares host
 * names itself. */
bool ring_process_mapping(const int *nodes, int size, char *text, size_t capacity);

#endif
