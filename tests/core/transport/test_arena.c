/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena as an allocator: where buffers lie, that they do not overlap, are reused and outlive the
 * communicator, which calls take and return pages, many threads, and a forked child.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform_memory.h"
#include "check.h"
#include "leaks.h"
#include "ranks.h"
#include "transport/arena.h"

enum { FRONT = 8192, REGION = 1 << 20 };

/* An arena of three small regions, of which this rank has the one in the middle. */
static ring_arena *small_arena(size_t region) {
  int fd = ring_platform_memory(FRONT + 3 * region);
  CHECK(fd >= 0);
  ring_arena *arena = ring_arena_map(fd, FRONT, 3, region);
  CHECK(arena != NULL);
  CHECK(ring_arena_take(arena, 1));
  return arena;
}

static bool lies_within(const ring_arena *arena, const void *buffer, size_t bytes) {
  uint64_t at;
  if (!ring_arena_offset(arena, buffer, bytes, &at)) return false;
  size_t region = ring_arena_region(arena);
  CHECK(at >= FRONT + region && at + bytes <= FRONT + 2 * region);
  CHECK(ring_arena_at(arena, at, bytes) == buffer);
  return true;
}

static size_t stored(const ring_arena *arena) {
  struct stat status;
  CHECK_INT(fstat(ring_arena_descriptor(arena), &status), 0);
  return (size_t)status.st_blocks * 512;
}

static void check_bytes(const uint8_t *buffer, size_t bytes, uint8_t value) {
  for (size_t i = 0; i < bytes; i++) CHECK_INT(buffer[i], value);
}

static void test_buffers_are_aligned_and_apart(void) {
  static const size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 100000};
  enum { COUNT = sizeof sizes / sizeof sizes[0] };
  ring_arena *arena = small_arena(REGION);
  uint8_t *buffers[COUNT];
  for (int i = 0; i < COUNT; i++) {
    buffers[i] = ring_arena_alloc(arena, sizes[i]);
    CHECK(buffers[i] != NULL && (uintptr_t)buffers[i] % 64 == 0);
    CHECK(lies_within(arena, buffers[i], sizes[i]));
    memset(buffers[i], i + 1, sizes[i]);
  }
  for (int i = 0; i < COUNT; i++) check_bytes(buffers[i], sizes[i], (uint8_t)(i + 1));
  for (int i = 0; i < COUNT; i++) ring_free(buffers[i]);
  ring_free(NULL);
  ring_arena_release(arena);
  CHECK(!arena_is_mapped());
}

static uint32_t draw(uint32_t *state) {
  return (*state = *state * 1664525 + 1013904223) >> 8;
}

/* In whatever order buffers come back, in the end all of the region can be had in one piece. */
static void test_neighbours_join_in_any_order(void) {
  enum { COUNT = 60 };
  ring_arena *arena = small_arena(REGION);
  uint8_t *buffers[COUNT] = {0};
  size_t sizes[COUNT];
  uint32_t state = 7;
  for (int step = 0; step < 20000; step++) {
    int i = (int)(draw(&state) % COUNT);
    if (buffers[i] != NULL) {
      check_bytes(buffers[i], sizes[i] < 64 ? sizes[i] : 64, (uint8_t)i);
      ring_free(buffers[i]);
      buffers[i] = NULL;
      continue;
    }
    sizes[i] = draw(&state) % 15000;
    buffers[i] = ring_arena_alloc(arena, sizes[i]);
    CHECK(lies_within(arena, buffers[i], sizes[i]));
    memset(buffers[i], i, sizes[i]);
  }
  for (int i = 0; i < COUNT; i++) ring_free(buffers[i]);
  void *all = ring_arena_alloc(arena, REGION - 64);
  CHECK(lies_within(arena, all, REGION - 64));
  ring_free(all);
  ring_arena_release(arena);
}

static void test_a_loop_touches_the_same_pages(void) {
  ring_arena *arena = small_arena(REGION);
  size_t before = 0;
  for (int step = 0; step < 500; step++) {
    uint8_t *one = ring_arena_alloc(arena, 30000), *other = ring_arena_alloc(arena, 50000);
    memset(one, step, 30000);
    memset(other, step, 50000);
    ring_free(one);
    ring_free(other);
    if (step == 0) before = stored(arena);
  }
  CHECK(before >= 80000);
  CHECK_INT(stored(arena), before);
  ring_arena_release(arena);
}

static void test_what_does_not_fit_is_ordinary_memory(void) {
  ring_arena *arena = small_arena(REGION);
  uint8_t *fills = ring_arena_alloc(arena, REGION - 1024), *small = ring_arena_alloc(arena, 100);
  uint8_t *large = ring_arena_alloc(arena, 3 * REGION), *none = ring_arena_alloc(NULL, 100);
  CHECK(lies_within(arena, fills, REGION - 1024) && lies_within(arena, small, 100));
  CHECK(!lies_within(arena, large, 1) && !lies_within(arena, none, 1));
  CHECK((uintptr_t)large % 64 == 0 && (uintptr_t)none % 64 == 0);
  memset(large, 1, 3 * REGION);
  memset(none, 2, 100);
  CHECK(ring_arena_alloc(arena, SIZE_MAX) == NULL);
  CHECK(ring_arena_alloc(arena, SIZE_MAX - 127) == NULL);
  CHECK(ring_arena_alloc(arena, PTRDIFF_MAX) == NULL);
  ring_free(large);
  ring_free(none);
  ring_free(fills);
  uint8_t *again = ring_arena_alloc(arena, REGION - 1024);
  CHECK(again == fills);
  ring_free(again);
  ring_free(small);
  ring_arena_release(arena);
}

