/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_message.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* ---- One message -------------------------------------------------------------------------- */

uint8_t *ring_pmix_message_write(uint8_t *to, const ring_pmix_message *message) {
  to = bytes_put(to, message->ticket, 8);
  to = bytes_put(to, (uint32_t)message->rank, 4);
  return bytes_put(to, (uint32_t)message->value, 4);
}

bool ring_pmix_message_read(const char *bytes, size_t length, ring_pmix_message *message) {
  if (length < RING_PMIX_FIELDS) return false;
  const uint8_t *from = (const uint8_t *)bytes;
  message->ticket = bytes_get(&from, 8);
  message->rank = (int32_t)bytes_get(&from, 4);
  message->value = (int32_t)bytes_get(&from, 4);
  message->bytes = (const char *)from;
  message->length = length - RING_PMIX_FIELDS;
  return true;
}

void ring_pmix_message_head(uint8_t head[RING_PMIX_HEAD], char kind,
                            const ring_pmix_message *message) {
  uint8_t *to = bytes_put(head, 1 + RING_PMIX_FIELDS + message->length, 4);
  *to = (uint8_t)kind;
  ring_pmix_message_write(to + 1, message);
}

long ring_pmix_message_next(const char *bytes, size_t length, char *kind,
                            ring_pmix_message *message) {
  const uint8_t *from = (const uint8_t *)bytes;
  if (length < 4) return 0;
  size_t bytes_behind = bytes_get(&from, 4);
  if (bytes_behind < 1 + RING_PMIX_FIELDS || bytes_behind > 1 + RING_PMIX_FIELDS + RING_PMIX_MOST)
    return -1;
  if (length - 4 < bytes_behind) return 0;
  *kind = (char)*from;
  ring_pmix_message_read((const char *)from + 1, bytes_behind - 1, message);
  return (long)(4 + bytes_behind);
}

/* ---- Checks ------------------------------------------------------------------------------- */

int ring_pmix_message_rank(const char *ranks, int place) {
  const uint8_t *from = (const uint8_t *)ranks + 4 * (size_t)place;
  return (int)(uint32_t)bytes_get(&from, 4);
}

static bool pmix_message_is_fence(const ring_pmix_message *message, int size) {
  if (message->value < 0 || message->value > size || message->length / 4 < (size_t)message->value)
    return false;
  for (int place = 0; place < message->value; place++) {
    int rank = ring_pmix_message_rank(message->bytes, place);
    if (rank < 0 || rank >= size) return false;
  }
  size_t ranks = 4 * (size_t)message->value;
  return memchr(message->bytes + ranks, '\0', message->length - ranks) != NULL;
}

size_t ring_pmix_message_fence_head(const ring_pmix_message *message) {
  size_t ranks = 4 * (size_t)message->value;
  return ranks + strlen(message->bytes + ranks) + 1;
}

/* Whether the bytes are a key that is not empty and, where something is published, a value. */
static bool pmix_message_is_name(const ring_pmix_message *message) {
  const char *key = message->bytes, *end = key + message->length;
  if (message->value < RING_PMIX_PUBLISH || message->value > RING_PMIX_UNPUBLISH) return false;
  size_t key_length = strnlen(key, message->length);
  if (key_length == 0 || key_length == message->length) return false;
  const char *value = key + key_length + 1;
  if (message->value != RING_PMIX_PUBLISH) return value == end;
  return value < end && memchr(value, '\0', (size_t)(end - value)) == end - 1;
}

