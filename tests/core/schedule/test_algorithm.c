/* SPDX-License-Identifier: Apache-2.0
 *
 * Every algorithm, forced by a rule, over real links between 2 to 9 forked ranks: right results,
 * the same bits on all ranks and in every run where sums depend on their order, and as much traffic
 * as ring_comm_explain predicts. Then rules that differ between ranks.
 */
#include <stddef.h>

#include "base/dtype.h"
#include "check.h"
#include "ranks.h"
#include "schedule/algorithm.h"
#include "values.h"

/* Sanitizers are slow: with them there are 2 to 5 ranks. */
enum { SIZE_MOST = 9, SIZE_LAST = SPARKRING_SANITIZED ? 5 : SIZE_MOST };
enum { LONG = 70001, MOST = 300007 };

static const size_t counts[] = {0, 1, 5, 1000, LONG, MOST};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* Shared by all ranks of a run. */
typedef struct sums {
  const char *algorithms;
  int rounds; /* in which all ranks have put their digests */
  uint64_t digests[SIZE_MOST];
} sums;

static ring_comm *open_forced(int rank, int size, const char *algorithms) {
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error;
  options.algorithms = algorithms;
  if (ring_comm_open(&options, &comm, &error) != RING_OK) fprintf(stderr, "%s\n", error.message);
  CHECK_INT(error.status, RING_OK);
  return comm;
}

/* Every rank holds these bytes, or only root, where `all` is false. */
static void check_same_everywhere(ring_comm *comm, sums *shared, const void *buffer, size_t bytes) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  shared->digests[rank] = digest_of(buffer, bytes);
  ranks_barrier(&shared->rounds, size * (shared->rounds / size + 1));
  for (int other = 0; other < size; other++) CHECK(shared->digests[other] == shared->digests[rank]);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

/* ---- Traffic ------------------------------------------------------------------------------ */

static ring_counters counters_of(ring_comm *comm) {
  ring_counters counters;
  CHECK_INT(ring_comm_counters(comm, -1, &counters), RING_OK);
  return counters;
}

static ring_explanation explained(ring_comm *comm, const char *collective, size_t bytes,
                                  ring_dtype dtype, int root) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, bytes, dtype, root, &explanation), RING_OK);
  return explanation;
}

static void check_traffic(ring_comm *comm, const ring_counters *before,
                          const ring_explanation *plan) {
  ring_counters after = counters_of(comm);
  CHECK_INT(after.messages_sent - before->messages_sent, plan->messages_sent);
  CHECK_INT(after.messages_received - before->messages_received, plan->messages_received);
  CHECK_INT(after.bytes_sent - before->bytes_sent, plan->bytes_sent);
  CHECK_INT(after.bytes_received - before->bytes_received, plan->bytes_received);
}

/* ---- Reductions --------------------------------------------------------------------------- */

typedef ring_status (*reduction)(ring_comm *comm, const void *x, void *y, size_t count,
                                 ring_dtype dtype, int root);

static ring_status allreduce(ring_comm *comm, const void *x, void *y, size_t count,
                             ring_dtype dtype, int root) {
  (void)root;
  return ring_allreduce(comm, x, y, count, dtype, RING_SUM);
}

static ring_status reduce(ring_comm *comm, const void *x, void *y, size_t count, ring_dtype dtype,
                          int root) {
  return ring_reduce(comm, x, y, count, dtype, RING_SUM, root);
}

/* Parts of the sum, put together again, so that it can be looked at like the others. */
static ring_status reduce_scatter(ring_comm *comm, const void *x, void *y, size_t count,
                                  ring_dtype dtype, int root) {
  (void)root;
  return ring_reduce_scatter(comm, x, y, count / (size_t)ring_comm_size(comm), dtype, RING_SUM);
}

typedef struct reducing {
  const char *name;
  reduction call;
  bool everywhere, parts;
} reducing;

