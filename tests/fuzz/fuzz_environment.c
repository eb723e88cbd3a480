/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables: the input is a list of lines NAME=VALUE, of names that are read. What was
 * accepted makes sense, what was refused names a variable, and the token is in no message.
 */
#include "../core/support/variables.h"
#include "api/environment.h"
#include "base/address.h"
#include "input.h"

enum { TOKEN_TELLTALE = 6 };

static void set_line(char *line) {
  char *equals = strchr(line, '=');
  if (equals == NULL) return;
  *equals = '\0';
  for (int i = 0; i < VARIABLES; i++)
    if (strcmp(line, variables[i]) == 0) setenv(line, equals + 1, 1);
}

static void check_read(const ring_environment *read) {
  char host[RING_HOST_BYTES];
  int port;
  FUZZ_PROMISE(read->size >= 1 && read->rank >= 0 && read->rank < read->size);
  FUZZ_PROMISE(read->address_count == 0 || read->address_count == read->size);
  for (int i = 0; i < read->address_count; i++)
    FUZZ_PROMISE(ring_address_parse(read->addresses[i], host, sizeof host, &port, NULL) == RING_OK);
  FUZZ_PROMISE(read->root_address[0] != '\0' || read->address_count > 0);
  FUZZ_PROMISE(strlen(read->job) < sizeof read->job);
  FUZZ_PROMISE(read->port_first >= 0 && read->port_first <= read->port_last);
  FUZZ_PROMISE(read->port_last <= 65535 && (read->port_first == 0) == (read->port_last == 0));
  FUZZ_PROMISE(read->timeout >= 0 && read->timeout < 1e9);
}

/* A token that another variable holds, too, or that words of a message are made of, proves
 * nothing. */
static bool is_telltale(const char *token) {
  if (strlen(token) < TOKEN_TELLTALE || strncmp(token, "\x01\x02", 2) != 0) return false;
  for (int i = 0; i < VARIABLES; i++) {
    const char *value = getenv(variables[i]);
    if (value != NULL && value != token && strstr(value, token) != NULL) return false;
  }
  return true;
}

static void check_numbers(void) {
  ring_error error = {.status = RING_OK};
  int connections = -1;
  ring_choice encryption = RING_DEFAULT;
  ring_status status = ring_environment_connections(&connections, &error);
  FUZZ_PROMISE(status == RING_OK ? connections >= 0 : error.message[0] != '\0');
  status = ring_environment_encryption(&encryption, &error);
  FUZZ_PROMISE(status == RING_OK ? encryption <= RING_OFF : error.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  ring_environment read;
  ring_error error;
  char *text = input_text(&from), *next = text;
  for (int i = 0; i < VARIABLES; i++) unsetenv(variables[i]);
  while (next != NULL) set_line(strsep(&next, "\n"));
  free(text);
  ring_environment_shared_memory();
  check_numbers();
  if (ring_environment_read(&read, &error) == RING_OK) {
    check_read(&read);
  } else {
    const char *token = getenv("SPARKRING_TOKEN");
    FUZZ_PROMISE(error.status == RING_INVALID && error.message[0] != '\0');
    FUZZ_PROMISE(token == NULL || !is_telltale(token) || strstr(error.message, token) == NULL);
    FUZZ_PROMISE(read.addresses == NULL && read.token == NULL);
  }
  ring_environment_free(&read);
  return 0;
}
