/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of the ranks, line by line with the rank before each line. Bytes wait in memory until
 * the output takes them. Python's line_output does the same.
 */
#ifndef SPARKRING_LINE_OUTPUT_H
#define SPARKRING_LINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct line_bytes {
  char *data;
  size_t length, capacity;
} line_bytes;

typedef struct line_output {
  int descriptor;
  bool lost; /* takes no bytes any more */
  line_bytes unwritten;
} line_output;

typedef struct line_stream { /* of a rank: its standard output, or its errors */
  int descriptor;            /* -1 at its end */
  int rank;
  line_output *to;
  line_bytes begun; /* a line that has not ended */
} line_stream;

/* Puts a string behind the bytes that wait. */
void line_output_put(line_output *to, const char *text);

/* Ends the line that a stream has begun with `rest`, and puts it behind the bytes that wait. */
void line_output_end_line(line_stream *from, const char *rest, size_t length);

/* Reads once from a stream that does not block. False when there was nothing to read. */
bool line_output_read(line_stream *from);

/* Writes what an output takes without blocking. An error of write() loses the output, and is returned
 * as its errno; else 0. */
int line_output_write(line_output *to);

/* Whether bytes were dropped because there was no memory for them. */
bool line_output_out_of_memory(void);

#endif