/* Of what all ranks hold each looks at a part. */
static void check_sum(const reducing *r, int rank, int size, ring_dtype dtype, size_t count,
                      const void *sum) {
  uint8_t expected[16];
  size_t width = ring_dtype_size(dtype), mine = r->parts ? count / (size_t)size : count;
  bool all = r->everywhere && !r->parts;
  for (size_t i = all ? (size_t)rank : 0; i < mine; i += all ? (size_t)size : 1) {
    size_t at = r->parts ? (size_t)rank * mine + i : i;
    double total = 0;
    for (int other = 0; other < size; other++) total += exact(other, at);
    put(expected, dtype, 0, total);
    CHECK(memcmp(expected, (const uint8_t *)sum + i * width, width) == 0);
  }
}

static void reduce_one(ring_comm *comm, sums *shared, const reducing *r, ring_dtype dtype,
                       size_t count, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t width = ring_dtype_size(dtype);
  if (r->parts) count = (count / (size_t)size + 1) * (size_t)size;
  uint8_t *x = calloc(count + 1, width), *y = calloc(count + 1, width);
  uint8_t *again = calloc(count + 1, width);
  for (size_t i = 0; i < count; i++) put(x, dtype, i, exact(rank, i));
  ring_explanation plan = explained(comm, r->name, count * width, dtype, root);
  ring_counters before = counters_of(comm);
  CHECK_INT(r->call(comm, x, y, count, dtype, root), RING_OK);
  check_traffic(comm, &before, &plan);
  if (r->everywhere || rank == root) check_sum(r, rank, size, dtype, count, y);
  if (r->everywhere && !r->parts) check_same_everywhere(comm, shared, y, count * width);
  for (size_t i = 0; i < count; i++) put(x, dtype, i, rough(rank, i));
  CHECK_INT(r->call(comm, x, y, count, dtype, root), RING_OK);
  CHECK_INT(r->call(comm, x, again, count, dtype, root), RING_OK);
  CHECK(memcmp(y, again, count * width) == 0);
  if (r->everywhere && !r->parts) check_same_everywhere(comm, shared, y, count * width);
  free(x);
  free(y);
  free(again);
}

static void reduce_everything(int rank, int size, void *arg) {
  static const reducing reductions[] = {{"allreduce", allreduce, true, false},
                                        {"reduce", reduce, false, false},
                                        {"reduce_scatter", reduce_scatter, true, true}};
  sums *shared = arg;
  ring_comm *comm = open_forced(rank, size, shared->algorithms);
  for (int r = 0; r < 3; r++)
    for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
      for (int i = 0; i < COUNTS; i++) {
        /* The longest, which are several frames a share, for a half and a whole float. */
        bool once = dtype == RING_FLOAT16 || dtype == RING_FLOAT32;
        if (counts[i] >= LONG && !once) continue;
        reduce_one(comm, shared, &reductions[r], (ring_dtype)dtype, counts[i], (i + 1) % size);
      }
  close_rank(comm);
}

static void run_forced(rank_function function, const char *const *forced, int number) {
  sums *shared = shared_alloc(sizeof *shared);
  for (int i = 0; i < number; i++)
    for (int size = 2; size <= SIZE_LAST; size++) {
      *shared = (sums){.algorithms = forced[i]};
      run_ranks(size, function, shared);
    }
  shared_free(shared, sizeof *shared);
}

static void test_every_algorithm_reduces(void) {
  static const char *const forced[] = {"allreduce:ring,reduce:tree,reduce_scatter:ring",
                                       "allreduce:direct,reduce:chain,reduce_scatter:direct",
                                       "allreduce:doubling,reduce:tree,reduce_scatter:ring",
                                       "allreduce:halving,reduce:chain,reduce_scatter:direct"};
  run_forced(reduce_everything, forced, 4);
}

/* ---- Moving ------------------------------------------------------------------------------- */

