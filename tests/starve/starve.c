/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator that fails on command, for LD_PRELOAD. Counted are allocations on behalf of
 * our library: those with a function of it among their callers, be it ours or R's that asks. The
 * k-th fails, and as many more as the test sets, since R collects garbage and asks once more. What our
 * library itself has asked for and not freed yet is known, too. For glibc, and the main thread.
 */
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES 100
#define PLACES 65536 /* of pointers; a power of two */
#define NEAR 64      /* how far from its place a pointer may be */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static uintptr_t library_begin, library_end;
static atomic_bool armed;
static long asked, first_to_fail, last_to_fail, failed;
static _Thread_local bool busy; /* looking at the stack */
static _Atomic(void *) held[PLACES];

/* ---- What our library holds --------------------------------------------------------------- */

static bool is_ours(const void *site) {
  return (uintptr_t)site >= library_begin && (uintptr_t)site < library_end;
}

static size_t place_of(const void *memory) {
  return ((uintptr_t)memory >> 4) * 0x9e3779b97f4a7c15u >> 48;
}

static void *keep(void *memory, const void *site) {
  if (memory == NULL || !is_ours(site)) return memory;
  for (size_t i = place_of(memory), tried = 0; tried < NEAR; i = (i + 1) % PLACES, tried++) {
    void *nobody = NULL;
    if (atomic_compare_exchange_strong(&held[i], &nobody, memory)) return memory;
  }
  abort(); /* no test holds so many */
}

static void drop(void *memory) {
  if (memory == NULL || library_end == 0) return;
  for (size_t i = place_of(memory), tried = 0; tried < NEAR; i = (i + 1) % PLACES, tried++) {
    void *it = memory;
    if (atomic_compare_exchange_strong(&held[i], &it, NULL)) return;
  }
}

/* ---- What fails --------------------------------------------------------------------------- */

static bool for_us(void) {
  void *frames[FRAMES];
  int count = backtrace(frames, FRAMES);
  for (int i = 0; i < count; i++)
    if (is_ours(frames[i])) return true;
  return false;
}

static bool fails(void) {
  if (!atomic_load(&armed) || busy || syscall(SYS_gettid) != getpid()) return false;
  busy = true;
  bool counted = for_us();
  busy = false;
  if (!counted) return false;
  long number = asked++;
  if (number < first_to_fail || number > last_to_fail) return false;
  failed++;
  errno = ENOMEM;
  return true;
}

#define SITE __builtin_return_address(0)

void *malloc(size_t size) {
  return fails() ? NULL : keep(__libc_malloc(size), SITE);
}

void *calloc(size_t count, size_t size) {
  return fails() ? NULL : keep(__libc_calloc(count, size), SITE);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : keep(__libc_memalign(alignment, size), SITE);
}

void *realloc(void *memory, size_t size) {
  if (fails()) return NULL;
  drop(memory);
  return keep(__libc_realloc(memory, size), SITE);
}

void free(void *memory) {
  drop(memory);
  __libc_free(memory);
}

/* ---- What R calls, by .C() ---------------------------------------------------------------- */

/* Where our library is, in hexadecimal. */
void starve_begin(char **begin, char **end) {
  void *frame;
  backtrace(&frame, 1); /* loads what it needs */
  library_begin = strtoul(*begin, NULL, 16);
  library_end = strtoul(*end, NULL, 16);
}

void starve_arm(const int *number, const int *width) {
  asked = failed = 0;
  first_to_fail = *number;
  last_to_fail = *number + *width - 1;
  atomic_store(&armed, true);
}

void starve_disarm(int *count) {
  atomic_store(&armed, false);
  *count = (int)failed;
}

void starve_held(int *count) {
  *count = 0;
  for (size_t i = 0; i < PLACES; i++) *count += held[i] != NULL;
}
