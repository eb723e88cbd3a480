/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_line.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

#define PMI_LINE_SHOWN 80 /* bytes in an error */

static bool pmi_line_is_text(char byte) {
  return (unsigned char)byte >= ' ' && byte != 127;
}

static ring_status pmi_line_refuse(const char *text, size_t length, ring_error *error,
                                   const char *problem) {
  char shown[PMI_LINE_SHOWN + 1];
  size_t end = length < PMI_LINE_SHOWN ? length : PMI_LINE_SHOWN;
  for (size_t i = 0; i < end; i++) shown[i] = pmi_line_is_text(text[i]) ? text[i] : '?';
  shown[end] = '\0';
  return ring_error_set(error, RING_INVALID, -1, 0, "the line \"%s\" %s", shown, problem);
}

static bool pmi_line_takes_rest(const char *name) {
  return strcmp(name, "value") == 0 || strcmp(name, "port") == 0 || strcmp(name, "msg") == 0 ||
         strcmp(name, "message") == 0 || strcmp(name, "error_msg") == 0;
}

/* Cuts the word at *at, and moves *at behind it. False where it has no name or no '='. */
static bool pmi_line_cut(char **at, ring_pmi_word *word) {
  char *equals = strchr(*at, '=');
  if (equals == NULL || equals == *at || *at + strcspn(*at, " ") < equals) return false;
  *equals = '\0';
  *word = (ring_pmi_word){*at, equals + 1};
  char *end = equals + 1;
  end += pmi_line_takes_rest(word->name) ? strlen(end) : strcspn(end, " ");
  *at = *end == '\0' ? end : end + 1;
  *end = '\0';
  return true;
}

ring_status ring_pmi_line_read(ring_pmi_line *line, const char *text, size_t length,
                               ring_error *error) {
  ring_pmi_word word;
  line->command = NULL;
  line->count = 0;
  if (length > RING_PMI_LINE_MOST)
    return ring_error_set(error, RING_INVALID, -1, 0, "a line is longer than %d bytes",
                          RING_PMI_LINE_MOST);
  for (size_t i = 0; i < length; i++)
    if (!pmi_line_is_text(text[i]))
      return pmi_line_refuse(text, length, error, "has bytes that are no text");
  memcpy(line->text, text, length);
  line->text[length] = '\0';
  for (char *at = line->text + strspn(line->text, " "); *at != '\0'; at += strspn(at, " ")) {
    if (!pmi_line_cut(&at, &word))
      return pmi_line_refuse(text, length, error, "has a word that is no name=value");
    if (line->command == NULL && strcmp(word.name, "cmd") != 0)
      return pmi_line_refuse(text, length, error, "does not begin with cmd=");
    if (ring_pmi_line_value(line, word.name) != NULL)
      return pmi_line_refuse(text, length, error, "has a name twice");
    if (line->count == RING_PMI_LINE_WORDS)
      return pmi_line_refuse(text, length, error, "has too many words");
    if (line->command == NULL)
      line->command = word.value;
    else
      line->words[line->count++] = word;
  }
  return line->command != NULL ? RING_OK : pmi_line_refuse(text, length, error, "is empty");
}

const char *ring_pmi_line_value(const ring_pmi_line *line, const char *name) {
  for (int i = 0; i < line->count; i++)
    if (strcmp(line->words[i].name, name) == 0) return line->words[i].value;
  return NULL;
}
