/* SPDX-License-Identifier: Apache-2.0
 *
 * Several hosts with several ranks, played on one: ranks whose address is 127.0.0.1, 127.0.0.2 and
 * so on are on different hosts for the core, which listen on these addresses only. A placement is a
 * text with a character for each rank, its host, from 0 on. Hierarchical allreduce of everything, forced and
 * chosen; what it says about itself; which links it uses; what ranks hear of a failure in it; and
 * all other collectives over such hosts.
 */
#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "check.h"
#include "engine/reduce.h"
#include "ranks.h"
#include "schedule/schedule.h"
#include "values.h"

enum { SIZE_MOST = 17 };

static const char *const placements[] = {"001",     "0011",     "0101",     "0110",
                                         "00112",   "01222",    "001122",   "0100110",
                                         "0000111", "00112233", "012012012"};
enum { PLACEMENTS = sizeof placements / sizeof placements[0] };

/* What all ranks of a run share. */
typedef struct place {
  const char *nodes;
  const char *algorithms;
  int victim;
  size_t count;
  int arrived;
  uint64_t digests[SIZE_MOST];
  double died;
} place;

static ring_comm *open_at(int rank, int size, const place *place) {
  static char hosts[SIZE_MOST][32];
  static const char *addresses[SIZE_MOST];
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error;
  for (int i = 0; i < size; i++) {
    snprintf(hosts[i], sizeof hosts[i], "127.0.0.%d:4242", place->nodes[i] - '0' + 1);
    addresses[i] = hosts[i];
  }
  options.addresses = addresses;
  options.algorithms = place->algorithms;
  if (ring_comm_open(&options, &comm, &error) != RING_OK) {
    fprintf(stderr, "rank %d of %s: %s\n", rank, place->nodes, error.message);
    exit(1);
  }
  return comm;
}

static void close_at(ring_comm *comm) {
  ring_status status = ring_comm_close(comm);
  if (status != RING_OK) fprintf(stderr, "close: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  ring_comm_free(comm);
}

static void run_place(rank_function function, place with) {
  RUN_RANKS((int)strlen(with.nodes), function, with);
}

/* All ranks pass; the number of ranks met only grows. */
static void meet(place *place, int size) {
  int before = __sync_fetch_and_add(&place->arrived, 1);
  while (*(volatile int *)&place->arrived < (before / size + 1) * size) usleep(200);
}

static void check_same_everywhere(ring_comm *comm, place *place, const void *bytes, size_t length) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  place->digests[rank] = digest_of(bytes, length);
  meet(place, size);
  for (int other = 0; other < size; other++) CHECK(place->digests[other] == place->digests[rank]);
  meet(place, size);
}

static ring_explanation explained(ring_comm *comm, const char *collective, size_t bytes,
                                  ring_dtype dtype) {
  ring_explanation said;
  CHECK_INT(ring_comm_explain(comm, collective, bytes, dtype, 0, &said), RING_OK);
  return said;
}

static ring_counters counters_of(ring_comm *comm) {
  ring_counters counters;
  CHECK_INT(ring_comm_counters(comm, -1, &counters), RING_OK);
  return counters;
}

/* ---- Allreduce ---------------------------------------------------------------------------- */

/* Values of which every op's result is exact in every dtype. */
static double plain(ring_op op, int rank, int size, size_t i) {
  if (op == RING_PROD) return (i + (size_t)rank) % 4 == 0 ? 2 : 1;
  if (op == RING_LAND || op == RING_LOR) return (double)((i + (size_t)rank * 5) % 7 % 3);
  return exact(rank, i) * (op == RING_AVG ? size : 1);
}

