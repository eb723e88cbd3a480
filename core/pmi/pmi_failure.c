/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "messages/state.h"
#include "pmi/pmix_message.h"

ring_status ring_pmi_failure_set(ring_error *error, const ring_messages *messages,
                                 ring_status status, int fault, const char *format, ...) {
  char text[sizeof error->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ring_error_set(error, status, fault, 0, "rank %d (%s): %s", fault,
                        ring_comm_host(messages->comm, fault), text);
}

ring_status ring_pmi_failure_no_memory(ring_error *error, const ring_messages *messages) {
  return ring_pmi_failure_set(error, messages, RING_NO_MEMORY, messages->rank,
                              "the PMI server is out of memory");
}

ring_status ring_pmi_failure_invalid_message(ring_error *error, const ring_messages *messages,
                                             int fault) {
  return ring_pmi_failure_set(
      error, messages, RING_SYSTEM, fault,
      "its PMI server sent an invalid message: all ranks need the same sparkring");
}

void ring_pmi_failure_keep(char *kept, const ring_messages *messages, int rank,
                           const char *problem) {
  if (kept[0] == '\0' && problem[0] != '\0')
    snprintf(kept, RING_PMIX_PROBLEM, "rank %d (%.60s): %.170s", rank,
             ring_comm_host(messages->comm, rank), problem);
}