static void test_buffers_outlive_the_arena(void) {
  ring_arena *arena = small_arena(REGION);
  uint8_t *one = ring_arena_alloc(arena, 5000), *other = ring_arena_alloc(arena, 100);
  ring_arena_release(arena);
  CHECK(arena_is_mapped());
  memset(one, 1, 5000);
  ring_free(one);
  memset(other, 2, 100);
  CHECK(arena_is_mapped());
  ring_free(other);
  CHECK(!arena_is_mapped());
}

enum { MANY = 320 << 20 };

static void touch(uint8_t *buffer, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 4096) buffer[at] = 1;
}

/* What is free is kept up to 256 MiB. */
static void test_pages_go_back(void) {
  ring_arena *arena = small_arena((size_t)2 * MANY);
  uint8_t *few = ring_arena_alloc(arena, 10 << 20);
  touch(few, 10 << 20);
  ring_free(few);
  CHECK(stored(arena) >= 10 << 20);
  uint8_t *many = ring_arena_alloc(arena, MANY);
  touch(many, MANY);
  CHECK(stored(arena) >= MANY);
  ring_free(many);
  CHECK(stored(arena) <= 11 << 20);
  many = ring_arena_alloc(arena, MANY);
  many[MANY - 1] = 3;
  CHECK(many[8192] == 0);
  ring_free(many);
  ring_arena_release(arena);
}

/* A child shares the pages of its parent, but must not give them back or hand them out. */
static void test_a_forked_child_leaves_the_arena_alone(void) {
  ring_arena *arena = small_arena((size_t)2 * MANY);
  uint8_t *kept = ring_arena_alloc(arena, MANY), *first = ring_arena_alloc(arena, 100);
  touch(kept, MANY);
  first[0] = 1;
  ring_free(first);
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    uint8_t *own = ring_arena_alloc(arena, 100);
    CHECK(!lies_within(arena, own, 1));
    memset(own, 9, 100);
    ring_free(own);
    ring_free(kept);
    ring_arena_release(arena);
    CHECK(!arena_is_mapped());
    _exit(0);
  }
  int status;
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  for (size_t at = 0; at < MANY; at += 4096) CHECK_INT(kept[at], 1);
  CHECK_INT(*first, 1);
  ring_free(kept);
  ring_arena_release(arena);
}

static void *allocate_and_free(void *arg) {
  enum { COUNT = 16 };
  ring_arena *arena = arg;
  uint8_t *buffers[COUNT] = {0};
  size_t sizes[COUNT];
  uint32_t state = (uint32_t)(uintptr_t)&arena;
  for (int step = 0; step < 5000; step++) {
    int i = (int)(draw(&state) % COUNT);
    if (buffers[i] != NULL) {
      CHECK(buffers[i][0] == (uint8_t)i && buffers[i][sizes[i] - 1] == (uint8_t)i);
      ring_free(buffers[i]);
    }
    sizes[i] = 1 + draw(&state) % 30000;
    buffers[i] = ring_arena_alloc(arena, sizes[i]);
    memset(buffers[i], i, sizes[i]);
  }
  for (int i = 0; i < COUNT; i++) ring_free(buffers[i]);
  return NULL;
}

static void test_threads(void) {
  ring_arena *arena = small_arena(REGION);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    CHECK_INT(pthread_create(&threads[i], NULL, allocate_and_free, arena), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  void *all = ring_arena_alloc(arena, REGION - 64);
  CHECK(lies_within(arena, all, REGION - 64));
  ring_arena_release(arena);
  ring_free(all);
  CHECK(!arena_is_mapped());
}

/* Buffers of a communicator, each rank's in its own region, freed after it. */
static void keep_buffers(int rank, int size, void *shared) {
  (void)shared;
  ring_comm *comm = open_rank(rank, size);
  void *one, *other;
  int64_t *x;
  CHECK_INT(ring_alloc(comm, 1 << 20, &one), RING_OK);
  CHECK_INT(ring_alloc(comm, sizeof *x, (void **)&x), RING_OK);
  CHECK_INT(ring_alloc(comm, SIZE_MAX, &other), RING_NO_MEMORY);
  CHECK(other == NULL);
  *x = rank;
  memset(one, rank, 1 << 20);
  CHECK_INT(ring_allreduce(comm, x, x, 1, RING_INT64, RING_SUM), RING_OK);
  close_rank(comm);
  CHECK_INT(*x, size * (size - 1) / 2);
  check_bytes(one, 1 << 20, (uint8_t)rank);
  CHECK(arena_is_mapped());
  ring_free(one);
  ring_free(x);
  CHECK(!arena_is_mapped());
}

static void test_buffers_outlive_the_communicator(void) {
  run_ranks(3, keep_buffers, NULL);
}

int main(void) {
  RUN(test_buffers_are_aligned_and_apart);
  RUN(test_neighbours_join_in_any_order);
  RUN(test_a_loop_touches_the_same_pages);
  RUN(test_what_does_not_fit_is_ordinary_memory);
  RUN(test_buffers_outlive_the_arena);
  RUN(test_pages_go_back);
  RUN(test_a_forked_child_leaves_the_arena_alone);
  RUN(test_threads);
  RUN(test_buffers_outlive_the_communicator);
  return 0;
}
