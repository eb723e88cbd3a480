/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzzer's input is cut into: numbers first, then what remains. Behind its end are zeros.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a target promises; the fuzzer keeps the input that breaks it. */
#define FUZZ_PROMISE(condition)                                                                    \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                      \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

typedef struct input {
  const uint8_t *at;
  size_t left;
} input;

static inline unsigned input_byte(input *from) {
  if (from->left == 0) return 0;
  from->left--;
  return *from->at++;
}

/* The next `length` bytes, or fewer. */
static inline input input_cut(input *from, size_t length) {
  input piece = {from->at, length < from->left ? length : from->left};
  if (piece.left > 0) from->at += piece.left; /* an empty input is NULL */
  from->left -= piece.left;
  return piece;
}

/* A piece whose length stands before it in two bytes. */
static inline input input_piece(input *from) {
  size_t length = input_byte(from);
  length |= (size_t)input_byte(from) << 8;
  return input_cut(from, length);
}

/* The rest as text, with an end; to be freed. */
static inline char *input_text(input *from) {
  char *text = malloc(from->left + 1);
  FUZZ_PROMISE(text != NULL);
  if (from->left > 0) memcpy(text, from->at, from->left);
  text[from->left] = '\0';
  from->at += from->left;
  from->left = 0;
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#endif
