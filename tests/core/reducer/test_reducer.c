/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducer: another order on each rank, several threads, cached names, a cache that is too small,
 * fusion and autotuning.
 */
#include <pthread.h>
#include <unistd.h>

#include "reducer/autotune.h"
#include "reducers.h"

enum { NAMES = 60, ROUNDS = 8, WIDTH = 37 };

static void shuffle(int *order, int count, unsigned *seed) {
  for (int i = 0; i < count; i++) {
    int j = rand_r(seed) % (i + 1);
    order[i] = order[j];
    order[j] = i;
  }
}

typedef struct worker {
  ring_reducer *reducer;
  int rank, size, number; /* of this thread */
} worker;

static void sum_round(const worker *of, unsigned *seed) {
  static const int64_t width = WIDTH;
  float (*data)[WIDTH] = calloc(NAMES, sizeof *data);
  ring_submission *submissions[NAMES];
  int order[NAMES];
  shuffle(order, NAMES, seed);
  for (int i = 0; i < NAMES; i++) {
    char name[32];
    int which = order[i];
    snprintf(name, sizeof name, "thread %d tensor %d", of->number, which);
    for (int j = 0; j < WIDTH; j++) data[which][j] = (float)(which + j + of->rank);
    ring_operation operation = sum_of(name, data[which], &width);
    submissions[which] = submit(of->reducer, &operation);
  }
  for (int i = NAMES - 1; i >= 0; i--) finish_well(submissions[order[i]]);
  for (int i = 0; i < NAMES; i++)
    for (int j = 0; j < WIDTH; j++)
      CHECK(data[i][j] == (float)(of->size * (i + j) + of->size * (of->size - 1) / 2));
  free(data);
}

static void *sum_rounds(void *arg) {
  const worker *of = arg;
  unsigned seed = (unsigned)(of->rank * 7 + of->number + 1);
  for (int i = 0; i < ROUNDS; i++) sum_round(of, &seed);
  return NULL;
}

static void sum_with(ring_comm *comm, const ring_reducer_options *options, int threads) {
  worker workers[3];
  pthread_t ids[3];
  ring_reducer *reducer = reducer_of(comm, options);
  for (int i = 0; i < threads; i++) {
    workers[i] = (worker){reducer, ring_comm_rank(comm), ring_comm_size(comm), i};
    CHECK_INT(pthread_create(&ids[i], NULL, sum_rounds, &workers[i]), 0);
  }
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  end_reducer(reducer);
}

static void try_orders(ring_comm *comm, void *shared) {
  (void)shared;
  sum_with(comm, NULL, 1);
}

static void test_any_order(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, try_orders, NULL);
}

static void try_threads(ring_comm *comm, void *shared) {
  (void)shared;
  sum_with(comm, NULL, 3);
}

static void test_any_thread(void) {
  run_comms(3, try_threads, NULL);
}

static void try_tiny_cache(ring_comm *comm, void *shared) {
  (void)shared;
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.cache_capacity = 5;
  options.threshold = 1;
  options.cycle_time = RING_NEVER;
  sum_with(comm, &options, 2);
}

static void test_evicted_names_are_agreed_on_again(void) {
  run_comms(3, try_tiny_cache, NULL);
}

/* Nobody waits: the reducer's thread runs the cycles. */
static void try_background(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float value = 1;
  int done = 0;
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  ring_submission *submission = submit(reducer, &operation);
  for (int i = 0; i < 20000 && !done; i++) {
    CHECK_INT(ring_submission_test(submission, &done), RING_OK);
    usleep(500);
  }
  CHECK(done);
  CHECK(value == (float)ring_comm_size(comm));
  finish_well(submission);
  end_reducer(reducer);
}

static void test_runs_while_nobody_waits(void) {
  run_comms(3, try_background, NULL);
}

static void try_steady(ring_comm *comm, void *shared) {
  (void)shared;
  ring_reducer_counters before, after;
  ring_reducer *reducer = reducer_of(comm, NULL);
  expect_works(reducer, "x", ring_comm_size(comm));
  ring_reducer_counters_read(reducer, &before);
  for (int i = 0; i < 50; i++) expect_works(reducer, "x", ring_comm_size(comm));
  ring_reducer_counters_read(reducer, &after);
  CHECK_INT(before.negotiations, 1);
  CHECK_INT(after.negotiations, 1);
  CHECK_INT(after.cached, 1);
  CHECK_INT(after.operations - before.operations, 50);
  end_reducer(reducer);
}

