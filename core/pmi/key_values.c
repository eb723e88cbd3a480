/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/key_values.h"

#include <stdlib.h>
#include <string.h>

/* The position behind a string. */
static size_t key_values_next(const ring_key_values *values, size_t at) {
  return at + strlen(values->pairs + at) + 1;
}

const char *ring_key_values_get(const ring_key_values *values, const char *key) {
  const char *found = NULL;
  for (size_t at = 0; at < values->length;) {
    size_t value = key_values_next(values, at);
    if (strcmp(values->pairs + at, key) == 0) found = values->pairs + value;
    at = key_values_next(values, value);
  }
  return found;
}

size_t ring_key_values_count(const ring_key_values *values) {
  size_t strings = 0;
  for (size_t at = 0; at < values->length; strings++) at = key_values_next(values, at);
  return strings / 2;
}

static bool key_values_append(ring_key_values *values, const char *bytes, size_t length) {
  if (length == 0) return true;
  if (values->capacity - values->length < length) {
    size_t capacity = 2 * values->capacity + length + RING_PMI_VALUE_MOST;
    char *pairs = realloc(values->pairs, capacity);
    if (pairs == NULL) return false;
    values->pairs = pairs;
    values->capacity = capacity;
  }
  memcpy(values->pairs + values->length, bytes, length);
  values->length += length;
  return true;
}

bool ring_key_values_put(ring_key_values *values, const char *key, const char *value) {
  size_t length = values->length;
  if (key_values_append(values, key, strlen(key) + 1) &&
      key_values_append(values, value, strlen(value) + 1))
    return true;
  values->length = length;
  return false;
}

bool ring_key_values_remove(ring_key_values *values, const char *key) {
  size_t kept = 0, end = values->length;
  for (size_t at = 0, next; at < end; at = next) {
    next = key_values_next(values, key_values_next(values, at));
    if (strcmp(values->pairs + at, key) == 0) continue;
    memmove(values->pairs + kept, values->pairs + at, next - at);
    kept += next - at;
  }
  values->length = kept;
  return kept < end;
}

bool ring_key_values_are_pairs(const char *pairs, size_t length) {
  size_t strings = 0;
  for (size_t at = 0; at < length; strings++) {
    size_t most = strings % 2 == 0 ? RING_PMI_KEY_MOST : RING_PMI_VALUE_MOST;
    size_t long_as = strnlen(pairs + at, length - at);
    if (long_as == length - at || long_as > most) return false;
    at += long_as + 1;
  }
  return strings % 2 == 0;
}

bool ring_key_values_fence(ring_key_values *values, const char *pairs, size_t length) {
  values->length = values->fenced;
  if (!key_values_append(values, pairs, length)) return false;
  values->fenced = values->length;
  return true;
}

void ring_key_values_free(ring_key_values *values) {
  free(values->pairs);
  *values = (ring_key_values){0};
}
