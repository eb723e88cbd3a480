/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducers, as the tests open and use them.
 */
#ifndef RING_REDUCERS_H
#define RING_REDUCERS_H

#include "check.h"
#include "ranks.h"

static inline ring_reducer *reducer_of(ring_comm *comm, const ring_reducer_options *options) {
  ring_reducer *reducer;
  ring_status status = ring_reducer_open(comm, options, &reducer);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  return reducer;
}

static inline void end_reducer(ring_reducer *reducer) {
  ring_status status = ring_reducer_close(reducer);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_reducer_error(reducer)->message);
  CHECK_INT(status, RING_OK);
  ring_reducer_free(reducer);
}

/* Submits, and checks that it was taken. */
static inline ring_submission *submit(ring_reducer *reducer, const ring_operation *operation) {
  ring_submission *submission;
  ring_status status = ring_reducer_submit(reducer, operation, &submission);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_reducer_error(reducer)->message);
  CHECK_INT(status, RING_OK);
  return submission;
}

/* A sum of `count` float32 in place. */
static inline ring_operation sum_of(const char *name, float *data, const int64_t *count) {
  ring_operation operation = RING_OPERATION_INIT;
  operation.name = name;
  operation.input = operation.output = data;
  operation.shape = count;
  operation.dimensions = 1;
  return operation;
}

static inline void finish_well(ring_submission *submission) {
  ring_status status = ring_submission_wait(submission);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_submission_error(submission)->message);
  CHECK_INT(status, RING_OK);
  ring_submission_free(submission);
}

/* Waits for it, and checks how and why it failed. */
static inline void finish_with(ring_submission *submission, ring_status expected,
                               const char *text) {
  CHECK_INT(ring_submission_wait(submission), expected);
  CHECK_INT(ring_submission_error(submission)->status, expected);
  CHECK_CONTAINS(ring_submission_error(submission)->message, text);
  ring_submission_free(submission);
}

/* Whether a sum of one element goes through. */
static inline void expect_works(ring_reducer *reducer, const char *name, int size) {
  const int64_t one = 1;
  float value = 1;
  ring_operation operation = sum_of(name, &value, &one);
  finish_well(submit(reducer, &operation));
  CHECK(value == (float)size);
}

/* Submits what this rank refuses, with this error. */
static inline void refuse(ring_reducer *reducer, const ring_operation *operation,
                          ring_status status, const char *text) {
  ring_submission *submission;
  CHECK_INT(ring_reducer_submit(reducer, operation, &submission), status);
  CHECK(submission == NULL);
  CHECK_CONTAINS(ring_reducer_error(reducer)->message, text);
}

#endif