static double folded(ring_op op, int size, size_t i) {
  double value = plain(op, 0, size, i);
  if (op == RING_LAND || op == RING_LOR) value = value != 0;
  for (int rank = 1; rank < size; rank++) {
    double next = plain(op, rank, size, i);
    if (op == RING_SUM || op == RING_AVG) value += next;
    if (op == RING_PROD) value *= next;
    if (op == RING_MIN) value = fmin(value, next);
    if (op == RING_MAX) value = fmax(value, next);
    if (op == RING_LAND) value = value != 0 && next != 0;
    if (op == RING_LOR) value = value != 0 || next != 0;
  }
  return op == RING_AVG ? value / size : value;
}

/* Of what all ranks hold each looks at a part. */
static void check_folded(const void *result, ring_dtype dtype, ring_op op, int rank, int size,
                         size_t count) {
  uint8_t expected[8];
  size_t width = ring_dtype_size(dtype);
  for (size_t i = (size_t)rank; i < count; i += (size_t)size) {
    put(expected, dtype, 0, folded(op, size, i));
    CHECK(memcmp(expected, (const uint8_t *)result + i * width, width) == 0);
  }
}

/* With counters that must be those that were foretold. */
static void reduce_as_said(ring_comm *comm, const void *x, void *y, size_t count, ring_dtype dtype,
                           ring_op op) {
  ring_explanation said = explained(comm, "allreduce", count * ring_dtype_size(dtype), dtype);
  ring_counters before = counters_of(comm);
  CHECK(strcmp(said.algorithm, "hierarchical") == 0);
  CHECK_INT(ring_allreduce(comm, x, y, count, dtype, op), RING_OK);
  ring_counters after = counters_of(comm);
  CHECK_INT(after.messages_sent - before.messages_sent, said.messages_sent);
  CHECK_INT(after.messages_received - before.messages_received, said.messages_received);
  CHECK_INT(after.bytes_sent - before.bytes_sent, said.bytes_sent);
  CHECK_INT(after.bytes_received - before.bytes_received, said.bytes_received);
}

/* Out of place, again, and in place. */
static void reduce_thrice(ring_comm *comm, place *place, ring_dtype dtype, ring_op op, size_t count,
                          bool roughly) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t width = ring_dtype_size(dtype), bytes = count * width;
  uint8_t *x = calloc(count + 1, width), *y = calloc(count + 1, width);
  uint8_t *again = calloc(count + 1, width);
  for (size_t i = 0; i < count; i++)
    put(x, dtype, i, roughly ? rough(rank, i) : plain(op, rank, size, i));
  reduce_as_said(comm, x, y, count, dtype, op);
  CHECK_INT(ring_allreduce(comm, x, again, count, dtype, op), RING_OK);
  CHECK(memcmp(y, again, bytes) == 0);
  CHECK_INT(ring_allreduce(comm, x, x, count, dtype, op), RING_OK);
  CHECK(memcmp(x, y, bytes) == 0);
  if (!roughly) check_folded(y, dtype, op, rank, size, count);
  check_same_everywhere(comm, place, y, bytes);
  free(x);
  free(y);
  free(again);
}

static void reduce_all_kinds(int rank, int size, void *shared) {
  static const size_t counts[] = {0, 1, 2, 5, 999, 4099, 70001};
  ring_comm *comm = open_at(rank, size, shared);
  for (int dtype = RING_INT8; dtype <= RING_FLOAT64; dtype++)
    for (int op = RING_SUM; op <= RING_LOR; op++) {
      if (!ring_op_allowed((ring_op)op, (ring_dtype)dtype)) continue;
      bool narrow = op == RING_AVG && ring_dtype_size((ring_dtype)dtype) == 1;
      if (narrow) continue; /* the sum would not fit */
      bool once = dtype == RING_FLOAT16 || dtype == RING_FLOAT32;
      for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] < 4099 || (op == RING_SUM && (counts[i] == 4099 || once)))
          reduce_thrice(comm, shared, (ring_dtype)dtype, (ring_op)op, counts[i], false);
    }
  for (int dtype = RING_FLOAT16; dtype <= RING_FLOAT64; dtype++)
    reduce_thrice(comm, shared, (ring_dtype)dtype, RING_SUM, 10007, true);
  close_at(comm);
}

