/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values: strings, one behind another, each with its end: key, value, key, value. A fence sends the pairs
 * in this form.
 */
#ifndef RING_PMI_KEY_VALUES_H
#define RING_PMI_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes without the end of the string. */
#define RING_PMI_KEY_MOST 64
#define RING_PMI_VALUE_MOST 1024

typedef struct ring_key_values {
  char *pairs;
  size_t length, capacity;
  size_t fenced; /* bytes of the pairs that all ranks have */
} ring_key_values;

/* The value that was put last; NULL where there is none. Valid until the next change. */
const char *ring_key_values_get(const ring_key_values *values, const char *key);

/* Key and value are within the limits. False without memory. */
bool ring_key_values_put(ring_key_values *values, const char *key, const char *value);

/* How many pairs there are. */
size_t ring_key_values_count(const ring_key_values *values);

/* Removes all values of a key; false where there is none. */
bool ring_key_values_remove(ring_key_values *values, const char *key);

/* Whether bytes from another rank are pairs within the limits. */
bool ring_key_values_are_pairs(const char *pairs, size_t length);

/* Replaces what was put since the last fence by what all ranks have put since then, in rank order. The pairs
 * are good. False without memory. */
bool ring_key_values_fence(ring_key_values *values, const char *pairs, size_t length);

void ring_key_values_free(ring_key_values *values);

#endif
