/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of PMI-1: words "name=value" with spaces between, the first of which is "cmd=...". A name whose value
 * may have spaces takes the rest of the line.
 */
#ifndef RING_PMI_PMI_LINE_H
#define RING_PMI_PMI_LINE_H

#include <stddef.h>

#include "sparkring.h"

#define RING_PMI_LINE_MOST 4096 /* bytes without the newline */
#define RING_PMI_LINE_WORDS 16

typedef struct ring_pmi_word {
  const char *name, *value;
} ring_pmi_word;

typedef struct ring_pmi_line {
  const char *command;
  int count; /* of the words behind the command */
  ring_pmi_word words[RING_PMI_LINE_WORDS];
  char text[RING_PMI_LINE_MOST + 1];
} ring_pmi_line;

/* Reads a line without its newline. RING_OK, or RING_INVALID with the reason in *error. */
ring_status ring_pmi_line_read(ring_pmi_line *line, const char *text, size_t length,
                               ring_error *error);

/* The value of a name; NULL where the line does not have it. */
const char *ring_pmi_line_value(const ring_pmi_line *line, const char *name);

#endif
