/* SPDX-License-Identifier: Apache-2.0
 *
 * Free memory is a sorted list of extents, joined with their neighbours; allocation is first fit.
 * The line before a buffer holds the length of line and buffer. A new buffer gets all of its pages
 * at once, unless they are there from earlier buffers.
 *
 * A forked child has the same memory and a copy of the list. An extent that is free in the copy may
 * be in use in the parent, and the line before a buffer may have been overwritten. So a child
 * neither allocates from its parent's arenas nor frees into them; it recognises their buffers by
 * address. A place is a lock that ends with its last descriptor. A child closes its copy, so the
 * parent's death shows at once.
 */
#include "transport/arena.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd_registry.h"
#include "base/platform.h"
#include "base/platform_memory.h"
#include "transport/socket.h"

#define ARENA_LINE ((size_t)64)
#define ARENA_PAGE ((size_t)4096)
#define ARENA_REGION_MOST (UINT64_C(64) << 30)
#define ARENA_REGION_LEAST (UINT64_C(64) << 20)
#define ARENA_KEEP (UINT64_C(256) << 20) /* free bytes that keep their pages, at least */

typedef struct arena_extent {
  size_t at, bytes;
  bool touched; /* may hold pages */
  bool backed;  /* has all of its pages */
} arena_extent;

struct ring_arena {
  ring_arena *next; /* of this process */
  unsigned process; /* that has mapped it */
  pthread_mutex_t lock;
  atomic_int owners; /* the communicator and its buffers */
  int fd;
  int place; /* descriptor of the lock on this rank's place, or -1 */
  uint8_t *base;
  size_t front, region, total;
  arena_extent *free;
  size_t free_count, free_capacity;
  size_t used, kept; /* bytes in buffers, and in free extents that hold pages */
};

/* ---- All of them -------------------------------------------------------------------------- */

static pthread_mutex_t arenas_lock = PTHREAD_MUTEX_INITIALIZER; /* never held at a fork */
static pthread_once_t arenas_once = PTHREAD_ONCE_INIT;
static ring_arena *arenas;

static void arenas_hold(void) {
  pthread_mutex_lock(&arenas_lock);
}

static void arenas_drop(void) {
  pthread_mutex_unlock(&arenas_lock);
}

static void arenas_watch_forks(void) {
  pthread_atfork(arenas_hold, arenas_drop, arenas_drop);
}

static void arenas_add(ring_arena *arena) {
  pthread_once(&arenas_once, arenas_watch_forks);
  arenas_hold();
  arena->next = arenas;
  arenas = arena;
  arenas_drop();
}

static void arenas_remove(const ring_arena *arena) {
  arenas_hold();
  ring_arena **link = &arenas;
  while (*link != arena) link = &(*link)->next;
  *link = arena->next;
  arenas_drop();
}

/* The arena that holds a line; NULL for ordinary memory. */
static ring_arena *arenas_find(const void *line) {
  arenas_hold();
  ring_arena *arena = arenas;
  while (arena != NULL && (uintptr_t)line - (uintptr_t)arena->base >= arena->total)
    arena = arena->next;
  arenas_drop();
  return arena;
}

static bool arena_is_mine(const ring_arena *arena) {
  return arena->process == ring_platform_process();
}

/* ---- Life --------------------------------------------------------------------------------- */

ring_arena *ring_arena_map(int fd, size_t front, int ranks, size_t region) {
  if (region % ARENA_PAGE != 0 || region > ARENA_REGION_MOST + ARENA_REGION_LEAST) return NULL;
  size_t total = front + (size_t)ranks * region;
  if (!ring_platform_memory_is(fd, total)) return NULL;
  ring_arena *arena = calloc(1, sizeof *arena);
  void *base = MAP_FAILED;
  if (arena != NULL) base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    free(arena);
    return NULL;
  }
#ifdef MADV_DONTDUMP
  madvise(base, total, MADV_DONTDUMP);
#endif
  pthread_mutex_init(&arena->lock, NULL);
  atomic_init(&arena->owners, 1);
  arena->fd = fd;
  arena->place = -1;
  arena->base = base;
  arena->front = front;
  arena->region = region;
  arena->total = total;
  arena->process = ring_platform_process();
  arenas_add(arena);
  return arena;
}

/* As much as the memory of this machine. */
static size_t arena_region_wanted(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : ARENA_REGION_LEAST;
  uint64_t region = memory < ARENA_REGION_MOST ? memory : ARENA_REGION_MOST;
  return (size_t)(region - region % ARENA_REGION_LEAST + ARENA_REGION_LEAST);
}

