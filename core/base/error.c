/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

const char *ring_status_name(ring_status status) {
  switch (status) {
#define RING_STATUS_NAME(name, text)                                                               \
  case RING_##name:                                                                                \
    return #name;
    RING_STATUS_MAP(RING_STATUS_NAME)
#undef RING_STATUS_NAME
  }
  return "UNKNOWN";
}

const char *ring_status_text(ring_status status) {
  switch (status) {
#define RING_STATUS_TEXT(name, text)                                                               \
  case RING_##name:                                                                                \
    return text;
    RING_STATUS_MAP(RING_STATUS_TEXT)
#undef RING_STATUS_TEXT
  }
  return "unknown status";
}

/* ": Too many open files (...)": the text of an errno and, where it helps, what to do. */
static void error_explain(int code, char *text, size_t size) {
  struct rlimit limit;
  size_t length = (size_t)snprintf(text, size, ": %s", strerror(code));
  if (code == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 && length < size)
    snprintf(text + length, size - length,
             " (the limit of this process is %llu: raise it, with ulimit -n)",
             (unsigned long long)limit.rlim_cur);
}

ring_status ring_error_set(ring_error *error, ring_status status, int rank, int system_errno,
                           const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
  error->rank = rank;
  error->system_errno = system_errno;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  if (system_errno != 0 && length >= 0 && (size_t)length < sizeof error->message)
    error_explain(system_errno, error->message + length, sizeof error->message - (size_t)length);
  return status;
}

ring_status ring_error_no_memory(ring_error *error, int rank) {
  return ring_error_set(error, RING_NO_MEMORY, rank, 0, "rank %d is out of memory", rank);
}

ring_status ring_error_missed(ring_error *error, int rank, const char *text) {
  char theirs[sizeof error->message];
  snprintf(theirs, sizeof theirs, "%s", text); /* which may be the message of `error` */
  return ring_error_set(error, RING_ABORTED, rank, 0,
                        "peers timed out waiting for this rank (suspended or late)%s%.900s",
                        theirs[0] != '\0' ? ": " : "", theirs);
}