static void test_every_kind(void) {
  for (int i = 0; i < PLACEMENTS; i++)
    run_place(reduce_all_kinds,
              (place){.nodes = placements[i], .algorithms = "allreduce:hierarchical"});
}

static void reduce_all_sizes(int rank, int size, void *shared) {
  ring_comm *comm = open_at(rank, size, shared);
  for (size_t bytes = 8; bytes <= 8 << 20; bytes *= 8) {
    reduce_thrice(comm, shared, RING_FLOAT32, RING_SUM, bytes / 4, true);
    reduce_thrice(comm, shared, RING_BFLOAT16, RING_AVG, bytes / 2, true);
  }
  close_at(comm);
}

static void test_every_size(void) {
  static const char *const chosen[] = {"0011", "00122", "0110011", "012012012"};
  for (int i = 0; i < 4; i++)
    run_place(reduce_all_sizes,
              (place){.nodes = chosen[i], .algorithms = "allreduce:hierarchical"});
}

/* The least count that goes by halving across hosts; with so few of them there are not many. */
static size_t halved_count(int hosts, int smallest) {
  size_t count = 1024;
  while (ring_hierarchy_choose(count, hosts, smallest).inter_host != RING_INTER_HOST_HALVING) {
    count += 1 + count / 50;
    CHECK(count < 10000000);
  }
  return count;
}

static void reduce_by_halving(int rank, int size, void *shared) {
  const place *place = shared;
  ring_comm *comm = open_at(rank, size, place);
  reduce_thrice(comm, shared, RING_FLOAT32, RING_SUM, place->count, true);
  reduce_thrice(comm, shared, RING_BFLOAT16, RING_AVG, place->count, true);
  reduce_thrice(comm, shared, RING_INT64, RING_SUM, place->count, false);
  close_at(comm);
}

static void test_halving_across_hosts(void) {
  run_place(reduce_by_halving, (place){.nodes = "0011223344556677",
                                       .algorithms = "allreduce:hierarchical",
                                       .count = halved_count(8, 2)});
  run_place(reduce_by_halving, (place){.nodes = "0123456789:;01234",
                                       .algorithms = "allreduce:hierarchical",
                                       .count = halved_count(12, 1)});
}

/* ---- Choosing ----------------------------------------------------------------------------- */

static int hosts_of(const char *nodes) {
  int hosts = 0;
  for (int i = 0; nodes[i] != '\0'; i++)
    if (nodes[i] - '0' >= hosts) hosts = nodes[i] - '0' + 1;
  return hosts;
}

static int local_ranks(const char *nodes, int rank) {
  int ranks = 0;
  for (int i = 0; nodes[i] != '\0'; i++) ranks += nodes[i] == nodes[rank];
  return ranks;
}

/* Those within a host are through its memory, the others are not. */
static void check_links(ring_comm *comm, const place *place) {
  int rank = ring_comm_rank(comm), inside = 0, inter_host = 0;
  for (int other = 0; other < ring_comm_size(comm); other++) {
    const char *link = ring_comm_link(comm, other);
    if (other == rank || *link == '\0') continue;
    bool same = place->nodes[other] == place->nodes[rank];
    CHECK(strcmp(link, same ? ranks_link() : ranks_network()) == 0);
    *(same ? &inside : &inter_host) += 1;
  }
  CHECK_INT(inside, local_ranks(place->nodes, rank) - 1);
  /* Those of opening have distances that are powers of two. */
  CHECK(inter_host <= 2 * 4 + 4);
}

