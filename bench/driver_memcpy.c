/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor under an allreduce of two ranks in shared memory: each copies as many bytes as it has
 * from a buffer of its own to another one, past the caches, both at the same time. (Each of them
 * would have to read half of both inputs and write half of both outputs.) What is called allreduce
 * here is that copy. The ranks share a file that they have mapped.
 */
#include "driver.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static world all;
static atomic_uint *arrivals;

static void die(const char *what) {
  perror(what);
  exit(1);
}

/* Buffers begin at a multiple of 64; other processors copy as their library does. */
static void copy(const float *input, float *output, size_t count) {
  size_t done = 0;
#if defined(__x86_64__)
  for (; done + 4 <= count; done += 4) _mm_stream_ps(output + done, _mm_load_ps(input + done));
  _mm_sfence();
#endif
  memcpy(output + done, input + done, (count - done) * sizeof(float));
}

/* The driver sends the number of samples to the other ranks with it. */
static void broadcast(const float *input, float *output, size_t count) {
  float *shared = (float *)(arrivals + 16);
  if (all.rank == 0) memcpy(shared, input, count * sizeof(float));
  library_barrier();
  if (all.rank != 0) memcpy(output, shared, count * sizeof(float));
  library_barrier();
}

const collective library_collectives[] = {
    {"allreduce", copy}, {"broadcast", broadcast}, {NULL, NULL}};

static int number(const char *name) {
  const char *value = getenv(name);
  if (!value) die(name);
  return atoi(value);
}

world library_open(const char *folder) {
  char path[4096];
  all = (world){number("SPARKRING_RANK"), number("SPARKRING_SIZE")};
  snprintf(path, sizeof(path), "%s/meeting", folder);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096) != 0) die(path);
  arrivals = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (arrivals == MAP_FAILED) die(path);
  close(file);
  return all;
}

void library_barrier(void) {
  unsigned size = (unsigned)all.size, arrival = atomic_fetch_add(arrivals, 1);
  unsigned last = (arrival / size + 1) * size;
  for (int turns = 0; (int)(atomic_load(arrivals) - last) < 0; turns++)
    if (turns > 10000) sched_yield();
}

void library_close(void) {
  munmap(arrivals, 4096);
}

const char *library_link(const char *wanted) {
  return wanted;
}

void *library_alloc(size_t bytes) {
  (void)bytes;
  return NULL;
}

void library_free(void *memory) {
  (void)memory;
}

const int library_copies = 1;
