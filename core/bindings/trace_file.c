/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char trace_file_close[] = "\n]\n";
#define TRACE_FILE_CLOSE (sizeof trace_file_close - 1)

char *ring_trace_text_reserve(ring_trace_text *text, size_t bytes) {
  if (text->length + bytes > text->capacity) {
    size_t capacity = 2 * (text->length + bytes);
    char *grown = realloc(text->bytes, capacity);
    if (grown == NULL) {
      text->failed = true;
      return NULL;
    }
    text->bytes = grown;
    text->capacity = capacity;
  }
  return text->bytes + text->length;
}

/* Writes all bytes at `at`. Returns 0 or an errno. */
static int trace_file_put(int descriptor, const char *rest, size_t left, uint64_t at) {
  while (left > 0) {
    ssize_t put = pwrite(descriptor, rest, left, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    rest += put;
    left -= (size_t)put;
    at += (uint64_t)put;
  }
  return 0;
}

/* Cuts the file after its final lines. */
static void trace_file_repair(ring_trace_file *file) {
  if (trace_file_put(file->descriptor, trace_file_close, TRACE_FILE_CLOSE, file->end) == 0 &&
      ftruncate(file->descriptor, (off_t)(file->end + TRACE_FILE_CLOSE)) == 0)
    file->size = file->end + TRACE_FILE_CLOSE;
}

int ring_trace_file_write(ring_trace_file *file, ring_trace_text *text, size_t final) {
  size_t length = text->length, left = (size_t)(file->size - file->end);
  /* A file never becomes shorter: spaces take the place of longer provisional lines. */
  size_t spaces = length + TRACE_FILE_CLOSE < left ? left - length - TRACE_FILE_CLOSE : 0;
  char *end = ring_trace_text_reserve(text, spaces + TRACE_FILE_CLOSE);
  if (end == NULL) return ENOMEM;
  memset(end, ' ', spaces);
  memcpy(end + spaces, trace_file_close, TRACE_FILE_CLOSE);
  length += spaces + TRACE_FILE_CLOSE;
  int code = trace_file_put(file->descriptor, text->bytes, length, file->end);
  text->length = 0;
  if (code != 0) {
    trace_file_repair(file);
    return code;
  }
  file->size = file->end + length;
  file->end += final;
  return 0;
}

int ring_trace_file_open(ring_trace_file *file, const char *path, const char *first) {
  *file =
      (ring_trace_file){.descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file->descriptor < 0) return errno;
  ring_trace_text text = {0};
  size_t length = strlen(first);
  char *to = ring_trace_text_reserve(&text, 2 + length);
  int code = ENOMEM;
  if (to != NULL) {
    memcpy(to, "[\n", 2);
    memcpy(to + 2, first, length);
    text.length = 2 + length;
    code = ring_trace_file_write(file, &text, text.length);
  }
  free(text.bytes);
  if (code != 0) close(file->descriptor);
  return code;
}