static void choose(int rank, int size, void *shared) {
  place *place = shared;
  ring_comm *comm = open_at(rank, size, place);
  int hosts = hosts_of(place->nodes), rounds = 1;
  while (1 << rounds < hosts) rounds++;
  for (size_t bytes = 256 << 10; bytes <= 4 << 20; bytes *= 4) {
    ring_explanation said = explained(comm, "allreduce", bytes, RING_FLOAT32);
    CHECK(strcmp(said.algorithm, "hierarchical") == 0 && strcmp(said.reason, "least cost") == 0);
    CHECK(said.seconds > 0 && said.runner_up_seconds >= said.seconds);
    CHECK(said.links <= (uint64_t)(local_ranks(place->nodes, rank) - 1 + rounds + 1));
    reduce_thrice(comm, place, RING_FLOAT32, RING_SUM, bytes / 4, true);
  }
  char text[64];
  snprintf(text, sizeof text, "on %d ranks of %d hosts over network: hierarchical (least cost)",
           size, hosts);
  CHECK_CONTAINS(explained(comm, "allreduce", 1 << 20, RING_FLOAT32).text, text);
  CHECK(strcmp(explained(comm, "reduce", 8, RING_INT8).algorithm, "hierarchical") != 0);
  if (ranks_share && hosts == 2 && size <= 4)
    CHECK(strcmp(explained(comm, "allreduce", 8, RING_INT8).algorithm, "hierarchical") == 0);
  CHECK_INT(ring_comm_local_size(comm), local_ranks(place->nodes, rank));
  check_links(comm, place);
  close_at(comm);
}

static void test_hierarchies_are_chosen(void) {
  static const char *const chosen[] = {"0011", "0101", "000111", "01012", "00112233", "012012012"};
  for (int i = 0; i < 6; i++) run_place(choose, (place){.nodes = chosen[i]});
}

/* Where there is nothing to nest, a rule that names it is passed over. */
static void choose_another(int rank, int size, void *shared) {
  place *place = shared;
  int64_t x = rank + 1;
  ring_comm *comm = open_at(rank, size, place);
  ring_explanation said = explained(comm, "allreduce", 8, RING_INT64);
  CHECK(strcmp(said.algorithm, "hierarchical") != 0 && strcmp(said.reason, "rule") != 0);
  if (hosts_of(place->nodes) > 1) CHECK_CONTAINS(said.text, "; the rule cannot serve it");
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(x, size * (size + 1) / 2);
  close_at(comm);
}

static void test_what_is_not_nested(void) {
  static const char *const flat[] = {"000", "01", "0123"};
  for (int i = 0; i < 3; i++)
    run_place(choose_another, (place){.nodes = flat[i], .algorithms = "allreduce:hierarchical"});
}

/* ---- Everything else ---------------------------------------------------------------------- */

enum { PART = 5000 };

static int32_t sent(int from, int to, size_t i) {
  return (int32_t)((size_t)from * 1000000u + (size_t)to * 100000u + i);
}

static void check_part(const int32_t *part, int from, int to) {
  for (size_t i = 0; i < PART; i++) CHECK_INT(part[i], sent(from, to, i));
}

static void check_parts(const int32_t *parts, int size, int to, bool each) {
  for (int from = 0; from < size; from++)
    check_part(parts + (size_t)from * PART, from, each ? to : 0);
}

