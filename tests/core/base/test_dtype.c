/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, sizes and the table of what works on what, and values that are none of the enums.
 */
#include "base/dtype.h"
#include "check.h"

static void test_sizes(void) {
  CHECK_INT(ring_dtype_size(RING_INT8), 1);
  CHECK_INT(ring_dtype_size(RING_UINT8), 1);
  CHECK_INT(ring_dtype_size(RING_INT32), 4);
  CHECK_INT(ring_dtype_size(RING_INT64), 8);
  CHECK_INT(ring_dtype_size(RING_FLOAT16), 2);
  CHECK_INT(ring_dtype_size(RING_BFLOAT16), 2);
  CHECK_INT(ring_dtype_size(RING_FLOAT32), 4);
  CHECK_INT(ring_dtype_size(RING_FLOAT64), 8);
  CHECK_INT(ring_dtype_size(RING_BOOL), 1);
  CHECK_INT(ring_dtype_size(RING_INT16), 2);
  CHECK_INT(ring_dtype_size(RING_UINT16), 2);
  CHECK_INT(ring_dtype_size(RING_UINT32), 4);
  CHECK_INT(ring_dtype_size(RING_UINT64), 8);
  CHECK_INT(ring_dtype_size(RING_COMPLEX64), 8);
  CHECK_INT(ring_dtype_size(RING_COMPLEX128), 16);
}

static void test_wide_sizes(void) {
  for (int value = 0; value < RING_DTYPE_COUNT; value++) {
    ring_dtype dtype = (ring_dtype)value;
    size_t expected = ring_dtype_is_half(dtype) ? 4 : ring_dtype_size(dtype);
    CHECK_INT(ring_dtype_wide_size(dtype), expected);
    CHECK_INT(ring_dtype_is_half(dtype), dtype == RING_FLOAT16 || dtype == RING_BFLOAT16);
  }
}

static void test_names_round_trip(void) {
  for (int value = 0; value < RING_DTYPE_COUNT; value++) {
    ring_dtype dtype = RING_FLOAT64;
    CHECK_INT(ring_dtype_parse(ring_dtype_name((ring_dtype)value), &dtype), RING_OK);
    CHECK_INT(dtype, value);
  }
  for (int value = 0; value < RING_OP_COUNT; value++) {
    ring_op op = RING_LOR;
    CHECK_INT(ring_op_parse(ring_op_name((ring_op)value), &op), RING_OK);
    CHECK_INT(op, value);
  }
  CHECK(strcmp(ring_dtype_name(RING_BFLOAT16), "bfloat16") == 0);
  CHECK(strcmp(ring_op_name(RING_AVG), "avg") == 0);
  static const char *const averages[] = {"mean", "average"};
  for (size_t i = 0; i < 2; i++) {
    ring_op op = RING_SUM;
    CHECK_INT(ring_op_parse(averages[i], &op), RING_OK);
    CHECK_INT(op, RING_AVG);
  }
}

static void test_unknown_names(void) {
  ring_dtype dtype = RING_INT32;
  ring_op op = RING_MAX;
  static const char *const names[] = {"", "float", "FLOAT32", "float32 ", "sum2", "unknown", NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_INT(ring_dtype_parse(names[i], &dtype), RING_INVALID);
    CHECK_INT(ring_op_parse(names[i], &op), RING_INVALID);
  }
  CHECK_INT(dtype, RING_INT32);
  CHECK_INT(op, RING_MAX);
  CHECK_INT(ring_dtype_parse("int8", NULL), RING_INVALID);
  CHECK_INT(ring_op_parse("sum", NULL), RING_INVALID);
}

static void test_values_outside_the_enums(void) {
  static const int outside[] = {-1, RING_DTYPE_COUNT, 99, 0x7fffffff};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    ring_dtype dtype = (ring_dtype)outside[i];
    ring_op op = (ring_op)outside[i];
    CHECK_INT(ring_dtype_size(dtype), 0);
    CHECK_INT(ring_dtype_wide_size(dtype), 0);
    CHECK(!ring_dtype_is_half(dtype));
    CHECK(strcmp(ring_dtype_name(dtype), "unknown") == 0);
    CHECK(strcmp(ring_op_name(op), "unknown") == 0);
    CHECK(!ring_op_valid(op));
    CHECK(!ring_op_allowed(RING_SUM, dtype));
    CHECK(!ring_op_allowed(op, RING_INT32));
  }
  CHECK(!ring_op_valid((ring_op)RING_OP_COUNT));
}

static void test_which_op_is_for_which_dtype(void) {
  for (int value = 0; value < RING_DTYPE_COUNT; value++) {
    ring_dtype dtype = (ring_dtype)value;
    int complex = strstr(ring_dtype_name(dtype), "complex") != NULL;
    int floating = complex || strstr(ring_dtype_name(dtype), "float") != NULL;
    CHECK_INT(ring_dtype_is_complex(dtype), complex);
    CHECK_INT(ring_dtype_is_integer(dtype), strstr(ring_dtype_name(dtype), "int") != NULL);
    for (int op = RING_LAND; op <= RING_BXOR; op++)
      CHECK_INT(ring_op_allowed((ring_op)op, dtype), !floating);
    for (int op = RING_SUM; op <= RING_MAX; op++)
      CHECK_INT(ring_op_allowed((ring_op)op, dtype), !complex || op <= RING_PROD);
    CHECK_INT(ring_op_allowed(RING_AVG, dtype), dtype != RING_BOOL);
  }
}

int main(void) {
  RUN(test_sizes);
  RUN(test_wide_sizes);
  RUN(test_names_round_trip);
  RUN(test_unknown_names);
  RUN(test_values_outside_the_enums);
  RUN(test_which_op_is_for_which_dtype);
  return 0;
}
