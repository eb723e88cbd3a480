/* SPDX-License-Identifier: Apache-2.0 */
#include "line_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define LINE_OUTPUT_PIECE (1 << 16) /* bytes of a read */
#define LINE_OUTPUT_WRITE 4096      /* bytes that a pipe takes without blocking once it takes any */

static bool out_of_memory;

static void line_output_append(line_bytes *to, const char *data, size_t length) {
  if (to->length + length > to->capacity) {
    size_t capacity = 2 * (to->length + length);
    char *grown = realloc(to->data, capacity);
    if (grown == NULL) {
      out_of_memory = true;
      return;
    }
    to->data = grown;
    to->capacity = capacity;
  }
  memcpy(to->data + to->length, data, length);
  to->length += length;
}

void line_output_put(line_output *to, const char *text) {
  line_output_append(&to->unwritten, text, strlen(text));
}

bool line_output_out_of_memory(void) {
  return out_of_memory;
}

void line_output_end_line(line_stream *from, const char *rest, size_t length) {
  char prefix[16];
  snprintf(prefix, sizeof prefix, "[%d] ", from->rank);
  line_output_append(&from->to->unwritten, prefix, strlen(prefix));
  line_output_append(&from->to->unwritten, from->begun.data, from->begun.length);
  line_output_append(&from->to->unwritten, rest, length);
  line_output_append(&from->to->unwritten, "\n", 1);
  from->begun.length = 0;
}

bool line_output_read(line_stream *from) {
  static char piece[LINE_OUTPUT_PIECE];
  ssize_t got = read(from->descriptor, piece, sizeof piece);
  if (got < 0) return errno == EINTR;
  const char *rest = piece;
  for (const char *end; (end = memchr(rest, '\n', (size_t)(piece + got - rest))) != NULL;) {
    line_output_end_line(from, rest, (size_t)(end - rest));
    rest = end + 1;
  }
  line_output_append(&from->begun, rest, (size_t)(piece + got - rest));
  if (got > 0) return true;
  if (from->begun.length > 0) line_output_end_line(from, "", 0);
  close(from->descriptor);
  from->descriptor = -1;
  return false;
}

int line_output_write(line_output *to) {
  line_bytes *left = &to->unwritten;
  size_t most = left->length < LINE_OUTPUT_WRITE ? left->length : LINE_OUTPUT_WRITE;
  ssize_t put = to->lost ? (ssize_t)left->length : write(to->descriptor, left->data, most);
  int error = put < 0 ? errno : 0;
  if (error == EINTR || error == EAGAIN) return 0;
  if (error != 0) {
    to->lost = true;
    put = (ssize_t)left->length;
  }
  left->length -= (size_t)put;
  memmove(left->data, left->data + put, left->length);
  return error;
}
