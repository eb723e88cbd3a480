/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *json_value(const char *at);

static const char *json_space(const char *at) {
  while (at != NULL && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
  return at;
}

/* What follows the character, or NULL where there is another one. */
static const char *json_expect(const char *at, char character) {
  at = json_space(at);
  return at != NULL && *at == character ? at + 1 : NULL;
}

static const char *json_string(const char *at) {
  at = json_expect(at, '"');
  while (at != NULL && *at != '"') {
    if ((unsigned char)*at < ' ') return NULL;
    if (*at == '\\' && strchr("\"\\/bfnrtu", *++at) == NULL) return NULL;
    at++;
  }
  return at == NULL ? NULL : at + 1;
}

static const char *json_member(const char *at) {
  return json_value(json_expect(json_string(at), ':'));
}

/* Members up to `end`, with commas between them. */
static const char *json_list(const char *at, char end, const char *(*member)(const char *)) {
  if (json_expect(at, end) != NULL) return json_expect(at, end);
  for (;;) {
    at = json_space(member(json_space(at)));
    if (at == NULL || *at != ',') return json_expect(at, end);
    at++;
  }
}

static const char *json_value(const char *at) {
  static const char *const words[] = {"true", "false", "null"};
  at = json_space(at);
  if (at == NULL) return NULL;
  if (*at == '{') return json_list(at + 1, '}', json_member);
  if (*at == '[') return json_list(at + 1, ']', json_value);
  if (*at == '"') return json_string(at);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strncmp(at, words[i], strlen(words[i])) == 0) return at + strlen(words[i]);
  char *end;
  if (*at != '-' && !isdigit((unsigned char)*at)) return NULL;
  (void)strtod(at, &end);
  return end;
}

bool json_is_valid(const char *text) {
  const char *end = json_space(json_value(text));
  return end != NULL && *end == 0;
}