/* x holds a part for each rank. */
static void move_everything(ring_comm *comm, const int32_t *x, int32_t *y, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t counts[SIZE_MOST];
  for (int i = 0; i < size; i++) counts[i] = PART;
  CHECK_INT(ring_broadcast(comm, x, y, PART, RING_INT32, root), RING_OK);
  check_part(y, root, 0);
  CHECK_INT(ring_allgather(comm, x, y, PART, RING_INT32), RING_OK);
  check_parts(y, size, 0, false);
  CHECK_INT(ring_allgatherv(comm, x, y, counts, RING_INT32), RING_OK);
  check_parts(y, size, 0, false);
  CHECK_INT(ring_gather(comm, x, y, PART, RING_INT32, root), RING_OK);
  if (rank == root) check_parts(y, size, 0, false);
  CHECK_INT(ring_scatter(comm, x, y, PART, RING_INT32, root), RING_OK);
  check_part(y, root, rank);
  CHECK_INT(ring_scatterv(comm, x, y, counts, RING_INT32, root), RING_OK);
  check_part(y, root, rank);
  CHECK_INT(ring_alltoall(comm, x, y, PART, RING_INT32), RING_OK);
  check_parts(y, size, rank, true);
  CHECK_INT(ring_alltoallv(comm, x, counts, y, counts, RING_INT32), RING_OK);
  check_parts(y, size, rank, true);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void reduce_everything(ring_comm *comm, const int32_t *x, int32_t *y, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), from = size * (size - 1) / 2;
  size_t most = (size_t)size * PART;
  ring_request *request;
  CHECK_INT(ring_reduce(comm, x, y, PART, RING_INT32, RING_SUM, root), RING_OK);
  for (size_t i = 0; rank == root && i < PART; i++)
    CHECK_INT(y[i], sent(from, 0, 0) + size * (int32_t)i);
  CHECK_INT(ring_reduce_scatter(comm, x, y, PART, RING_INT32, RING_SUM), RING_OK);
  for (size_t i = 0; i < PART; i++) CHECK_INT(y[i], sent(from, size * rank, 0) + size * (int32_t)i);
  CHECK_INT(ring_allreduce_start(comm, x, y, most, RING_INT32, RING_MAX, &request), RING_OK);
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  for (int to = 0; to < size; to++) check_part(y + (size_t)to * PART, size - 1, to);
  ring_buffer buffers[] = {{x, y, 3}, {x + 3, y + 3, PART - 3}};
  CHECK_INT(ring_allreduce_group(comm, buffers, 2, RING_INT32, RING_MIN), RING_OK);
  check_part(y, 0, 0);
}

static void send_around(ring_comm *comm, const int32_t *x, int32_t *y) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  if (rank == 0) CHECK_INT(ring_send(comm, x, PART, RING_INT32, next), RING_OK);
  CHECK_INT(ring_recv(comm, y, PART, RING_INT32, previous), RING_OK);
  check_part(y, previous, 0);
  if (rank != 0) CHECK_INT(ring_send(comm, x, PART, RING_INT32, next), RING_OK);
}

static void call_everything(ring_comm *comm) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int32_t *x = calloc((size_t)size * PART, sizeof *x), *y = calloc((size_t)size * PART, sizeof *y);
  for (int to = 0; to < size; to++)
    for (size_t i = 0; i < PART; i++) x[(size_t)to * PART + i] = sent(rank, to, i);
  for (int root = 0; root < size; root += 2) {
    move_everything(comm, x, y, root);
    reduce_everything(comm, x, y, root);
  }
  if (size > 1) send_around(comm, x, y);
  free(x);
  free(y);
}

/* Also in children: of two hosts' ranks in turn, and of one host's. */
static void call_and_split(int rank, int size, void *shared) {
  place *place = shared;
  ring_comm *comm = open_at(rank, size, place), *child;
  call_everything(comm);
  const int colors[] = {rank % 3 == 0, place->nodes[rank]};
  for (int i = 0; i < 2; i++) {
    CHECK_INT(ring_comm_split(comm, colors[i], -rank, &child), RING_OK);
    call_everything(child);
    close_at(child);
  }
  close_at(comm);
}

static void test_everything_over_hosts(void) {
  for (int i = 0; i < PLACEMENTS; i += 2)
    run_place(call_and_split, (place){.nodes = placements[i]});
}