enum { BROADCAST, ALLGATHER, ALLGATHERV, GATHER, GATHERV, SCATTER, SCATTERV, ALLTOALL, ALLTOALLV };

static const char *const moves[] = {"broadcast", "allgather", "allgatherv", "gather",   "gatherv",
                                    "scatter",   "scatterv",  "alltoall",   "alltoallv"};
enum { MOVES = sizeof moves / sizeof moves[0] };

static int32_t sent(int from, int to, size_t i) {
  return (int32_t)((size_t)from * 10000000u + (size_t)to * 1000000u + i % 999983u);
}

static ring_status move_call(ring_comm *comm, int move, const int32_t *x, int32_t *y, size_t count,
                             const size_t *parts, int root) {
  switch (move) {
  case BROADCAST:
    return ring_broadcast(comm, x, y, count, RING_INT32, root);
  case ALLGATHER:
    return ring_allgather(comm, x, y, count, RING_INT32);
  case ALLGATHERV:
    return ring_allgatherv(comm, x, y, parts, RING_INT32);
  case GATHER:
    return ring_gather(comm, x, y, count, RING_INT32, root);
  case GATHERV:
    return ring_gatherv(comm, x, y, parts, RING_INT32, root);
  case SCATTER:
    return ring_scatter(comm, x, y, count, RING_INT32, root);
  case SCATTERV:
    return ring_scatterv(comm, x, y, parts, RING_INT32, root);
  case ALLTOALL:
    return ring_alltoall(comm, x, y, count, RING_INT32);
  default:
    return ring_alltoallv(comm, x, parts, y, parts, RING_INT32);
  }
}

static bool splits(int move) {
  return move >= SCATTER;
}

/* Element i of what rank `from` has for `rank`, or, when its input is one part, for all. */
static void check_moved(int move, const int32_t *y, size_t count, int rank, int size, int root) {
  bool one = move == BROADCAST || move == SCATTER || move == SCATTERV;
  bool at_root = move == GATHER || move == GATHERV;
  if (at_root && rank != root) return;
  for (int from = 0; from < (one ? 1 : size); from++)
    for (size_t i = 0; i < count; i++)
      CHECK_INT(y[(size_t)from * count + i], sent(one ? root : from, splits(move) ? rank : 0, i));
}

static void move_one(ring_comm *comm, int move, size_t count, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t parts[SIZE_MOST], capacity = count * (size_t)size;
  int32_t *x = calloc(capacity + 1, sizeof *x), *y = calloc(capacity + 1, sizeof *y);
  for (int to = 0; to < size; to++) {
    parts[to] = count;
    for (size_t i = 0; i < count; i++)
      x[(size_t)to * count + i] = sent(rank, splits(move) ? to : 0, i);
  }
  size_t bytes = sizeof *x * (move == BROADCAST ? count : capacity);
  ring_explanation plan = explained(comm, moves[move], bytes, RING_INT32, root);
  ring_counters before = counters_of(comm);
  CHECK_INT(move_call(comm, move, x, y, count, parts, root), RING_OK);
  check_traffic(comm, &before, &plan);
  CHECK_INT(plan.bytes, bytes);
  check_moved(move, y, count, rank, size, root);
  free(x);
  free(y);
}

static void move_everything(int rank, int size, void *arg) {
  sums *shared = arg;
  ring_comm *comm = open_forced(rank, size, shared->algorithms);
  for (int move = 0; move < MOVES; move++)
    for (int i = 0; counts[i] < MOST; i++) move_one(comm, move, counts[i], (i + 1) % size);
  ring_explanation plan = explained(comm, "barrier", 0, RING_INT8, 0);
  ring_counters before = counters_of(comm);
  CHECK_INT(ring_barrier(comm), RING_OK);
  check_traffic(comm, &before, &plan);
  close_rank(comm);
}

