/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/rules.h"

#include <string.h>

#include "base/address.h"
#include "base/error.h"

/* One rule as a string, for errors. */
typedef struct rules_piece {
  const char *source;
  ring_quoted quoted;
  ring_error *error;
} rules_piece;

static rules_piece rules_piece_of(const char *source, const char *text, size_t length,
                                  ring_error *error) {
  char piece[80];
  size_t shown = length < sizeof piece ? length : sizeof piece - 1;
  memcpy(piece, text, shown);
  piece[shown] = '\0';
  return (rules_piece){source, ring_quote(piece), error};
}

static ring_status rules_bad(const rules_piece *piece, const char *why, const char *names) {
  return ring_error_set(piece->error, RING_INVALID, -1, 0, "%s: %s %s%s", piece->source,
                        piece->quoted.text, why, names);
}

/* ---- Ranges ------------------------------------------------------------------------------- */

/* Parses all of the string as a size, such as "64KiB". */
static bool rules_bytes(const char *text, size_t length, uint64_t *bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB"};
  size_t digits = 0;
  *bytes = 0;
  while (digits < length && text[digits] >= '0' && text[digits] <= '9') digits++;
  if (digits == 0 || digits > 15) return false;
  for (size_t i = 0; i < digits; i++) *bytes = *bytes * 10 + (uint64_t)(text[i] - '0');
  if (digits == length) return true;
  for (int unit = 0; unit < 3; unit++) {
    int shift = 10 * (unit + 1);
    if (length - digits != 3 || memcmp(text + digits, units[unit], 3) != 0) continue;
    if (*bytes > UINT64_MAX >> shift) return false;
    *bytes <<= shift;
    return true;
  }
  return false;
}

static bool rules_range(const char *text, size_t length, ring_rule *rule) {
  const char *dash = memchr(text, '-', length);
  if (dash == NULL || length == 1) return false;
  size_t before = (size_t)(dash - text), after = length - before - 1;
  if (before > 0 && !rules_bytes(text, before, &rule->from)) return false;
  if (after > 0 && !rules_bytes(dash + 1, after, &rule->to)) return false;
  return rule->from <= rule->to;
}

/* ---- Rules -------------------------------------------------------------------------------- */

static ring_status rules_parse_rule(const rules_piece *piece, const char *text, size_t length,
                                    ring_rule *rule) {
  char names[256];
  ring_algorithm algorithm;
  const char *end = text + length, *colon = memchr(text, ':', length);
  if (colon == NULL)
    return rules_bad(piece, "is no rule: write collective:algorithm or",
                     " "
                     "collective:algorithm:from-to, with commas between rules");
  if (!ring_algorithm_collective(text, (size_t)(colon - text), &rule->collective)) {
    ring_algorithm_list_collectives(names, sizeof names);
    return rules_bad(piece, "does not begin with a collective; there are ", names);
  }
  const char *name = colon + 1, *second = memchr(name, ':', (size_t)(end - name));
  size_t name_length = (size_t)((second != NULL ? second : end) - name);
  if (!ring_algorithm_parse(name, name_length, &algorithm) ||
      !ring_algorithm_serves(algorithm, rule->collective)) {
    ring_algorithm_list(rule->collective, names, sizeof names);
    return rules_bad(piece, "names no algorithm of that collective; there are ", names);
  }
  rule->algorithm = (uint8_t)algorithm;
  rule->from = 0;
  rule->to = UINT64_MAX;
  if (second == NULL || rules_range(second + 1, (size_t)(end - second - 1), rule)) return RING_OK;
  return rules_bad(piece, "ends in no range of sizes:",
                   " write 64KiB-, -1MiB or 64KiB-1MiB, in bytes, KiB, MiB or GiB");
}

ring_status ring_rules_parse(ring_rules *rules, const char *source, const char *text,
                             ring_error *error) {
  *rules = (ring_rules){0};
  if (text == NULL || *text == '\0') return RING_OK;
  for (const char *next = text; next != NULL;) {
    next += strspn(next, " ");
    size_t length = strcspn(next, ",");
    const char *comma = next[length] == ',' ? next + length + 1 : NULL;
    while (length > 0 && next[length - 1] == ' ') length--;
    if (rules->count == RING_RULES_MOST)
      return ring_error_set(error, RING_INVALID, -1, 0, "%s has more than %d rules", source,
                            RING_RULES_MOST);
    rules_piece piece = rules_piece_of(source, next, length, error);
    ring_status status = rules_parse_rule(&piece, next, length, &rules->rules[rules->count]);
    if (status != RING_OK) return status;
    rules->count++;
    next = comma;
  }
  return RING_OK;
}

const ring_rule *ring_rules_find(const ring_rules *rules, const ring_call *call,
                                 const ring_topology *topology, uint64_t bytes, bool *unfit) {
  *unfit = false;
  for (int i = 0; i < rules->count; i++) {
    const ring_rule *rule = &rules->rules[i];
    if (rule->collective != call->collective || bytes < rule->from || bytes > rule->to) continue;
    if (ring_algorithm_fits((ring_algorithm)rule->algorithm, call, topology)) return rule;
    *unfit = true;
  }
  return NULL;
}