ring_arena *ring_arena_create(size_t front, int ranks) {
  for (size_t region = arena_region_wanted(); region >= ARENA_REGION_LEAST; region /= 8) {
    region -= region % ARENA_PAGE;
    int fd = ring_platform_memory(front + (size_t)ranks * region);
    if (fd < 0) continue;
    ring_arena *arena = ring_arena_map(fd, front, ranks, region);
    if (arena != NULL) return arena;
    ring_socket_close(&fd);
  }
  return NULL;
}

bool ring_arena_take(ring_arena *arena, int index) {
  ring_fd_begin();
  arena->place = ring_fd_end(ring_platform_memory_again(arena->fd));
  if (arena->place < 0 || !ring_platform_hold(arena->place, index)) return false;
  arena->free = malloc(16 * sizeof *arena->free);
  if (arena->free == NULL) return true; /* without a list every allocation is ordinary memory */
  arena->free_capacity = 16;
  arena->free_count = 1;
  arena->free[0] =
      (arena_extent){.at = arena->front + (size_t)index * arena->region, .bytes = arena->region};
  return true;
}

bool ring_arena_taken(const ring_arena *arena, int index) {
  return ring_platform_held(arena->place, index);
}

/* A forked child does not destroy the lock, which may have been held at the fork. */
static void arena_leave(ring_arena *arena) {
  if (atomic_fetch_sub(&arena->owners, 1) > 1) return;
  arenas_remove(arena);
  munmap(arena->base, arena->total);
  ring_socket_close(&arena->fd);
  if (arena_is_mine(arena)) pthread_mutex_destroy(&arena->lock);
  free(arena->free);
  free(arena);
}

void ring_arena_release(ring_arena *arena) {
  if (arena == NULL) return;
  ring_socket_close(&arena->place);
  arena_leave(arena);
}

int ring_arena_descriptor(const ring_arena *arena) {
  return arena->fd;
}

size_t ring_arena_region(const ring_arena *arena) {
  return arena->region;
}

void *ring_arena_front(const ring_arena *arena) {
  return arena->base;
}

bool ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes,
                       uint64_t *offset) {
  uintptr_t at = (uintptr_t)buffer - (uintptr_t)arena->base;
  *offset = at;
  return at >= arena->front && at <= arena->total && bytes <= arena->total - at;
}

void *ring_arena_at(const ring_arena *arena, uint64_t offset, size_t bytes) {
  bool within = offset >= arena->front && offset <= arena->total && bytes <= arena->total - offset;
  return within ? arena->base + offset : NULL;
}

bool ring_arena_reserve(const void *memory, size_t bytes) {
  const ring_arena *arena = arenas_find(memory);
  if (arena == NULL) return true;
  return ring_platform_memory_reserve(arena->fd,
                                      (size_t)((uintptr_t)memory - (uintptr_t)arena->base), bytes);
}

/* A private mapping shows other processes' writes until this process writes to the page. Other
 * threads of this process may write to the same page now, next to `memory`: the atomic or loses no
 * byte of theirs. */
