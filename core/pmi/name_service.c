/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/name_service.h"

#include <stdio.h>
#include <string.h>

/* The problem of a publication; NULL: none. */
static const char *name_service_publish(ring_key_values *names, const char *service,
                                        const char *port) {
  if (port == NULL || port[0] == '\0' || strlen(port) > RING_PMI_VALUE_MOST)
    return "port_is_missing_or_too_long";
  if (ring_key_values_get(names, service) != NULL) return "service_already_published";
  if (ring_key_values_count(names) >= RING_PMI_NAMES_MOST) return "too_many_names";
  return ring_key_values_put(names, service, port) ? NULL : "out_of_memory";
}

void ring_name_service_answer(ring_key_values *names, const ring_pmi_line *line,
                              char answer[RING_PMI_ANSWER_MOST + 1]) {
  const char *service = ring_pmi_line_value(line, "service"), *problem, *value = NULL;
  bool good = service != NULL && service[0] != '\0' && strlen(service) <= RING_PMI_KEY_MOST;
  int verb = (int)strcspn(line->command, "_");
  if (!good)
    problem = "service_is_missing_or_too_long";
  else if (strcmp(line->command, "publish_name") == 0)
    problem = name_service_publish(names, service, ring_pmi_line_value(line, "port"));
  else if (strcmp(line->command, "lookup_name") == 0)
    problem = (value = ring_key_values_get(names, service)) != NULL ? NULL : "service_not_found";
  else
    problem = ring_key_values_remove(names, service) ? NULL : "service_not_found";
  if (problem != NULL)
    snprintf(answer, RING_PMI_ANSWER_MOST + 1, "cmd=%.*s_result info=%s rc=-1 msg=%s\n", verb,
             line->command, problem, problem);
  else
    snprintf(answer, RING_PMI_ANSWER_MOST + 1, "cmd=%.*s_result info=ok rc=0%s%s\n", verb,
             line->command, value != NULL ? " port=" : "", value != NULL ? value : "");
}

bool ring_name_service_takes(const ring_pmi_line *line) {
  return strcmp(line->command, "publish_name") == 0 || strcmp(line->command, "lookup_name") == 0 ||
         strcmp(line->command, "unpublish_name") == 0;
}

bool ring_name_service_is_answer(const char *bytes, size_t length) {
  ring_pmi_line line;
  return length > 0 && length <= RING_PMI_ANSWER_MOST && bytes[length - 1] == '\n' &&
         ring_pmi_line_read(&line, bytes, length - 1, NULL) == RING_OK;
}
