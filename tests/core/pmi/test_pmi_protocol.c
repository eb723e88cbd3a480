/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of PMI without a connection: lines, answers, limits, pairs, and the process mapping.
 */
#include "check.h"
#include "pmi/name_service.h"
#include "pmi/pmi_protocol.h"
#include "pmi/process_mapping.h"

/* ---- Lines -------------------------------------------------------------------------------- */

static void refuse_line(const char *text, size_t length, const char *problem) {
  static ring_pmi_line line;
  ring_error error;
  CHECK_INT(ring_pmi_line_read(&line, text, length, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, problem);
}

static void refuse_text(const char *text, const char *problem) {
  refuse_line(text, strlen(text), problem);
}

static void test_lines(void) {
  static ring_pmi_line line;
  static const char text[] = "  cmd=put  kvsname=a  key=b=c  value= d  e=f ";
  CHECK_INT(ring_pmi_line_read(&line, text, strlen(text), NULL), RING_OK);
  CHECK(strcmp(line.command, "put") == 0);
  CHECK(strcmp(ring_pmi_line_value(&line, "kvsname"), "a") == 0);
  CHECK(strcmp(ring_pmi_line_value(&line, "key"), "b=c") == 0);
  CHECK(strcmp(ring_pmi_line_value(&line, "value"), " d  e=f ") == 0);
  CHECK(ring_pmi_line_value(&line, "e") == NULL);
}

static void test_lines_that_are_none(void) {
  static char long_line[RING_PMI_LINE_MOST + 2];
  refuse_text("", "is empty");
  refuse_text("   ", "is empty");
  refuse_text("hello", "the line \"hello\" has a word that is no name=value");
  refuse_text("cmd=a =b", "no name=value");
  refuse_text("cmd=a b c=d", "no name=value");
  refuse_text("rank=1 cmd=a", "does not begin with cmd=");
  refuse_text("cmd=a b=1 b=2", "has a name twice");
  refuse_text("cmd=a b=\x01", "has bytes that are no text");
  refuse_line("cmd=a b=\0c", 10, "has bytes that are no text");
  refuse_text("cmd=a a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1",
              "has too many words");
  memset(long_line, 'x', sizeof long_line);
  refuse_line(long_line, RING_PMI_LINE_MOST + 1, "longer than 4096 bytes");
  refuse_line(long_line, RING_PMI_LINE_MOST, "no name=value");
}

/* ---- Answers ------------------------------------------------------------------------------ */

static ring_pmi_protocol protocol;

static void begin(bool inits) {
  ring_key_values_free(&protocol.values);
  protocol = (ring_pmi_protocol){.rank = 1, .size = 3, .space = "space"};
  static const char init[] = "cmd=init pmi_version=1 pmi_subversion=1";
  if (inits) CHECK_INT(ring_pmi_protocol_take(&protocol, init, strlen(init)), RING_PMI_ANSWER);
}

static void take(const char *line, ring_pmi_action action, const char *text) {
  CHECK_INT(ring_pmi_protocol_take(&protocol, line, strlen(line)), action);
  CHECK_CONTAINS(action == RING_PMI_FAIL ? protocol.error.message : protocol.answer, text);
}

static void test_order(void) {
  begin(false);
  take("cmd=get_maxes", RING_PMI_FAIL, "get_maxes comes before init");
  take("mcmd=spawn", RING_PMI_FAIL, "does not begin with cmd=");
  take("cmd=init pmi_version=2 pmi_subversion=0", RING_PMI_ANSWER, "rc=-1");
  CHECK_INT(protocol.state, RING_PMI_SILENT);
  take("cmd=init", RING_PMI_ANSWER, "rc=-1");
  begin(true);
  take("cmd=init pmi_version=1", RING_PMI_FAIL, "comes a second time");
  take("cmd=finalize", RING_PMI_ANSWER, "finalize_ack\n");
  take("cmd=get_maxes", RING_PMI_FAIL, "comes after the end");
}

static void put(size_t key, size_t value, const char *answer) {
  char keys[RING_PMI_KEY_MOST + 2], values[RING_PMI_VALUE_MOST + 2], line[RING_PMI_LINE_MOST];
  memset(keys, 'k', sizeof keys);
  memset(values, 'v', sizeof values);
  keys[key] = values[value] = '\0';
  snprintf(line, sizeof line, "cmd=put kvsname=space key=%s value=%s", keys, values);
  take(line, RING_PMI_ANSWER, answer);
}

static void test_limits(void) {
  char line[RING_PMI_LINE_MOST], key[RING_PMI_KEY_MOST + 1];
  begin(true);
  put(RING_PMI_KEY_MOST, RING_PMI_VALUE_MOST, "put_result rc=0");
  memset(key, 'k', sizeof key);
  key[RING_PMI_KEY_MOST] = '\0';
  snprintf(line, sizeof line, "cmd=get kvsname=space key=%s", key);
  take(line, RING_PMI_ANSWER, "get_result rc=0 msg=success value=vvvv");
  CHECK_INT(strlen(protocol.answer),
            strlen("cmd=get_result rc=0 msg=success value=\n") + RING_PMI_VALUE_MOST);
  put(RING_PMI_KEY_MOST + 1, 1, "rc=-1 msg=key_has_no_byte_or_more_than_64");
  put(0, 1, "rc=-1 msg=key_has_no_byte_or_more_than_64");
  put(1, RING_PMI_VALUE_MOST + 1, "rc=-1 msg=value_is_missing_or_has_more_than_1024_bytes");
  put(1, 0, "put_result rc=0");
  take("cmd=put kvsname=other key=a value=b", RING_PMI_ANSWER, "rc=-1 msg=kvsname_not_found");
  take("cmd=get kvsname=other key=a", RING_PMI_ANSWER, "rc=-1 msg=kvsname_not_found");
  take("cmd=get kvsname=space", RING_PMI_ANSWER, "rc=-1 msg=key_not_found");
  take("cmd=put kvsname=space key=a", RING_PMI_ANSWER, "value_is_missing");
}

static void test_the_space_is_full(void) {
  size_t cost = RING_PMI_KEY_MOST + RING_PMI_VALUE_MOST + 2, pairs = RING_PMI_UNFENCED_MOST / cost;
  begin(true);
  for (size_t i = 0; i < pairs; i++) put(RING_PMI_KEY_MOST, RING_PMI_VALUE_MOST, "rc=0");
  put(RING_PMI_KEY_MOST, RING_PMI_VALUE_MOST, "cmd=put_result rc=-1 msg=space_is_full");
  protocol.values.fenced = protocol.values.length;
  put(RING_PMI_KEY_MOST, RING_PMI_VALUE_MOST, "rc=0");
  begin(false);
}

static void publish(ring_key_values *names, const char *command, int number, const char *answer) {
  static ring_pmi_line line;
  char text[128], reply[RING_PMI_ANSWER_MOST + 1];
  snprintf(text, sizeof text, "cmd=%s service=name-%d port=a", command, number);
  CHECK_INT(ring_pmi_line_read(&line, text, strlen(text), NULL), RING_OK);
  ring_name_service_answer(names, &line, reply);
  CHECK_CONTAINS(reply, answer);
}

static void test_too_many_names(void) {
  ring_key_values names = {0};
  for (int i = 0; i < RING_PMI_NAMES_MOST; i++) publish(&names, "publish_name", i, "rc=0");
  publish(&names, "publish_name", RING_PMI_NAMES_MOST, "rc=-1 msg=too_many_names");
  publish(&names, "unpublish_name", 7, "rc=0");
  publish(&names, "publish_name", RING_PMI_NAMES_MOST, "rc=0");
  ring_key_values_free(&names);
}

static void test_actions(void) {
  begin(true);
  take("cmd=barrier_in", RING_PMI_FENCE, "cmd=barrier_out\n");
  take("cmd=lookup_name service=a", RING_PMI_NAME, "");
  take("mcmd=spawn", RING_PMI_CONTINUE, "");
  take("any thing", RING_PMI_CONTINUE, "");
  take("endcmd", RING_PMI_ANSWER, "spawn_result rc=-1");
  take("cmd=abort exitcode=9 error_msg=it is over", RING_PMI_ABORT, "");
  CHECK_INT(protocol.exit_code, 9);
  CHECK_INT(protocol.state, RING_PMI_ABORTED);
  begin(true);
  take("cmd=abort", RING_PMI_ABORT, "");
  CHECK_INT(protocol.exit_code, 1);
  begin(false);
}

/* ---- Keys and values ---------------------------------------------------------------------- */

static void test_pairs(void) {
  static char much[RING_PMI_VALUE_MOST + 16];
  ring_key_values values = {0};
  CHECK(ring_key_values_put(&values, "a", "1") && ring_key_values_put(&values, "b", ""));
  CHECK(ring_key_values_put(&values, "a", "2"));
  CHECK(strcmp(ring_key_values_get(&values, "a"), "2") == 0);
  CHECK(strcmp(ring_key_values_get(&values, "b"), "") == 0);
  CHECK(ring_key_values_get(&values, "c") == NULL);
  CHECK(ring_key_values_remove(&values, "a") && !ring_key_values_remove(&values, "a"));
  CHECK(ring_key_values_get(&values, "a") == NULL && ring_key_values_get(&values, "b") != NULL);
  values.fenced = values.length;
  CHECK(ring_key_values_put(&values, "mine", "lost unless the fence has it"));
  CHECK(ring_key_values_fence(&values, "x\0001\0y\0002", 8));
  CHECK(ring_key_values_get(&values, "mine") == NULL);
  CHECK(strcmp(ring_key_values_get(&values, "y"), "2") == 0);
  CHECK_INT(values.fenced, values.length);
  CHECK(ring_key_values_fence(&values, NULL, 0));
  ring_key_values_free(&values);
  CHECK(ring_key_values_are_pairs(NULL, 0) && ring_key_values_are_pairs("a\0b", 4));
  CHECK(!ring_key_values_are_pairs("a", 2) && !ring_key_values_are_pairs("a\0b", 3));
  memset(much, 'a', sizeof much - 1);
  CHECK(!ring_key_values_are_pairs(much, sizeof much));
}

/* ---- Process mapping ---------------------------------------------------------------------- */

static void check_mapping(const int *nodes, int size, const char *expected) {
  char text[128];
  CHECK(ring_process_mapping(nodes, size, text, sizeof text));
  if (strcmp(text, expected) != 0) fprintf(stderr, "%s is not %s\n", text, expected);
  CHECK(strcmp(text, expected) == 0);
}

static void test_process_mapping(void) {
  char text[32];
  check_mapping((const int[]){0}, 1, "(vector,(0,1,1))");
  check_mapping((const int[]){0, 0, 0}, 3, "(vector,(0,1,3))");
  check_mapping((const int[]){0, 1, 2}, 3, "(vector,(0,3,1))");
  check_mapping((const int[]){0, 0, 1, 1, 2}, 5, "(vector,(0,2,2),(2,1,1))");
  check_mapping((const int[]){0, 1, 0, 1}, 4, "(vector,(0,2,1),(0,2,1))");
  check_mapping((const int[]){0, 0, 1, 0}, 4, "(vector,(0,1,2),(1,1,1),(0,1,1))");
  CHECK(!ring_process_mapping((const int[]){0, 0, 1, 0}, 4, text, sizeof text));
  for (size_t room = 0; room < 24; room++)
    CHECK(ring_process_mapping((const int[]){0, 0, 1}, 3, text, room) ==
          (room > strlen("(vector,(0,1,2),(1,1,1))")));
}

int main(void) {
  RUN(test_lines);
  RUN(test_lines_that_are_none);
  RUN(test_order);
  RUN(test_limits);
  RUN(test_the_space_is_full);
  RUN(test_too_many_names);
  RUN(test_actions);
  RUN(test_pairs);
  RUN(test_process_mapping);
  return 0;
}
