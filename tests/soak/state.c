/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STATE_TRIES = 200 }; /* of 10 ms */

state *state_make(void) {
  void *memory =
      mmap(NULL, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void state_wipe(state *of) {
  atomic_store(&of->struck, 0);
  atomic_store(&of->doing, STATE_STARTING);
  atomic_store(&of->over, false);
  for (int rank = 0; rank < PLAN_RANKS; rank++) atomic_store(&of->passed[rank], false);
  memset(of->outcomes, 0, sizeof of->outcomes);
  memset(of->arrived, 0, sizeof of->arrived);
  memset(of->digests, 0, sizeof of->digests);
}

void state_free(state *of) {
  munmap(of, sizeof *of);
}

/* Entries of a folder, without the two that every folder has. */
static int state_entries(const char *path) {
  DIR *folder = opendir(path);
  int count = -2;
  if (folder == NULL) return -1;
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static int state_maps(void) {
  char line[512];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return -1;
  while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, "memfd:") != NULL;
  fclose(maps);
  return count;
}

/* The folder that is read is one descriptor too many, every time. */
state_holdings state_count_holdings(void) {
  return (state_holdings){.descriptors = state_entries("/proc/self/fd"),
                          .threads = state_entries("/proc/self/task"),
                          .maps = state_maps()};
}

bool state_holds_no_more(state_holdings *before, state_holdings *now) {
  const struct timespec moment = {.tv_nsec = 10000000};
  for (int tries = 0; tries < STATE_TRIES; tries++) {
    *now = state_count_holdings();
    if (now->descriptors <= before->descriptors && now->threads <= before->threads &&
        now->maps <= before->maps) {
      *before = *now;
      return true;
    }
    nanosleep(&moment, NULL);
  }
  return false;
}

/* Sanitizers have an allocator of their own, which keeps what is freed for a while, and look for
 * leaks themselves. */
#if SPARKRING_SANITIZED

uint64_t state_resident(void) {
  return 0;
}

uint64_t state_heap(void) {
  return 0;
}

#else

uint64_t state_resident(void) {
  unsigned long total = 0, resident = 0;
  malloc_trim(0);
  FILE *sizes = fopen("/proc/self/statm", "r");
  if (sizes == NULL) return 0;
  if (fscanf(sizes, "%lu %lu", &total, &resident) != 2) resident = 0;
  fclose(sizes);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t state_heap(void) {
  struct mallinfo2 of = mallinfo2();
  return of.uordblks + of.hblkhd;
}

#endif

uint64_t state_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}
