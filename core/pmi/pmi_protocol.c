/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of PMI-1, one function each.
 */
#include "pmi/pmi_protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static ring_pmi_action pmi_answer(ring_pmi_protocol *protocol, ring_pmi_action action,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));

static ring_pmi_action pmi_answer(ring_pmi_protocol *protocol, ring_pmi_action action,
                                  const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(protocol->answer, sizeof protocol->answer, format, arguments);
  va_end(arguments);
  return action;
}

static ring_pmi_action pmi_fail(ring_pmi_protocol *protocol, const char *problem) {
  ring_error_set(&protocol->error, RING_INVALID, -1, 0, "the command %.40s %s",
                 protocol->line.command, problem);
  return RING_PMI_FAIL;
}

/* Whether the text has 1 to `most` bytes. */
static bool pmi_fits(const char *text, size_t most) {
  return text != NULL && text[0] != '\0' && strlen(text) <= most;
}

/* ---- Commands ----------------------------------------------------------------------------- */

static ring_pmi_action pmi_init(ring_pmi_protocol *protocol) {
  const char *version = ring_pmi_line_value(&protocol->line, "pmi_version");
  if (protocol->state != RING_PMI_SILENT) return pmi_fail(protocol, "comes a second time");
  bool known = version != NULL && strcmp(version, "1") == 0;
  if (known) protocol->state = RING_PMI_ACTIVE;
  return pmi_answer(protocol, RING_PMI_ANSWER,
                    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n", known ? 0 : -1);
}

static ring_pmi_action pmi_get_maxes(ring_pmi_protocol *protocol) {
  return pmi_answer(protocol, RING_PMI_ANSWER,
                    "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", RING_PMI_SPACE_MOST,
                    RING_PMI_KEY_MOST, RING_PMI_VALUE_MOST);
}

static ring_pmi_action pmi_get_appnum(ring_pmi_protocol *protocol) {
  return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=appnum appnum=0\n");
}

static ring_pmi_action pmi_get_my_kvsname(ring_pmi_protocol *protocol) {
  return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=my_kvsname kvsname=%s\n", protocol->space);
}

static ring_pmi_action pmi_get_universe_size(ring_pmi_protocol *protocol) {
  return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=universe_size size=%d\n", protocol->size);
}

/* Whether the line is about the key-value space of this run. */
static bool pmi_is_our_space(const ring_pmi_protocol *protocol) {
  const char *space = ring_pmi_line_value(&protocol->line, "kvsname");
  return space != NULL && strcmp(space, protocol->space) == 0;
}

/* Whether a pair fits among those that the next fence sends. */
static bool pmi_has_room(const ring_pmi_protocol *protocol, const char *key, const char *value) {
  size_t unfenced = protocol->values.length - protocol->values.fenced;
  return unfenced + strlen(key) + strlen(value) + 2 <= RING_PMI_UNFENCED_MOST;
}

static ring_pmi_action pmi_put(ring_pmi_protocol *protocol) {
  const char *key = ring_pmi_line_value(&protocol->line, "key");
  const char *value = ring_pmi_line_value(&protocol->line, "value");
  if (!pmi_is_our_space(protocol))
    return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=put_result rc=-1 msg=kvsname_not_found\n");
  if (!pmi_fits(key, RING_PMI_KEY_MOST))
    return pmi_answer(protocol, RING_PMI_ANSWER,
                      "cmd=put_result rc=-1 msg=key_has_no_byte_or_more_than_%d\n",
                      RING_PMI_KEY_MOST);
  if (value == NULL || strlen(value) > RING_PMI_VALUE_MOST)
    return pmi_answer(protocol, RING_PMI_ANSWER,
                      "cmd=put_result rc=-1 msg=value_is_missing_or_has_more_than_%d_bytes\n",
                      RING_PMI_VALUE_MOST);
  if (!pmi_has_room(protocol, key, value))
    return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=put_result rc=-1 msg=space_is_full\n");
  if (ring_key_values_put(&protocol->values, key, value))
    return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=put_result rc=0 msg=success\n");
  ring_error_no_memory(&protocol->error, protocol->rank);
  return RING_PMI_FAIL;
}

static ring_pmi_action pmi_get(ring_pmi_protocol *protocol) {
  const char *key = ring_pmi_line_value(&protocol->line, "key");
  if (!pmi_is_our_space(protocol))
    return pmi_answer(protocol, RING_PMI_ANSWER,
                      "cmd=get_result rc=-1 msg=kvsname_not_found value=unknown\n");
  const char *value = key != NULL ? ring_key_values_get(&protocol->values, key) : NULL;
  if (value == NULL)
    return pmi_answer(protocol, RING_PMI_ANSWER,
                      "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=get_result rc=0 msg=success value=%s\n", value);
}

static ring_pmi_action pmi_barrier_in(ring_pmi_protocol *protocol) {
  return pmi_answer(protocol, RING_PMI_FENCE, "cmd=barrier_out\n");
}

static ring_pmi_action pmi_name(ring_pmi_protocol *protocol) {
  (void)protocol;
  return RING_PMI_NAME;
}

static ring_pmi_action pmi_finalize(ring_pmi_protocol *protocol) {
  protocol->state = RING_PMI_FINALIZED;
  return pmi_answer(protocol, RING_PMI_ANSWER, "cmd=finalize_ack\n");
}

static ring_pmi_action pmi_abort(ring_pmi_protocol *protocol) {
  const char *code = ring_pmi_line_value(&protocol->line, "exitcode");
  protocol->exit_code = code != NULL ? (int)strtol(code, NULL, 10) : 1;
  protocol->state = RING_PMI_ABORTED;
  return RING_PMI_ABORT;
}

/* ---- Spawn -------------------------------------------------------------------------------- */

/* A number behind `name` at the beginning of the text, or `none`. */
static long pmi_spawn_number(const char *text, size_t length, const char *name, long none) {
  char digits[16] = "";
  size_t begin = strlen(name);
  if (length <= begin || memcmp(text, name, begin) != 0) return none;
  size_t count = length - begin < sizeof digits - 1 ? length - begin : sizeof digits - 1;
  memcpy(digits, text + begin, count);
  return strtol(digits, NULL, 10);
}

static bool pmi_spawn_is(const char *text, size_t length, const char *line) {
  return length == strlen(line) && memcmp(text, line, length) == 0;
}

/* Lines that begin with mcmd=spawn and end with endcmd describe a program each; the last one is answered. */
static ring_pmi_action pmi_spawn(ring_pmi_protocol *protocol, const char *text, size_t length) {
  protocol->spawn_total = pmi_spawn_number(text, length, "totspawns=", protocol->spawn_total);
  protocol->spawned = pmi_spawn_number(text, length, "spawnssofar=", protocol->spawned);
  if (!pmi_spawn_is(text, length, "endcmd")) return RING_PMI_CONTINUE;
  protocol->spawns = false;
  if (protocol->spawned < protocol->spawn_total) return RING_PMI_CONTINUE;
  return pmi_answer(protocol, RING_PMI_ANSWER,
                    "cmd=spawn_result rc=-1 msg=not_supported_by_sparkring\n");
}

/* ---- Lines -------------------------------------------------------------------------------- */

typedef ring_pmi_action (*pmi_command_fn)(ring_pmi_protocol *protocol);

static const struct {
  const char *name;
  pmi_command_fn run;
} pmi_commands[] = {
    {"init", pmi_init},
    {"get_maxes", pmi_get_maxes},
    {"get_appnum", pmi_get_appnum},
    {"get_my_kvsname", pmi_get_my_kvsname},
    {"get_universe_size", pmi_get_universe_size},
    {"put", pmi_put},
    {"get", pmi_get},
    {"barrier_in", pmi_barrier_in},
    {"publish_name", pmi_name},
    {"lookup_name", pmi_name},
    {"unpublish_name", pmi_name},
    {"finalize", pmi_finalize},
    {"abort", pmi_abort},
};

ring_pmi_action ring_pmi_protocol_take(ring_pmi_protocol *protocol, const char *text,
                                       size_t length) {
  protocol->answer[0] = '\0';
  if (pmi_spawn_is(text, length, "mcmd=spawn") && protocol->state == RING_PMI_ACTIVE &&
      !protocol->spawns) {
    protocol->spawns = true;
    protocol->spawned = protocol->spawn_total = 1;
  }
  if (protocol->spawns) return pmi_spawn(protocol, text, length);
  if (ring_pmi_line_read(&protocol->line, text, length, &protocol->error) != RING_OK)
    return RING_PMI_FAIL;
  for (size_t i = 0; i < sizeof pmi_commands / sizeof pmi_commands[0]; i++) {
    if (strcmp(protocol->line.command, pmi_commands[i].name) != 0) continue;
    if (protocol->state == RING_PMI_SILENT && pmi_commands[i].run != pmi_init)
      return pmi_fail(protocol, "comes before init");
    if (protocol->state > RING_PMI_ACTIVE) return pmi_fail(protocol, "comes after the end");
    return pmi_commands[i].run(protocol);
  }
  return pmi_fail(protocol, "is none of PMI-1");
}