void ring_arena_withdraw(ring_arena *arena, void *memory, size_t bytes) {
  uint64_t at;
  if (bytes == 0 || !ring_arena_offset(arena, memory, bytes, &at)) return;
  uint64_t first = at / ARENA_PAGE * ARENA_PAGE;
  size_t length = (size_t)((at + bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE - first);
  uint8_t *pages = arena->base + first;
  if (mmap(pages, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, arena->fd,
           (off_t)first) == MAP_FAILED)
    return;
#ifdef MADV_DONTDUMP
  madvise(pages, length, MADV_DONTDUMP);
#endif
  for (size_t page = 0; page < length; page += ARENA_PAGE)
    atomic_fetch_or((_Atomic uint8_t *)(pages + page), 0);
}

/* ---- Buffers ------------------------------------------------------------------------------ */

static void arena_remove(ring_arena *arena, size_t index) {
  arena->free_count--;
  memmove(&arena->free[index], &arena->free[index + 1],
          (arena->free_count - index) * sizeof *arena->free);
}

/* Takes `bytes` from the first extent that is large enough; SIZE_MAX when none is. */
static size_t arena_cut(ring_arena *arena, size_t bytes, bool *backed) {
  for (size_t i = 0; i < arena->free_count; i++) {
    arena_extent *extent = &arena->free[i];
    if (extent->bytes < bytes) continue;
    size_t at = extent->at;
    *backed = extent->backed;
    if (extent->touched) arena->kept -= bytes;
    extent->at += bytes;
    extent->bytes -= bytes;
    if (extent->bytes == 0) arena_remove(arena, i);
    return at;
  }
  return SIZE_MAX;
}

/* Joins extent `index` with the next one if they touch and are alike. */
static void arena_join(ring_arena *arena, size_t index) {
  if (index + 1 >= arena->free_count) return;
  arena_extent *extent = &arena->free[index], *next = extent + 1;
  bool alike = extent->touched == next->touched && extent->backed == next->backed;
  if (extent->at + extent->bytes != next->at || !alike) return;
  extent->bytes += next->bytes;
  arena_remove(arena, index + 1);
}

/* Joins all neighbours. An extent touched in part counts as touched. */
static void arena_gather(ring_arena *arena) {
  for (size_t i = 0; i + 1 < arena->free_count;) {
    arena_extent *extent = &arena->free[i], *next = extent + 1;
    if (extent->at + extent->bytes != next->at) {
      i++;
      continue;
    }
    if (!extent->touched) arena->kept += extent->bytes;
    if (!next->touched) arena->kept += next->bytes;
    extent->touched = next->touched = true;
    extent->backed = next->backed = extent->backed && next->backed;
    arena_join(arena, i);
  }
}

/* Makes space for one more extent. False without memory. */
static bool arena_grow(ring_arena *arena) {
  if (arena->free_count < arena->free_capacity) return true;
  arena_extent *more = realloc(arena->free, 2 * arena->free_capacity * sizeof *more);
  if (more == NULL) return false;
  arena->free = more;
  arena->free_capacity *= 2;
  return true;
}

/* Returns the whole pages of a range to the system. False when it contains none. */
static bool arena_drop(const ring_arena *arena, size_t at, size_t bytes) {
  size_t first = (at + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
  size_t end = (at + bytes) / ARENA_PAGE * ARENA_PAGE;
  if (end <= first) return false;
  ring_platform_memory_drop(arena->fd, first, end - first);
  return true;
}

/* Returns the pages of an extent when more than the limit is kept. */
static void arena_trim(ring_arena *arena, arena_extent *extent) {
  size_t most = arena->used > ARENA_KEEP ? arena->used : ARENA_KEEP;
  if (arena->kept <= most || !extent->touched) return;
  if (!arena_drop(arena, extent->at, extent->bytes)) return;
  arena->kept -= extent->bytes;
  extent->touched = extent->backed = false;
}

static void arena_put(ring_arena *arena, arena_extent extent) {
  size_t index = 0;
  arena->used -= extent.bytes;
  if (!arena_grow(arena)) return; /* not used again until the arena ends */
  while (index < arena->free_count && arena->free[index].at < extent.at) index++;
  memmove(&arena->free[index + 1], &arena->free[index],
          (arena->free_count - index) * sizeof *arena->free);
  arena->free_count++;
  arena->free[index] = extent;
  if (extent.touched) arena->kept += extent.bytes;
  arena_trim(arena, &arena->free[index]);
  arena_join(arena, index);
  if (index > 0) arena_join(arena, index - 1);
}

/* The offset of a new buffer of `bytes` with its line; SIZE_MAX without space or pages. Pages are
 * reserved without the lock, because that takes as long as writing them. */
static size_t arena_obtain(ring_arena *arena, size_t bytes) {
  bool backed = true;
  pthread_mutex_lock(&arena->lock);
  size_t at = arena_cut(arena, bytes, &backed);
  if (at == SIZE_MAX) {
    arena_gather(arena);
    at = arena_cut(arena, bytes, &backed);
  }
  if (at != SIZE_MAX) arena->used += bytes;
  pthread_mutex_unlock(&arena->lock);
  if (backed || ring_platform_memory_reserve(arena->fd, at, bytes)) return at;
  pthread_mutex_lock(&arena->lock);
  arena_drop(arena, at, bytes);
  arena_put(arena, (arena_extent){.at = at, .bytes = bytes});
  pthread_mutex_unlock(&arena->lock);
  return SIZE_MAX;
}

void *ring_arena_alloc(ring_arena *arena, size_t bytes) {
  if (bytes > PTRDIFF_MAX - 2 * ARENA_LINE) return NULL;
  size_t whole = ARENA_LINE + (bytes + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
  size_t at = SIZE_MAX;
  if (arena != NULL && arena_is_mine(arena)) at = arena_obtain(arena, whole);
  if (at != SIZE_MAX) atomic_fetch_add(&arena->owners, 1);
  uint8_t *memory = at != SIZE_MAX ? arena->base + at : aligned_alloc(ARENA_LINE, whole);
  if (memory == NULL) return NULL;
  *(size_t *)memory = whole;
  return memory + ARENA_LINE;
}

void ring_free(void *memory) {
  if (memory == NULL) return;
  uint8_t *whole = (uint8_t *)memory - ARENA_LINE;
  ring_arena *arena = arenas_find(whole);
  if (arena == NULL) {
    free(whole);
    return;
  }
  if (arena_is_mine(arena)) {
    pthread_mutex_lock(&arena->lock);
    arena_put(arena,
              (arena_extent){(size_t)(whole - arena->base), *(const size_t *)whole, true, true});
    pthread_mutex_unlock(&arena->lock);
  }
  arena_leave(arena);
}
