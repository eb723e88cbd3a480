/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace file: an array of JSON that grows. Each write ends the array, and overwrites the end that the write
 * before has written, so a reader finds valid JSON after each write. SIGKILL within a write can cut one line; all
 * other lines are whole. A write has final lines and provisional ones, which the next write replaces: events that
 * have begun and not ended.
 */
#ifndef RING_BINDINGS_TRACE_FILE_H
#define RING_BINDINGS_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that grows. */
typedef struct ring_trace_text {
  char *bytes;
  size_t length, capacity;
  bool failed; /* there was no memory; the text stays as it was */
} ring_trace_text;

/* Room for `bytes` more bytes, or NULL without memory. */
char *ring_trace_text_reserve(ring_trace_text *text, size_t bytes);

typedef struct ring_trace_file {
  int descriptor;
  uint64_t end;  /* of the final lines */
  uint64_t size; /* of the file */
} ring_trace_file;

/* Makes the file, or empties it, and writes its first line, an object of JSON. Returns 0 or an errno. */
int ring_trace_file_open(ring_trace_file *file, const char *path, const char *first);

/* Adds the first `final` bytes of `text`; the bytes after them are provisional. Every line of the text is
 * "\n," and an object. Empties the text. Returns 0 or an errno; after an error the file is valid as far as the
 * system lets it be. */
int ring_trace_file_write(ring_trace_file *file, ring_trace_text *text, size_t final);

#endif