static void test_known_names_are_not_described_again(void) {
  run_comms(2, try_steady, NULL);
}

/* 40 alike tensors are one run, of other dtypes and ops more. */
static void try_fusion(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float values[40];
  ring_submission *submissions[40];
  ring_reducer_counters counters;
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.cycle_time = 0.005;
  ring_reducer *reducer = reducer_of(comm, &options);
  for (int i = 0; i < 40; i++) {
    char name[8];
    snprintf(name, sizeof name, "%d", i);
    values[i] = 1;
    ring_operation operation = sum_of(name, &values[i], &one);
    operation.op = i % 2 ? RING_SUM : RING_PROD;
    submissions[i] = submit(reducer, &operation);
  }
  for (int i = 0; i < 40; i++) finish_well(submissions[i]);
  for (int i = 0; i < 40; i++) CHECK(values[i] == (i % 2 ? (float)ring_comm_size(comm) : 1));
  ring_reducer_counters_read(reducer, &counters);
  CHECK_INT(counters.operations, 40);
  CHECK(counters.runs < 20);
  end_reducer(reducer);
}

static void test_alike_tensors_travel_together(void) {
  run_comms(2, try_fusion, NULL);
}

/* Lines of the file of rank 0, the last of which names the settings of all ranks from there on. */
static void expect_tuned(const char *path, const ring_reducer_counters *counters) {
  char line[200], last[200] = "";
  int lines = 0, chosen = 0;
  unsigned long long threshold;
  double cycle_time, rate;
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    if (lines++ == 0) CHECK_CONTAINS(line, "threshold,cycle_time,bytes_per_second,chosen");
    memcpy(last, line, sizeof last);
  }
  fclose(file);
  CHECK_INT(lines, 1 + 2 + 7 + 5 + 1);
  CHECK_INT(sscanf(last, "%llu,%lf,%lf,%d", &threshold, &cycle_time, &rate, &chosen), 4);
  CHECK_INT(chosen, 1);
  CHECK_INT(threshold, counters->threshold);
  CHECK(cycle_time == counters->cycle_time);
  CHECK(rate > 0);
}

static void try_autotune(ring_comm *comm, void *path) {
  static const int64_t count = 1000;
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.autotune = RING_ON;
  options.autotune_log = path;
  ring_reducer *reducer = reducer_of(comm, &options);
  ring_reducer_counters counters;
  for (int step = 0; step < 14 * (AUTOTUNE_STEPS + 1) + 5; step++) {
    float one[1000] = {1}, other[1000] = {2};
    ring_operation first = sum_of("first", one, &count), second = sum_of("second", other, &count);
    ring_submission *submissions[] = {submit(reducer, &first), submit(reducer, &second)};
    for (int i = 0; i < 2; i++) finish_well(submissions[i]);
    CHECK(one[0] == (float)ring_comm_size(comm));
    CHECK(other[0] == 2 * (float)ring_comm_size(comm));
  }
  ring_reducer_counters_read(reducer, &counters);
  end_reducer(reducer);
  expect_tuned(path, &counters);
}

static void refuse_file(ring_comm *comm, void *unused) {
  (void)unused;
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  ring_reducer *reducer;
  options.autotune = RING_ON;
  options.autotune_log = "/no/such/folder/log";
  CHECK_INT(ring_reducer_open(comm, &options, &reducer), RING_SYSTEM);
  CHECK_CONTAINS(ring_comm_error(comm)->message,
                 "rank 0 (127.0.0.1) cannot write the file of autotune_log: ");
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void test_autotune(void) {
  char path[] = "/tmp/sparkring-autotune-XXXXXX";
  int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);
  run_comms(3, try_autotune, path);
  unlink(path);
  run_comms(2, refuse_file, NULL);
}

int main(void) {
  RUN(test_any_order);
  RUN(test_any_thread);
  RUN(test_evicted_names_are_agreed_on_again);
  RUN(test_runs_while_nobody_waits);
  RUN(test_known_names_are_not_described_again);
  RUN(test_alike_tensors_travel_together);
  RUN(test_autotune);
  return 0;
}
