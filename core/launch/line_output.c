/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/line_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define LINE_OUTPUT_PIECE (1 << 16) /* bytes of a read */
#define LINE_OUTPUT_PIECES 64       /* more than a pipe holds by default */
#define LINE_OUTPUT_WRITE 4096      /* bytes that a pipe takes without blocking once it takes any */

static bool line_output_no_memory;

/* Makes room behind the bytes: moves them to the begin of a buffer that is at least twice as large. */
static bool line_output_reserve(ring_line_bytes *bytes, size_t length) {
  size_t needed = bytes->length + length;
  if (bytes->begin + needed <= bytes->capacity) return true;
  if (bytes->length > 0) memmove(bytes->data, bytes->data + bytes->begin, bytes->length);
  bytes->begin = 0;
  if (2 * needed <= bytes->capacity) return true;
  char *grown = realloc(bytes->data, 4 * needed);
  if (grown == NULL) return false;
  bytes->data = grown;
  bytes->capacity = 4 * needed;
  return true;
}

static void line_output_append(ring_line_bytes *to, const char *data, size_t length) {
  if (length == 0) return;
  if (!line_output_reserve(to, length)) {
    line_output_no_memory = true;
    return;
  }
  memcpy(to->data + to->begin + to->length, data, length);
  to->length += length;
}

void ring_line_output_put(ring_line_output *to, const char *text) {
  line_output_append(&to->unwritten, text, strlen(text));
}

bool ring_line_output_out_of_memory(void) {
  return line_output_no_memory;
}

/* Ends the line that a stream has begun with `rest`, and puts it behind the bytes that wait. */
static void line_output_end_line(ring_line_stream *from, const char *rest, size_t length) {
  char prefix[16];
  snprintf(prefix, sizeof prefix, "[%d] ", from->rank);
  ring_line_output_put(from->to, prefix);
  line_output_append(&from->to->unwritten, from->begun.data, from->begun.length);
  line_output_append(&from->to->unwritten, rest, length);
  line_output_append(&from->to->unwritten, "\n", 1);
  from->begun.length = 0;
}

static void line_output_end(ring_line_stream *from) {
  if (from->begun.length > 0) line_output_end_line(from, "", 0);
  close(from->descriptor);
  from->descriptor = -1;
}

bool ring_line_output_read(ring_line_stream *from) {
  static char piece[LINE_OUTPUT_PIECE];
  ssize_t got = read(from->descriptor, piece, sizeof piece);
  if (got < 0) return errno == EINTR;
  const char *rest = piece;
  for (const char *end; (end = memchr(rest, '\n', (size_t)(piece + got - rest))) != NULL;) {
    line_output_end_line(from, rest, (size_t)(end - rest));
    rest = end + 1;
  }
  line_output_append(&from->begun, rest, (size_t)(piece + got - rest));
  if (got == 0) line_output_end(from);
  return got > 0;
}

void ring_line_output_drain(ring_line_stream *from) {
  for (int i = 0; i < LINE_OUTPUT_PIECES && from->descriptor >= 0; i++)
    if (!ring_line_output_read(from)) break;
  if (from->descriptor >= 0) line_output_end(from);
}

int ring_line_output_write(ring_line_output *to) {
  ring_line_bytes *left = &to->unwritten;
  size_t most = left->length < LINE_OUTPUT_WRITE ? left->length : LINE_OUTPUT_WRITE;
  if (left->length == 0) return 0;
  ssize_t put =
      to->lost ? (ssize_t)left->length : write(to->descriptor, left->data + left->begin, most);
  int error = put < 0 ? errno : 0;
  if (error == EINTR || error == EAGAIN) return 0;
  if (error != 0) {
    to->lost = true;
    put = (ssize_t)left->length;
  }
  left->length -= (size_t)put;
  left->begin = left->length > 0 ? left->begin + (size_t)put : 0;
  return error;
}
