/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of the ranks, line by line with the rank before each line. Bytes wait in memory until the output takes
 * them.
 */
#ifndef RING_LAUNCH_LINE_OUTPUT_H
#define RING_LAUNCH_LINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ring_line_bytes {
  char *data;
  size_t begin, length, capacity; /* the bytes are data[begin] to data[begin + length - 1] */
} ring_line_bytes;

typedef struct ring_line_output {
  int descriptor;
  bool lost; /* takes no bytes any more */
  ring_line_bytes unwritten;
} ring_line_output;

typedef struct ring_line_stream { /* of a rank: its standard output, or its errors */
  int descriptor;                 /* -1 at its end */
  int rank;
  ring_line_output *to;
  ring_line_bytes begun; /* a line that has not ended */
} ring_line_stream;

/* Puts a string behind the bytes that wait. */
void ring_line_output_put(ring_line_output *to, const char *text);

/* Reads once from a stream that does not block. False: there was nothing to read, or the stream has ended. */
bool ring_line_output_read(ring_line_stream *from);

/* Reads what a stream has now, and ends its last line. A process that has escaped may write for ever, so no more is
 * read than a pipe holds. */
void ring_line_output_drain(ring_line_stream *from);

/* Writes some bytes to an output that poll() has reported as writable: so few that a pipe takes them without blocking.
 * An error of write() loses the output, and is returned as its errno; else 0. */
int ring_line_output_write(ring_line_output *to);

/* Whether bytes were dropped because there was no memory for them. */
bool ring_line_output_out_of_memory(void);

#endif
