/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the collectives of one library:
 *   driver FOLDER LINK SECONDS COLLECTIVE,... BYTES,...
 * One sample: every rank rewrites its inputs (not timed), all wait in a barrier, and each times its
 * own calls. A sample is as many calls in a row as have BATCH bytes, each with an input of its own,
 * and counts as their mean: neither the clock nor how the ranks leave the barrier is part of the
 * figure (the root of broadcasts may run ahead of the others, in all libraries alike). Long calls
 * are alone. Each rank writes its samples to FOLDER/<rank>; the runner takes the slowest rank of
 * each sample.
 * The first sample's results are checked. Rank 0 finds how many samples fit into SECONDS and
 * broadcasts that number with the library itself. driver.py and driver.R do exactly the same, for
 * the collectives that are compared; the others are for bench/tune.py.
 * A library that gives memory which the ranks share is measured with three kinds of buffers:
 * "private" (malloc), "result" (the output is shared), "arena" (both are); else the kind is "-".
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 128 * 1024, MOST_CALLS = 256 };
enum { LEAST_SAMPLES = 3, MOST_SAMPLES = 1000, WRONG_LINK = 3 };

typedef struct buffers {
  const char *name;
  int input_shared, output_shared;
} buffers;

static const buffers ordinary[] = {{"-", 0, 0}, {NULL, 0, 0}};
static const buffers kinds[] = {{"private", 0, 0}, {"result", 0, 1}, {"arena", 1, 1}, {NULL, 0, 0}};

/* bytes counts the larger of a rank's two buffers, as nccl-tests does. */
typedef struct test {
  const collective *collective;
  const buffers *buffers;
  size_t count, inputs, outputs; /* elements of a block, of the input, of the output */
  int calls;                     /* of a sample */
  float *input, *output;
} test;

static world all;
static FILE *report;

static void die(const char *what, const char *which) {
  fprintf(stderr, "bench driver: %s: %s\n", what, which);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float *vector(size_t count, int shared) {
  size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  float *values = shared ? library_alloc(bytes) : aligned_alloc(64, bytes);
  if (!values) die("out of memory", "vector");
  memset(values, 0, count * sizeof(float));
  return values;
}

static void vector_free(float *values, int shared) {
  shared ? library_free(values) : free(values);
}

static const buffers *kinds_of_library(void) {
  void *shared = library_alloc(64);
  if (!shared) return ordinary;
  library_free(shared);
  return kinds;
}

static const collective *collective_named(const char *name) {
  const collective *row = library_collectives;
  while (row->name && strcmp(row->name, name) != 0) row++;
  return row->name ? row : NULL;
}

static int test_is(const test *test, const char *name) {
  return strcmp(test->collective->name, name) == 0;
}

static int calls_of(size_t bytes) {
  size_t calls = BATCH / bytes;
  return calls < 1 ? 1 : calls > MOST_CALLS ? MOST_CALLS : (int)calls;
}

static test test_make(const collective *collective, const buffers *buffers, size_t bytes) {
  size_t ranks = (size_t)all.size, elements = bytes / sizeof(float);
  test test = {.collective = collective, .buffers = buffers, .calls = calls_of(bytes)};
  int gathers = test_is(&test, "allgather") || test_is(&test, "gather");
  int scatters = test_is(&test, "reduce_scatter") || test_is(&test, "scatter");
  int splits = gathers || scatters || test_is(&test, "alltoall");
  test.count = splits ? (elements + ranks - 1) / ranks : elements;
  test.inputs = splits && !gathers ? test.count * ranks : test.count;
  test.outputs = splits && !scatters ? test.count * ranks : test.count;
  test.input = vector(test.inputs * (size_t)test.calls, buffers->input_shared);
  test.output = vector(test.outputs, buffers->output_shared);
  return test;
}

static void test_free(test *test) {
  vector_free(test->input, test->buffers->input_shared);
  vector_free(test->output, test->buffers->output_shared);
}

/* Seconds of one call. */
static double test_sample(const test *test) {
  for (size_t i = 0; i < test->inputs * (size_t)test->calls; i++)
    test->input[i] = (float)(all.rank + 1);
  library_barrier();
  double start = now();
  for (int call = 0; call < test->calls; call++)
    test->collective->run(test->input + (size_t)call * test->inputs, test->output, test->count);
  return (now() - start) / test->calls;
}

static void test_check(const test *test) {
  int sums = test_is(test, "allreduce") || test_is(test, "reduce_scatter");
  if (test_is(test, "broadcast") && all.rank == 0) return;
  if ((test_is(test, "reduce") || test_is(test, "gather")) && all.rank != 0) return;
  for (size_t i = 0; i < test->outputs; i++) {
    float expected = (float)(i / test->count + 1);
    if (sums || test_is(test, "reduce")) expected = (float)(all.size * (all.size + 1) / 2);
    if (library_copies) expected = (float)(all.rank + 1);
    if (test->output[i] != expected) die("wrong result", test->collective->name);
  }
}

/* Warms up, and agrees on how many samples there will be. */
static int test_samples(const test *test, double seconds) {
  test_sample(test);
  test_check(test);
  double start = now();
  test_sample(test);
  double fitting = seconds / (now() - start);
  float samples = (float)(int)(fitting < MOST_SAMPLES ? fitting : MOST_SAMPLES), agreed = 0;
  if (samples < LEAST_SAMPLES) samples = LEAST_SAMPLES;
  collective_named("broadcast")->run(&samples, &agreed, 1);
  return (int)(all.rank == 0 ? samples : agreed);
}

static void measure(const collective *collective, const buffers *buffers, size_t bytes,
                    double seconds) {
  test test = test_make(collective, buffers, bytes);
  int samples = test_samples(&test, seconds);
  size_t most = test.inputs > test.outputs ? test.inputs : test.outputs;
  fprintf(report, "%s %s %zu float32", collective->name, buffers->name, most * sizeof(float));
  for (int i = 0; i < samples; i++) fprintf(report, " %.3f", 1e6 * test_sample(&test));
  fprintf(report, "\n");
  test_free(&test);
}

static void measure_all(char *collectives, const char *sizes, double seconds) {
  const buffers *known = kinds_of_library();
  for (char *name = strtok(collectives, ","); name; name = strtok(NULL, ",")) {
    const collective *collective = collective_named(name);
    for (const char *next = sizes; collective && *next; next += *next == ',') {
      char *end;
      size_t bytes = strtoull(next, &end, 10);
      for (const buffers *each = known; each->name; each++)
        measure(collective, each, bytes, seconds);
      next = end;
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 6) die("usage", "driver FOLDER LINK SECONDS COLLECTIVE,... BYTES,...");
  all = library_open(argv[1]);
  if (strcmp(library_link(argv[2]), argv[2]) != 0) return WRONG_LINK;
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d", argv[1], all.rank);
  report = fopen(path, "w");
  if (!report) die("cannot write", path);
  measure_all(argv[4], argv[5], strtod(argv[3], NULL));
  library_close();
  return fclose(report) != 0;
}
