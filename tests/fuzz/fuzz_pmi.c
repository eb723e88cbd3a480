/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a program, as its connection brings them, and pairs from another rank. Whatever comes, each answer is
 * one line; a refusal has its reason; the pairs that are kept stay pairs; and what was put is what is got.
 */
#include "input.h"
#include "pmi/name_service.h"

static void check_answer(const char *answer) {
  size_t length = strlen(answer);
  FUZZ_PROMISE(length > 4 && length <= RING_PMI_ANSWER_MOST);
  FUZZ_PROMISE(memchr(answer, '\n', length) == answer + length - 1);
  FUZZ_PROMISE(memcmp(answer, "cmd=", 4) == 0);
}

static void check_values(const ring_key_values *values) {
  FUZZ_PROMISE(ring_key_values_are_pairs(values->pairs, values->length));
  FUZZ_PROMISE(values->fenced <= values->length);
}

/* A line that was put is got under its key. */
static void check_put(ring_pmi_protocol *protocol) {
  if (strcmp(protocol->line.command, "put") != 0 || strstr(protocol->answer, "rc=0") == NULL)
    return;
  const char *key = ring_pmi_line_value(&protocol->line, "key");
  const char *value = ring_key_values_get(&protocol->values, key);
  FUZZ_PROMISE(value != NULL && strcmp(value, ring_pmi_line_value(&protocol->line, "value")) == 0);
}

/* The hub reads the line once more. */
static void check_name(ring_key_values *names, const char *text, size_t length) {
  static ring_pmi_line line;
  char answer[RING_PMI_ANSWER_MOST + 1];
  FUZZ_PROMISE(ring_pmi_line_read(&line, text, length, NULL) == RING_OK);
  ring_name_service_answer(names, &line, answer);
  check_answer(answer);
  check_values(names);
}

static void take_line(ring_pmi_protocol *protocol, ring_key_values *names, const char *text,
                      size_t length) {
  ring_pmi_action action = ring_pmi_protocol_take(protocol, text, length);
  if (action == RING_PMI_FAIL)
    FUZZ_PROMISE(protocol->error.status == RING_INVALID && protocol->error.message[0] != '\0');
  if (action == RING_PMI_ANSWER || action == RING_PMI_FENCE) check_answer(protocol->answer);
  if (action == RING_PMI_ANSWER && strncmp(text, "endcmd", 6) != 0) check_put(protocol);
  if (action == RING_PMI_NAME) check_name(names, text, length);
  check_values(&protocol->values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static ring_pmi_protocol protocol;
  ring_key_values names = {0};
  input from = {bytes, length};
  input pairs = input_piece(&from);
  protocol = (ring_pmi_protocol){.rank = 1, .size = 2, .space = "s"};
  if (ring_key_values_are_pairs((const char *)pairs.at, pairs.left))
    FUZZ_PROMISE(ring_key_values_fence(&protocol.values, (const char *)pairs.at, pairs.left));
  while (from.left > 0) {
    const uint8_t *end = memchr(from.at, '\n', from.left);
    input line = input_cut(&from, end != NULL ? (size_t)(end - from.at) : from.left);
    input_byte(&from); /* the newline */
    size_t most = line.left;
    char *text = input_text(&line);
    take_line(&protocol, &names, text, most);
    free(text);
  }
  ring_key_values_free(&protocol.values);
  ring_key_values_free(&names);
  return 0;
}