/* A child knows its own hosts. */
static void split_hosts(int rank, int size, void *shared) {
  ring_comm *comm = open_at(rank, size, shared), *child;
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &child), RING_OK);
  bool nested = rank % 2 == 0; /* 0, 0 and 1; but 0, 1 and 2 */
  ring_explanation said = explained(child, "allreduce", 1 << 20, RING_FLOAT32);
  CHECK((strcmp(said.algorithm, "hierarchical") == 0) == nested);
  float x[1000] = {0};
  x[999] = 1;
  CHECK_INT(ring_allreduce(child, x, x, 1000, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(x[999] == 3 && x[0] == 0);
  close_at(child);
  close_at(comm);
}

static void test_children(void) {
  run_place(split_hosts, (place){.nodes = "000112"});
}

/* ---- Failing ------------------------------------------------------------------------------ */

static void check_heard(ring_comm *comm, const place *place, ring_status status,
                        ring_status expected, const char *text) {
  double late = seconds() - place->died;
  if (status != expected || ring_comm_error(comm)->rank != place->victim)
    fprintf(stderr, "rank %d of %s, victim %d: %s\n", ring_comm_rank(comm), place->nodes,
            place->victim, ring_comm_error(comm)->message);
  CHECK_INT(status, expected);
  CHECK_INT(ring_comm_error(comm)->rank, place->victim);
  CHECK_CONTAINS(ring_comm_error(comm)->message, text);
  CHECK(late < 1);
  CHECK_INT(ring_barrier(comm), expected);
  ring_comm_free(comm);
}

static ring_comm *reduce_a_few(int rank, int size, place *place, float **x) {
  ring_comm *comm = open_at(rank, size, place);
  *x = calloc(place->count, sizeof **x);
  meet(place, size);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, *x, *x, place->count, RING_FLOAT32, RING_MAX), RING_OK);
  meet(place, size);
  return comm;
}

static place *dying;

static void die(int signal) {
  (void)signal;
  dying->died = seconds();
  _exit(0); /* without a word, as a crash */
}

/* Somewhere in a call; what the others get names the rank that died. */
static void die_in_it(int rank, int size, void *shared) {
  place *place = shared;
  ring_status status = RING_OK;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  dying = place;
  struct itimerval soon = {.it_value.tv_usec = 30000};
  if (rank == place->victim) {
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &soon, NULL);
  }
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, place->count, RING_FLOAT32, RING_MAX);
  check_heard(comm, place, status, RING_PEER_LOST, "was lost during");
  free(x);
}

static void abort_in_it(int rank, int size, void *shared) {
  place *place = shared;
  ring_status status = RING_OK;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  if (rank == place->victim) {
    place->died = seconds();
    ring_comm_abort(comm, "the loss is NaN");
    ring_comm_free(comm);
    free(x);
    return;
  }
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, place->count, RING_FLOAT32, RING_MAX);
  check_heard(comm, place, status, RING_ABORTED, "the loss is NaN");
  free(x);
}

/* Every rank of a host of three, of one of two, and one that is alone. */
static void fail_each(rank_function function) {
  static const char nodes[] = "010102";
  for (int victim = 0; victim < 6; victim++)
    for (size_t count = 2; count < 1000000; count *= 250000)
      run_place(function, (place){.nodes = nodes,
                                  .algorithms = "allreduce:hierarchical",
                                  .victim = victim,
                                  .count = count});
}

static void test_a_rank_dies(void) {
  fail_each(die_in_it);
}

static void test_a_rank_aborts(void) {
  fail_each(abort_in_it);
}

static void differ(int rank, int size, void *shared) {
  place *place = shared;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  size_t count = place->count - (rank == place->victim ? 1 : 0);
  CHECK_INT(ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_MAX), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the ranks made different calls");
  ring_comm_free(comm);
  free(x);
}

static void test_ranks_disagree(void) {
  for (int victim = 0; victim < 6; victim++)
    run_place(differ, (place){.nodes = "010102",
                              .algorithms = "allreduce:hierarchical",
                              .victim = victim,
                              .count = 5000});
}

int main(void) {
  RUN(test_every_kind);
  RUN(test_every_size);
  RUN(test_halving_across_hosts);
  RUN(test_hierarchies_are_chosen);
  RUN(test_what_is_not_nested);
  RUN(test_everything_over_hosts);
  RUN(test_children);
  RUN(test_a_rank_dies);
  RUN(test_a_rank_aborts);
  RUN(test_ranks_disagree);
  return 0;
}