static void test_every_algorithm_moves(void) {
  static const char *const forced[] = {
      "broadcast:tree,allgather:bruck,allgatherv:bruck,gather:tree,gatherv:tree,scatter:tree,"
      "scatterv:tree,alltoall:bruck",
      "broadcast:chain,allgather:ring,allgatherv:ring,gather:direct,gatherv:direct,scatter:direct,"
      "scatterv:direct,alltoall:pairwise"};
  run_forced(move_everything, forced, 2);
}

/* ---- Explaining --------------------------------------------------------------------------- */

static void explain_things(int rank, int size, void *arg) {
  (void)arg;
  ring_comm *comm = open_forced(rank, size, "allreduce:halving,broadcast:tree:-1KiB");
  ring_explanation e = explained(comm, "allreduce", 4000, RING_FLOAT32, 0);
  CHECK_CONTAINS(e.text, "allreduce of 4000 bytes (count 1000, float32) on 4 ranks over loopback: "
                         "halving (rule), about ");
  CHECK_CONTAINS(e.text, "; next would be ");
  CHECK_CONTAINS(e.text, "2 links; sends 4 messages, 6160 bytes; receives 4 messages, 6160 bytes; "
                         "backend native");
  CHECK(strcmp(e.backend, "native") == 0);
  CHECK_INT(e.links, 2);
  CHECK_INT(e.steps, 10); /* 4 sends, 4 receives, 2 reductions */
  CHECK(e.seconds > 0 && e.runner_up_seconds > 0 && e.runner_up[0] != '\0');
  e = explained(comm, "allreduce", 4000, RING_FLOAT16, 0);
  CHECK_CONTAINS(e.text, "(least cost; the rule cannot serve it)");
  CHECK(strcmp(e.algorithm, "halving") != 0);
  e = explained(comm, "broadcast", 1025, RING_INT8, 3);
  CHECK(strcmp(e.reason, "least cost") == 0);
  e = explained(comm, "allgather", 4001, RING_FLOAT32,
                0); /* 1001 elements, rounded up to 251 each */
  CHECK_INT(e.count, 251);
  CHECK_INT(e.bytes, 4 * 4 * 251);
  e = explained(comm, "barrier", 0, RING_INT8, 0);
  CHECK_CONTAINS(e.text, "barrier on 4 ranks over loopback: dissemination (only one)");
  CHECK_INT(ring_comm_explain(comm, "all_reduce", 1, RING_INT8, 0, &e), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message,
                 "all_reduce is no collective; there are allreduce");
  CHECK_INT(ring_comm_explain(comm, NULL, 1, RING_INT8, 0, &e), RING_INVALID);
  CHECK_INT(ring_comm_explain(comm, "reduce", 1, (ring_dtype)77, 0, &e), RING_INVALID);
  CHECK_INT(ring_comm_explain(comm, "reduce", 1, RING_INT8, 4, &e), RING_INVALID);
  CHECK_INT(ring_comm_explain(comm, "reduce", 1, RING_INT8, 0, NULL), RING_INVALID);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK_INT(ring_comm_explain(comm, "reduce", 1, RING_INT8, 0, &e), RING_INVALID);
  ring_comm_free(comm);
}

/* Where all ranks share memory, no links are used unless an algorithm is asked for. */
static void explain_shared(int rank, int size, void *arg) {
  (void)arg;
  ring_comm *comm = open_forced(rank, size, "broadcast:tree");
  ring_explanation e = explained(comm, "allreduce", 4000, RING_FLOAT32, 0);
  CHECK_CONTAINS(e.text, "allreduce of 4000 bytes (count 1000, float32) on 4 ranks over shm: slots "
                         "(shared memory), about ");
  CHECK_CONTAINS(e.text, "no links and no messages");
  CHECK_CONTAINS(e.text, "; backend native");
  CHECK(e.links == 0 && e.messages_sent == 0 && e.seconds > 0 && e.runner_up_seconds > 0);
  e = explained(comm, "allgather", 4000000, RING_FLOAT32, 0);
  CHECK(strcmp(e.algorithm, "arena") == 0);
  e = explained(comm, "allgatherv", 4000, RING_FLOAT32, 0);
  CHECK(strcmp(e.algorithm, "slots") == 0);
  e = explained(comm, "broadcast", 4000, RING_FLOAT32, 0);
  CHECK(strcmp(e.algorithm, "tree") == 0 && strcmp(e.reason, "rule") == 0);
  close_rank(comm);
}

