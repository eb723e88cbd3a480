/* SPDX-License-Identifier: Apache-2.0
 *
 * bench/simulation.c against closed forms, which hold where steps are sent whole, and against
 * itself: one host that stands for all has to find what the whole machine does.
 */
#include <math.h>

#include "check.h"
#include "simulation.h"

#define ALPHA 20e-6
#define BETA 12.5e9
#define LOCAL_ALPHA 1.5e-6
#define LOCAL_BETA 20e9
#define WHOLE 1e18 /* bytes of a frame: all of a step */

static ring_status build_ring(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_ring(s, rank, w->ranks, w->count, false);
}

static ring_status build_doubling(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_doubling(s, rank, w->ranks, w->count, false);
}

static ring_status build_halving(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_halving(s, rank, w->ranks, w->count);
}

static ring_status build_hierarchical(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_hierarchical(s, rank, w->ranks, w->node, w->count, false,
                                              (ring_hierarchy){w->ranks, RING_INTER_HOST_DOUBLING});
}

static ring_status build_hierarchical_ring(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_hierarchical(s, rank, w->ranks, w->node, w->count, false,
                                              (ring_hierarchy){w->ranks, RING_INTER_HOST_RING});
}

static ring_status build_hierarchical_halving(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_hierarchical(s, rank, w->ranks, w->node, w->count, false,
                                              (ring_hierarchy){w->ranks, RING_INTER_HOST_HALVING});
}

static ring_status build_chain(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_broadcast_chain(s, rank, w->ranks, w->count, 0);
}

typedef ring_status (*builder)(ring_schedule *s, int rank, const workload *w);

/* `count` elements of one byte. */
static outcome run(builder build, int ranks, int per_host, uint64_t count, double gamma,
                   double frame, bool whole) {
  cluster c = {ranks, per_host, ALPHA, BETA, LOCAL_ALPHA, LOCAL_BETA, gamma, frame};
  workload w = {.build = build, .ranks = ranks, .count = count, .element_bytes = 1};
  int node[1024];
  for (int i = 0; i < ranks; i++) node[i] = i / per_host;
  w.node = node;
  outcome o = simulate(&c, &w, whole);
  if (o.error != NULL) fprintf(stderr, "%d ranks, %d a host: %s\n", ranks, per_host, o.error);
  CHECK(o.error == NULL);
  return o;
}

static void check_seconds(double actual, double expected) {
  if (fabs(actual - expected) > 1e-9 * expected)
    fprintf(stderr, "%.12g s, expected %.12g s\n", actual, expected);
  CHECK(fabs(actual - expected) <= 1e-9 * expected);
}

static double seconds(builder build, int ranks, uint64_t count, double gamma) {
  return run(build, ranks, 1, count, gamma, WHOLE, false).seconds;
}

/* ---- Closed forms ------------------------------------------------------------------------- */

static void test_ring(void) {
  double gamma = 1e-10;
  for (int n = 2; n <= 64; n++) {
    double shm = 9e6, rounds = n - 1;
    check_seconds(seconds(build_ring, n, (uint64_t)(shm * n), gamma),
                  2 * rounds * (ALPHA + shm / BETA) + rounds * gamma * shm);
  }
}

static void test_doubling(void) {
  double gamma = 1e-10, bytes = 9e6;
  for (int n = 2, rounds = 1; n <= 64; n *= 2, rounds++)
    check_seconds(seconds(build_doubling, n, (uint64_t)bytes, gamma),
                  rounds * (ALPHA + bytes / BETA + gamma * bytes));
}

/* The rank that serves a folded rank receives from it while it waits for its own partner. Only
 * the ranks that wait for its sum are late by that message. */
static void test_doubling_folds(void) {
  for (int n = 3, rounds = 1; n <= 65; n = 2 * n - 1, rounds++)
    check_seconds(seconds(build_doubling, n, 0, 1e-10), (rounds + 1) * ALPHA);
}

static void test_halving(void) {
  double gamma = 1e-10;
  for (int n = 2, rounds = 1; n <= 64; n *= 2, rounds++) {
    double bytes = 1e5 * n, moved = bytes * (n - 1) / n;
    check_seconds(seconds(build_halving, n, (uint64_t)bytes, gamma),
                  2 * (rounds * ALPHA + moved / BETA) + gamma * moved);
  }
}

/* Nothing but latency: once to the driver, between hosts, and back. */
static void test_hierarchical(void) {
  for (int hosts = 2, rounds = 1; hosts <= 64; hosts *= 2, rounds++) {
    check_seconds(run(build_hierarchical, 8 * hosts, 8, 0, 0, WHOLE, false).seconds,
                  2 * LOCAL_ALPHA + rounds * ALPHA);
    check_seconds(run(build_hierarchical_ring, 8 * hosts, 8, 0, 0, WHOLE, false).seconds,
                  2 * LOCAL_ALPHA + 2 * (hosts - 1) * ALPHA);
  }
}

