/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of the C tests. A test program is a list of functions run in order by RUN; the first
 * failed check prints where and exits with 1, so a program that ends with 0 has passed them all.
 */
#ifndef RING_CHECK_H
#define RING_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                      \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* Compares integers and prints both on failure. */
#define CHECK_INT(actual, expected)                                                                \
  do {                                                                                             \
    long long check_actual = (long long)(actual), check_expected = (long long)(expected);          \
    if (check_actual != check_expected) {                                                          \
      fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, check_actual,  \
              check_expected);                                                                     \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* Checks that text contains part and prints both on failure. */
#define CHECK_CONTAINS(text, part)                                                                 \
  do {                                                                                             \
    const char *check_text = (text), *check_part = (part);                                         \
    if (strstr(check_text, check_part) == NULL) {                                                  \
      fprintf(stderr, "%s:%d: \"%s\" does not contain \"%s\"\n", __FILE__, __LINE__, check_text,   \
              check_part);                                                                         \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define RUN(test)                                                                                  \
  do {                                                                                             \
    printf("%s\n", #test);                                                                         \
    fflush(stdout);                                                                                \
    test();                                                                                        \
  } while (0)

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHECK_THREADS_ALONE true
#endif
#endif
#ifndef CHECK_THREADS_ALONE
#define CHECK_THREADS_ALONE false
#endif

/* As RUN, but not with the sanitizer of threads, which sees nothing in a test that gives each rank one thread, or
 * that varies values only. */
#define RUN_WITHOUT_THREADS(test)                                                                  \
  do {                                                                                             \
    if (!CHECK_THREADS_ALONE) RUN(test);                                                           \
  } while (0)

#endif