static void test_explain(void) {
  bool shared = ranks_share;
  ranks_share = false;
  run_ranks(4, explain_things, NULL);
  ranks_share = shared;
  if (shared) run_ranks(4, explain_shared, NULL); /* else this is the second run, over TCP */
}

/* ---- Opening ------------------------------------------------------------------------------ */

static void open_apart(int rank, int size, void *arg) {
  const int *odd = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error;
  options.algorithms = rank == *odd ? "allreduce:ring" : "";
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_MISMATCH);
  CHECK(comm == NULL);
  CHECK_CONTAINS(error.message, "called open() with algorithms #");
  char odd_rank[32];
  snprintf(odd_rank, sizeof odd_rank, "rank %d called open()", *odd);
  CHECK_CONTAINS(error.message, odd_rank);
  CHECK_CONTAINS(error.message, "give all ranks the same algorithm rules");
}

static void test_ranks_with_other_overrides_do_not_open(void) {
  int *odd = shared_alloc(sizeof *odd);
  for (int size = 2; size <= 5; size++)
    for (*odd = 0; *odd < size; ++*odd) run_ranks(size, open_apart, odd);
  shared_free(odd, sizeof *odd);
}

static ring_status open_alone(ring_options *options, ring_error *error, const char **reason) {
  static ring_explanation explanation;
  ring_comm *comm;
  options->rank = 0;
  options->size = 1;
  options->root_address = "localhost";
  ring_status status = ring_comm_open(options, &comm, error);
  if (status != RING_OK) return status;
  explanation = explained(comm, "allreduce", 8, RING_INT8, 0);
  *reason = explanation.reason;
  close_rank(comm);
  return RING_OK;
}

/* The variable counts where the option is NULL, or older than its caller's struct. */
static void test_the_option_and_the_variable(void) {
  ring_options options = RING_OPTIONS_INIT;
  ring_error error;
  const char *reason = "";
  CHECK_INT(open_alone(&options, &error, &reason), RING_OK);
  CHECK_CONTAINS(reason, "least cost");
  CHECK(setenv("SPARKRING_ALGORITHM", "allreduce:tree", 1) == 0);
  CHECK_INT(open_alone(&options, &error, &reason), RING_INVALID);
  CHECK_CONTAINS(error.message, "SPARKRING_ALGORITHM: \"allreduce:tree\" names no algorithm");
  options.algorithms = "";
  CHECK_INT(open_alone(&options, &error, &reason), RING_OK);
  CHECK_CONTAINS(reason, "least cost");
  options.algorithms = "allreduce:rings";
  CHECK_INT(open_alone(&options, &error, &reason), RING_INVALID);
  CHECK_CONTAINS(error.message, "algorithms: \"allreduce:rings\" names no algorithm");
  CHECK(setenv("SPARKRING_ALGORITHM", "allreduce:doubling", 1) == 0);
  options.struct_size = offsetof(ring_options, algorithms);
  CHECK_INT(open_alone(&options, &error, &reason), RING_OK);
  CHECK_CONTAINS(reason, "rule");
  CHECK(unsetenv("SPARKRING_ALGORITHM") == 0);
}

int main(void) {
  RUN(test_every_algorithm_reduces);
  RUN(test_every_algorithm_moves);
  RUN(test_explain);
  RUN(test_ranks_with_other_overrides_do_not_open);
  RUN(test_the_option_and_the_variable);
  return 0;
}
