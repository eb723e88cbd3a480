/* SPDX-License-Identifier: Apache-2.0
 *
 * Hierarchical allreduce over several hosts (places.h): of everything, forced and chosen; its explanation,
 * and which links it uses.
 */
#include <math.h>

#include "base/dtype.h"
#include "check.h"
#include "places.h"
#include "schedule/schedule.h"
#include "values.h"

static const char *const placements[] = {"001",     "0011",     "0101",     "0110",
                                         "00112",   "01222",    "001122",   "0100110",
                                         "0000111", "00112233", "012012012"};
enum { PLACEMENTS = sizeof placements / sizeof placements[0] };

/* ---- Allreduce ---------------------------------------------------------------------------- */

static ring_counters counters_of(ring_comm *comm) {
  ring_counters counters;
  CHECK_INT(ring_comm_counters(comm, -1, &counters), RING_OK);
  return counters;
}

/* Values of which every op's result is exact in every dtype. */
static double plain(ring_op op, int rank, int size, size_t i) {
  if (op == RING_PROD) return (i + (size_t)rank) % 4 == 0 ? 2 : 1;
  if (ring_op_is_logical(op)) return (double)((i + (size_t)rank * 5) % 7 % 3);
  if (ring_op_is_bitwise(op)) return (double)((i + (size_t)rank * 5) % 7 % 2 * 3);
  return exact(rank, i) * (op == RING_AVG ? size : 1);
}

static double folded(ring_op op, int size, size_t i) {
  double value = plain(op, 0, size, i);
  if (ring_op_is_logical(op)) value = value != 0;
  for (int rank = 1; rank < size; rank++) {
    double next = plain(op, rank, size, i);
    if (op == RING_SUM || op == RING_AVG) value += next;
    if (op == RING_PROD) value *= next;
    if (op == RING_MIN) value = fmin(value, next);
    if (op == RING_MAX) value = fmax(value, next);
    if (op == RING_LAND) value = value != 0 && next != 0;
    if (op == RING_LOR) value = value != 0 || next != 0;
    if (op == RING_LXOR) value = (value != 0) != (next != 0);
    if (op == RING_BAND) value = (int)value & (int)next;
    if (op == RING_BOR) value = (int)value | (int)next;
    if (op == RING_BXOR) value = (int)value ^ (int)next;
  }
  return op == RING_AVG ? value / size : value;
}

/* Of what all ranks hold each looks at a part. */
static void check_folded(const void *result, ring_dtype dtype, ring_op op, int rank, int size,
                         size_t count) {
  uint8_t expected[16];
  size_t width = ring_dtype_size(dtype);
  for (size_t i = (size_t)rank; i < count; i += (size_t)size) {
    put(expected, dtype, 0, folded(op, size, i));
    CHECK(memcmp(expected, (const uint8_t *)result + i * width, width) == 0);
  }
}

/* With counters that must be those of the explanation. */
static void reduce_as_explained(ring_comm *comm, const void *x, void *y, size_t count,
                                ring_dtype dtype, ring_op op) {
  ring_explanation plan = explained(comm, "allreduce", count * ring_dtype_size(dtype), dtype);
  ring_counters before = counters_of(comm);
  CHECK(strcmp(plan.algorithm, "hierarchical") == 0);
  CHECK_INT(ring_allreduce(comm, x, y, count, dtype, op), RING_OK);
  ring_counters after = counters_of(comm);
  CHECK_INT(after.messages_sent - before.messages_sent, plan.messages_sent);
  CHECK_INT(after.messages_received - before.messages_received, plan.messages_received);
  CHECK_INT(after.bytes_sent - before.bytes_sent, plan.bytes_sent);
  CHECK_INT(after.bytes_received - before.bytes_received, plan.bytes_received);
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
  reduce_as_explained(comm, x, y, count, dtype, op);
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
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++) {
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
  close_rank(comm);
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
  close_rank(comm);
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
  close_rank(comm);
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
    ring_explanation plan = explained(comm, "allreduce", bytes, RING_FLOAT32);
    CHECK(strcmp(plan.algorithm, "hierarchical") == 0 && strcmp(plan.reason, "least cost") == 0);
    CHECK(plan.seconds > 0 && plan.runner_up_seconds >= plan.seconds);
    CHECK(plan.links <= (uint64_t)(local_ranks(place->nodes, rank) - 1 + rounds + 1));
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
  close_rank(comm);
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
  ring_explanation plan = explained(comm, "allreduce", 8, RING_INT64);
  CHECK(strcmp(plan.algorithm, "hierarchical") != 0 && strcmp(plan.reason, "rule") != 0);
  if (hosts_of(place->nodes) > 1) CHECK_CONTAINS(plan.text, "; the rule cannot serve it");
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(x, size * (size + 1) / 2);
  close_rank(comm);
}

static void test_what_is_not_nested(void) {
  static const char *const flat[] = {"000", "01", "0123"};
  for (int i = 0; i < 3; i++)
    run_place(choose_another, (place){.nodes = flat[i], .algorithms = "allreduce:hierarchical"});
}

int main(void) {
  RUN(test_every_kind);
  RUN(test_every_size);
  RUN(test_halving_across_hosts);
  RUN(test_hierarchies_are_chosen);
  RUN(test_what_is_not_nested);
  return 0;
}
