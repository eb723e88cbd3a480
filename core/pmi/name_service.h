/* SPDX-License-Identifier: Apache-2.0
 *
 * The name service: MPI_Publish_name, MPI_Lookup_name and MPI_Unpublish_name. Rank 0 keeps the names. So a lookup
 * that follows the answer to a publication finds the name.
 */
#ifndef RING_PMI_NAME_SERVICE_H
#define RING_PMI_NAME_SERVICE_H

#include "pmi/pmi_protocol.h"

#define RING_PMI_NAMES_MOST 1024 /* published at a time */

/* Writes the answer to a line that is such a command, with its newline. Names are at most RING_PMI_KEY_MOST
 * bytes, ports RING_PMI_VALUE_MOST. */
void ring_name_service_answer(ring_key_values *names, const ring_pmi_line *line,
                              char answer[RING_PMI_ANSWER_MOST + 1]);

/* Whether a line is such a command. */
bool ring_name_service_takes(const ring_pmi_line *line);

/* Whether bytes of another rank can be such an answer: one line, with its newline, of at most RING_PMI_ANSWER_MOST
 * bytes. */
bool ring_name_service_is_answer(const char *bytes, size_t length);

#endif