bool ring_pmix_message_is_good(char kind, const ring_pmix_message *message, int size) {
  bool is_rank = message->rank >= 0 && message->rank < size;
  switch (kind) {
  case RING_PMIX_READY:
    return message->length == 0;
  case RING_PMIX_REFUSED:
    return message->length > 0;
  case RING_PMIX_ENVIRONMENT:
    return is_rank && message->length > 0 && message->bytes[message->length - 1] == '\0';
  case RING_PMIX_CONNECTED:
  case RING_PMIX_FINALIZED:
  case RING_PMIX_ABORTED:
  case RING_PMIX_MODEX:
    return is_rank && message->length == 0;
  case RING_PMIX_FETCHED:
    return is_rank && (message->value == 0 || message->value == 1);
  case RING_PMIX_FENCE:
    return pmix_message_is_fence(message, size);
  case RING_PMIX_NAME:
    return pmix_message_is_name(message);
  default:
    return false;
  }
}

/* ---- The job ------------------------------------------------------------------------------ */

char *ring_pmix_job_write(const ring_pmix_job *job, size_t *length) {
  *length = 12 + 4 * (size_t)job->size + strlen(job->name) + 1 + strlen(job->directory) + 1;
  for (int host = 0; host < job->hosts; host++) *length += strlen(job->names[host]) + 1;
  char *bytes = malloc(*length);
  if (bytes == NULL) return NULL;
  uint8_t *to = (uint8_t *)bytes;
  to = bytes_put(to, (uint32_t)job->size, 4);
  to = bytes_put(to, (uint32_t)job->hosts, 4);
  to = bytes_put(to, (uint32_t)job->host, 4);
  for (int rank = 0; rank < job->size; rank++) to = bytes_put(to, (uint32_t)job->nodes[rank], 4);
  char *text = stpcpy((char *)to, job->name) + 1;
  text = stpcpy(text, job->directory) + 1;
  for (int host = 0; host < job->hosts; host++) text = stpcpy(text, job->names[host]) + 1;
  return bytes;
}

/* The string at *text, which becomes the next one; NULL: it does not end before `end`. */
static const char *pmix_job_string(const char **text, const char *end) {
  const char *string = *text;
  const char *zero = string < end ? memchr(string, '\0', (size_t)(end - string)) : NULL;
  if (zero != NULL) *text = zero + 1;
  return zero != NULL ? string : NULL;
}

static bool pmix_job_read_nodes(const uint8_t *from, ring_pmix_job *job) {
  bool good = true;
  for (int rank = 0; rank < job->size; rank++) {
    uint64_t node = bytes_get(&from, 4);
    job->nodes[rank] = (int)node;
    good = good && node < (uint64_t)job->hosts;
  }
  return good;
}

static bool pmix_job_read_strings(const char *text, const char *end, ring_pmix_job *job) {
  job->name = pmix_job_string(&text, end);
  job->directory = pmix_job_string(&text, end);
  bool good = job->name != NULL && job->directory != NULL && job->name[0] != '\0';
  for (int host = 0; host < job->hosts && good; host++) {
    job->names[host] = pmix_job_string(&text, end);
    good = job->names[host] != NULL;
  }
  return good && text == end;
}

bool ring_pmix_job_read(const char *bytes, size_t length, ring_pmix_job *job) {
  const uint8_t *from = (const uint8_t *)bytes;
  *job = (ring_pmix_job){0};
  if (length < 12) return false;
  uint64_t size = bytes_get(&from, 4), hosts = bytes_get(&from, 4), host = bytes_get(&from, 4);
  if (size > INT_MAX || (length - 12) / 4 < size || hosts > size || host >= hosts) return false;
  job->size = (int)size;
  job->hosts = (int)hosts;
  job->host = (int)host;
  job->nodes = malloc(size * sizeof(*job->nodes));
  job->names = malloc(hosts * sizeof(*job->names));
  if (job->nodes != NULL && job->names != NULL && pmix_job_read_nodes(from, job) &&
      pmix_job_read_strings((const char *)from + 4 * size, bytes + length, job))
    return true;
  ring_pmix_job_free(job);
  return false;
}

void ring_pmix_job_free(ring_pmix_job *job) {
  free(job->nodes);
  free(job->names);
  *job = (ring_pmix_job){0};
}