/* A shared interface: all ranks of a host send everything through it in the last round. */
static void test_doubling_shares_an_interface(void) {
  double bytes = 9e6;
  for (int n = 2, rounds = 1; n <= 16; n *= 2, rounds++)
    check_seconds(run(build_doubling, 2 * n, n, (uint64_t)bytes, 0, WHOLE, false).seconds,
                  rounds * (LOCAL_ALPHA + bytes / LOCAL_BETA) + ALPHA + n * bytes / BETA);
}

/* Frames follow each other down a chain: the first takes all hops, the others come behind it. */
static void test_chain_of_frames(void) {
  double frame = 1000;
  for (int n = 2; n <= 64; n *= 2)
    for (int frames = 1; frames <= 100; frames *= 10)
      check_seconds(run(build_chain, n, 1, (uint64_t)(frames * frame), 0, frame, true).seconds,
                    (n - 1) * ALPHA + (n - 2 + frames) * frame / BETA);
}

/* ---- Symmetry ----------------------------------------------------------------------------- */

static void compare(builder build, int ranks, int per_host, uint64_t count, symmetry expected) {
  outcome one = run(build, ranks, per_host, count, 1e-10, 5000, false);
  outcome all = run(build, ranks, per_host, count, 1e-10, 5000, true);
  CHECK_INT(one.symmetry, expected);
  CHECK_INT(all.symmetry, SYMMETRY_NONE);
  CHECK_INT(one.frames * (uint64_t)(ranks / per_host), all.frames);
  check_seconds(one.seconds, all.seconds);
}

static void test_one_host_stands_for_all(void) {
  for (int per_host = 1; per_host <= 8; per_host *= 2)
    for (int hosts = 2; hosts <= 16; hosts++) {
      int ranks = hosts * per_host;
      bool power = (hosts & (hosts - 1)) == 0;
      compare(build_ring, ranks, per_host, 4200 * (uint64_t)ranks, SYMMETRY_ROTATE);
      if (hosts > 2)
        compare(build_hierarchical_ring, ranks, per_host, 4200 * (uint64_t)(ranks * per_host),
                SYMMETRY_ROTATE);
      if (!power) continue;
      symmetry flipped = hosts == 2 ? SYMMETRY_ROTATE : SYMMETRY_XOR;
      compare(build_doubling, ranks, per_host, 42001, flipped);
      compare(build_halving, ranks, per_host, 4200 * (uint64_t)ranks, flipped);
      compare(build_hierarchical_halving, ranks, per_host, 4200 * (uint64_t)ranks, flipped);
      compare(build_hierarchical, ranks, per_host, 42001 * (uint64_t)per_host, flipped);
    }
}

/* Uneven shares and hosts are not alike, nor are those that fold another one. */
static void test_no_symmetry_is_assumed(void) {
  CHECK_INT(run(build_halving, 8, 1, 8001, 0, WHOLE, false).symmetry, SYMMETRY_NONE);
  CHECK_INT(run(build_ring, 8, 1, 8001, 0, WHOLE, false).symmetry, SYMMETRY_NONE);
  CHECK_INT(run(build_ring, 10, 4, 8000, 0, WHOLE, false).symmetry, SYMMETRY_NONE);
  CHECK_INT(run(build_doubling, 6, 1, 8000, 0, WHOLE, false).symmetry, SYMMETRY_NONE);
}

/* ---- What cannot be simulated ------------------------------------------------------------- */

static ring_status build_deaf(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_recv(s, rank == 0 ? 1 : 0, w->count);
}

static ring_status build_uneven(ring_schedule *s, int rank, const workload *w) {
  return rank == 0 ? ring_schedule_send(s, 1, w->count) : ring_schedule_recv(s, 0, w->count + 1);
}

static void test_schedules_that_do_not_fit_are_refused(void) {
  cluster c = {2, 1, ALPHA, BETA, LOCAL_ALPHA, LOCAL_BETA, 0, WHOLE};
  workload w = {.build = build_deaf, .ranks = 2, .count = 10, .element_bytes = 1};
  CHECK_CONTAINS(simulate(&c, &w, true).error, "sends it nothing");
  w.build = build_uneven;
  CHECK_CONTAINS(simulate(&c, &w, true).error, "does not end");
}

int main(void) {
  RUN(test_ring);
  RUN(test_doubling);
  RUN(test_doubling_folds);
  RUN(test_halving);
  RUN(test_hierarchical);
  RUN(test_doubling_shares_an_interface);
  RUN(test_chain_of_frames);
  RUN(test_one_host_stands_for_all);
  RUN(test_no_symmetry_is_assumed);
  RUN(test_schedules_that_do_not_fit_are_refused);
  return 0;
}
