/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducer beside the plain calls, in one run and in turns: forks the ranks, and prints the medians of
 * rank 0.
 *   reducer [--ranks 4] [--rounds 200]
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sparkring.h"
#include "stopwatch.h"

enum { TENSORS = 500, ELEMENTS = 1024, NAMES = 1000, NAME_ROUNDS = 5 };

static ring_comm *comm;
static ring_reducer *reducer;

static void check(ring_status status, const ring_error *error) {
  if (status == RING_OK) return;
  fprintf(stderr, "bench reducer: %s\n", error->message);
  exit(1);
}

static ring_submission *submit(const char *name, float *data, int64_t count) {
  ring_operation operation = RING_OPERATION_INIT;
  ring_submission *submission;
  operation.name = name;
  operation.input = operation.output = data;
  operation.shape = &count;
  operation.dimensions = 1;
  check(ring_reducer_submit(reducer, &operation, &submission), ring_reducer_error(reducer));
  return submission;
}

static void finish(ring_submission *submission) {
  check(ring_submission_wait(submission), ring_submission_error(submission));
  ring_submission_free(submission);
}

static double measure_group(float *data) {
  ring_buffer buffers[TENSORS];
  for (size_t i = 0; i < TENSORS; i++)
    buffers[i] = (ring_buffer){data + i * ELEMENTS, data + i * ELEMENTS, ELEMENTS};
  check(ring_barrier(comm), ring_comm_error(comm));
  double begun = now();
  check(ring_allreduce_group(comm, buffers, TENSORS, RING_FLOAT32, RING_SUM),
        ring_comm_error(comm));
  return now() - begun;
}

/* Another random order on every rank and in every round. */
static double measure_named(float *data, unsigned *seed) {
  static char names[TENSORS][32];
  ring_submission *submissions[TENSORS];
  int order[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "layer.%d.weight", i);
    order[i] = i;
  }
  for (int i = TENSORS - 1; i > 0; i--) { /* the shuffle of Fisher and Yates */
    int j = rand_r(seed) % (i + 1), other = order[j];
    order[j] = order[i];
    order[i] = other;
  }
  check(ring_barrier(comm), ring_comm_error(comm));
  double begun = now();
  for (int i = 0; i < TENSORS; i++)
    submissions[i] = submit(names[order[i]], data + (size_t)order[i] * ELEMENTS, ELEMENTS);
  for (int i = 0; i < TENSORS; i++) finish(submissions[i]);
  return now() - begun;
}

static double measure_plain_short(float *data) {
  check(ring_barrier(comm), ring_comm_error(comm));
  double begun = now();
  for (int i = 0; i < 20; i++)
    check(ring_allreduce(comm, data, data, 1, RING_FLOAT32, RING_SUM), ring_comm_error(comm));
  return (now() - begun) / 20;
}

static double measure_named_short(float *data) {
  check(ring_barrier(comm), ring_comm_error(comm));
  double begun = now();
  for (int i = 0; i < 20; i++) finish(submit("short", data, 1));
  return (now() - begun) / 20;
}

/* Names that no rank has seen before. */
static double measure_new(float *data, int round) {
  ring_submission *submissions[NAMES];
  char name[32];
  check(ring_barrier(comm), ring_comm_error(comm));
  double begun = now();
  for (int i = 0; i < NAMES; i++) {
    snprintf(name, sizeof name, "new.%d.%d", round, i);
    submissions[i] = submit(name, data + (size_t)(i % TENSORS) * ELEMENTS + i / TENSORS, 1);
  }
  for (int i = 0; i < NAMES; i++) finish(submissions[i]);
  return now() - begun;
}

static void measure(int rank, int rounds) {
  float *data = calloc((size_t)TENSORS * ELEMENTS, sizeof *data);
  double *times[5];
  unsigned seed = (unsigned)rank + 1;
  for (int i = 0; i < 5; i++) times[i] = calloc((size_t)rounds, sizeof(double));
  for (int i = -2; i < rounds; i++) {
    int at = i < 0 ? 0 : i;
    times[0][at] = measure_group(data);
    times[1][at] = measure_named(data, &seed);
    times[2][at] = measure_plain_short(data);
    times[3][at] = measure_named_short(data);
    if (i < NAME_ROUNDS) times[4][at] = measure_new(data, i);
  }
  if (rank != 0) return;
  double group = median(times[0], rounds), named = median(times[1], rounds);
  double plain = median(times[2], rounds), cycle = median(times[3], rounds);
  int names = rounds < NAME_ROUNDS ? rounds : NAME_ROUNDS;
  printf("%d tensors of 4 KB: group %.3f ms, reducer %.3f ms: %.2f times (target 1.30)\n", TENSORS,
         group * 1e3, named * 1e3, named / group);
  printf("one tensor of 4 B: plain %.1f us, reducer %.1f us: %.1f us more (target 25)\n",
         plain * 1e6, cycle * 1e6, (cycle - plain) * 1e6);
  printf("new names: %.0f a second (target 1000)\n", NAMES / median(times[4], names));
}

static void run_rank(int rank, int size, int rounds) {
  ring_options options = RING_OPTIONS_INIT;
  ring_error error;
  options.rank = rank;
  options.size = size;
  options.root_address = "127.0.0.1";
  options.token = "bench/reducer.c: sixteen bytes";
  options.token_length = 30;
  check(ring_comm_open(&options, &comm, &error), &error);
  check(ring_reducer_open(comm, NULL, &reducer), ring_comm_error(comm));
  measure(rank, rounds);
  check(ring_reducer_close(reducer), ring_reducer_error(reducer));
  ring_reducer_free(reducer);
  check(ring_comm_close(comm), ring_comm_error(comm));
  ring_comm_free(comm);
}

int main(int argc, char **argv) {
  int ranks = 4, rounds = 200, failed = 0, status;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--ranks") == 0) ranks = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--rounds") == 0) rounds = atoi(argv[i + 1]);
  }
  for (int rank = 0; rank < ranks; rank++)
    if (fork() == 0) {
      alarm(300);
      run_rank(rank, ranks, rounds);
      exit(0);
    }
  while (wait(&status) > 0) failed |= status != 0;
  return failed;
}
