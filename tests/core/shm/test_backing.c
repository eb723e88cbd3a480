/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory for which the system has no pages. Touching such memory kills the process (SIGBUS),
 * so the core reserves pages before. Each reservation fails in turn; then a file system with space
 * for n pages replaces the memory, where a touch without a reservation kills for real. At last a
 * control group with too little memory, and /dev/shm, in which nothing of a job lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform_memory.h"
#include "check.h"
#include "ranks.h"
#include "transport/arena.h"
#include "workload.h"

enum { FRONT = 4096, REGION = 64 << 20 };

/* ---- Reservations -------------------------------------------------------------------------- */

static int asked;             /* reservations so far */
static int first = -1, count; /* reservations that fail; -1: none */
static const char *storage;   /* directory of the file that replaces the memory */

int __real_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes) {
  bool gives = (mode & FALLOC_FL_PUNCH_HOLE) == 0;
  int turn = gives ? asked++ : -1;
  if (!gives || first < 0 || turn < first || turn >= first + count)
    return __real_fallocate(fd, mode, at, bytes);
  errno = ENOSPC;
  return -1;
}

int __wrap_memfd_create(const char *name, unsigned flags) {
  if (storage == NULL) return __real_memfd_create(name, flags);
  return open(storage, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* Files cannot be sealed. */
int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void *value = va_arg(list, void *);
  va_end(list);
  if (storage != NULL && command == F_ADD_SEALS) return 0;
  if (storage != NULL && command == F_GET_SEALS) return F_SEAL_SHRINK | F_SEAL_GROW;
  return __real_fcntl(fd, command, value);
}

/* ---- The arena ---------------------------------------------------------------------------- */

static size_t stored(const ring_arena *arena) {
  struct stat status;
  CHECK_INT(fstat(ring_arena_descriptor(arena), &status), 0);
  return (size_t)status.st_blocks * 512;
}

static bool lies_within(const ring_arena *arena, const void *buffer) {
  uint64_t at;
  return ring_arena_offset(arena, buffer, 1, &at);
}

static ring_arena *own_arena(void) {
  int fd = ring_platform_memory(FRONT + (size_t)REGION);
  ring_arena *arena = ring_arena_map(fd, FRONT, 1, REGION);
  CHECK(arena != NULL && ring_arena_take(arena, 0));
  return arena;
}

/* The arena falls back to ordinary memory, and releases the pages that it had. */
static void test_arena_without_pages(void) {
  enum { BYTES = 8 << 20 };
  ring_arena *arena = own_arena();
  for (int had = 0; had < 8; had++) {
    asked = 0;
    first = had;
    count = 1;
    uint8_t *buffer = ring_arena_alloc(arena, BYTES);
    CHECK(buffer != NULL && !lies_within(arena, buffer));
    CHECK_INT(asked, had + 1);
    memset(buffer, 1, BYTES);
    ring_free(buffer);
    CHECK(stored(arena) <= 8192);
  }
  first = -1;
  uint8_t *buffer = ring_arena_alloc(arena, BYTES);
  CHECK(lies_within(arena, buffer));
  CHECK(stored(arena) >= BYTES);
  ring_free(buffer);
  ring_arena_release(arena);
}

/* Reserved pages are not reserved again, in any pieces; adjoining pages are. */
static void test_arena_asks_once(void) {
  enum { BYTES = 1 << 20 };
  ring_arena *arena = own_arena();
  uint8_t *buffer = ring_arena_alloc(arena, BYTES);
  ring_free(buffer);
  asked = 0;
  for (int i = 0; i < 100; i++) {
    uint8_t *small = ring_arena_alloc(arena, BYTES / 3),
            *other = ring_arena_alloc(arena, BYTES / 3);
    ring_free(small);
    ring_free(other);
    ring_free(ring_arena_alloc(arena, BYTES));
  }
  CHECK_INT(asked, 0);
  uint8_t *whole = ring_arena_alloc(arena, REGION - 64); /* reserved and other pages, once joined */
  CHECK(lies_within(arena, whole));
  CHECK(asked > 0);
  CHECK(stored(arena) >= REGION);
  ring_free(whole);
  ring_arena_release(arena);
}

static void interrupt(int signal) {
  (void)signal;
}

/* Signals interrupt a reservation. */
static void test_arena_under_signals(void) {
  ring_arena *arena = own_arena();
  struct sigaction action = {.sa_handler = interrupt}, before;
  struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  CHECK_INT(sigaction(SIGALRM, &action, &before), 0);
  CHECK_INT(setitimer(ITIMER_REAL, &often, NULL), 0);
  uint8_t *buffer = ring_arena_alloc(arena, REGION / 2);
  CHECK_INT(setitimer(ITIMER_REAL, &never, NULL), 0);
  CHECK_INT(sigaction(SIGALRM, &before, NULL), 0);
  CHECK(lies_within(arena, buffer));
  memset(buffer, 1, REGION / 2);
  CHECK(stored(arena) >= REGION / 2);
  ring_free(buffer);
  ring_arena_release(arena);
}

/* ---- A job -------------------------------------------------------------------------------- */

typedef struct ration {
  int first, count, asked;
} ration;

static void starve(void *arg) {
  const ration *r = arg;
  asked = 0;
  first = r->first;
  count = r->count;
}

static void feed(void *arg) {
  ((ration *)arg)->asked = asked;
}

static int problems;

/* Once, or from then on, at each reservation of a rank. */
static void run_rations(int victim, int how_often) {
  workload *work = workload_alloc(WORKLOAD_SHM, victim);
  ration *r = work->arg = shared_alloc(sizeof *r);
  int failed = 0, slower = 0;
  double delay = 0;
  work->starve = starve;
  work->feed = feed;
  r->first = -1;
  problems += !workload_run_again(work, "nothing lacking");
  int most = r->asked;
  for (r->first = 0; r->first < most; r->first++) {
    char what[64];
    snprintf(what, sizeof what, "pages from time %d on, %d times", r->first, how_often);
    r->count = how_often;
    problems += !workload_run_again(work, what);
    failed += workload_failed(work);
    if (workload_failed(work) && workload_delay(work) > delay) delay = workload_delay(work);
    slower += !workload_failed(work) && strcmp(work->ends[victim].link, "shm") != 0;
  }
  printf("rank %d, %d times: asked %d times; %d failed, %d without shared memory; "
         "the others knew within %.3f s\n",
         victim, how_often, most, failed, slower, delay);
  CHECK(slower > 0 && most > 4);
  shared_free(r, sizeof *r);
  workload_free(work);
}

/* Runs a function in a process of its own, whose settings it may change. */
static void run_apart(void (*function)(void)) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    function();
    CHECK_INT(problems, 0);
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
}

static void test_job_without_pages(void) {
  for (int victim = 0; victim < 2; victim++) {
    run_rations(victim, 1);
    run_rations(victim, 1 << 20);
  }
  CHECK_INT(problems, 0);
}

/* ---- File systems ------------------------------------------------------------------------- */

/* Mounts for this process alone; false, with the reason, where that is forbidden. */
static bool mount_apart(const char *directory, const char *options, unsigned long flags) {
  bool apart =
      unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
  if (apart && mount("none", directory, "tmpfs", flags, options) == 0) return true;
  printf("skipped: cannot mount a file system of the test's own on %s: %s\n", directory,
         strerror(errno));
  return false;
}

static void run_rooms(void) {
  static const char *const staging[] = {"4k",    "64k",   "200k",  "420k",  "480k",  "600k",
                                        "1200k", "1800k", "2400k", "3000k", "3600k", "4200k",
                                        "4600k", "5000k", "6m",    "8m",    "16m"};
  enum { ROOMS = sizeof staging / sizeof staging[0] };
  workload *work = workload_alloc(WORKLOAD_SHM, 0);
  work->all = true;
  storage = "/tmp";
  for (size_t i = 0; i < ROOMS; i++) {
    char options[32];
    snprintf(options, sizeof options, "size=%s", staging[i]);
    if (!mount_apart("/tmp", options, 0)) return;
    problems += !workload_run_again(work, staging[i]);
    for (int rank = 0; rank < WORKLOAD_RANKS; rank++)
      printf("%s, rank %d: link %s, %s %s\n", staging[i], rank, work->ends[rank].link,
             work->ends[rank].step != NULL ? work->ends[rank].step : "came through",
             work->ends[rank].message);
    bool shared = strcmp(work->ends[0].link, "shm") == 0;
    if (i == 0) CHECK(!shared && !workload_failed(work));
    if (i == ROOMS - 1) CHECK(shared && !workload_failed(work));
    CHECK_INT(umount2("/tmp", MNT_DETACH), 0);
  }
  workload_free(work);
}

static void test_room_for_so_many_pages(void) {
  run_apart(run_rooms);
}

/* Nothing of a job lies in /dev/shm. */
static void run_device(const char *options, unsigned long flags, bool fill) {
  if (!mount_apart("/dev/shm", options, flags)) return;
  char byte[4096] = {1};
  int file = fill ? open("/dev/shm/full", O_CREAT | O_WRONLY, 0600) : -1;
  while (fill && write(file, byte, sizeof byte) > 0) continue;
  if (fill) CHECK_INT(close(file), 0);
  workload *work = workload_alloc(WORKLOAD_SHM, 0);
  problems += !workload_run_again(work, options);
  for (int rank = 0; rank < WORKLOAD_RANKS; rank++) {
    CHECK(work->ends[rank].step == NULL);
    CHECK_INT(strcmp(work->ends[rank].link, "shm"), 0);
  }
  workload_free(work);
}

static void run_small(void) {
  run_device("size=64m", 0, false);
}

static void run_full(void) {
  run_device("size=64k", 0, true);
}

static void run_read_only(void) {
  run_device("size=64k", MS_RDONLY, false);
}

static void test_device_of_shared_memory(void) {
  run_apart(run_small);
  run_apart(run_full);
  run_apart(run_read_only);
}

/* ---- A control group ---------------------------------------------------------------------- */

static char group[128];

static bool write_text(const char *directory, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool written = write(file, text, strlen(text)) == (ssize_t)strlen(text);
  close(file);
  return written;
}

/* Makes a control group of 48 MiB, of either version; false where that is impossible. */
static bool make_group(void) {
  static const struct {
    const char *root, *limit;
  } kinds[] = {{"/sys/fs/cgroup", "memory.max"},
               {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
  for (int i = 0; i < 2; i++) {
    snprintf(group, sizeof group, "%s/sparkring-test-%d", kinds[i].root, (int)getpid());
    if (mkdir(group, 0755) != 0) continue;
    if (write_text(group, kinds[i].limit, "50331648")) return true;
    rmdir(group);
  }
  return false;
}

typedef struct hunger {
  int arrived;
  bool failed;
} hunger;

static void run_hungry(int rank, int size, void *shared) {
  enum { BYTES = 128 << 20 };
  hunger *h = shared;
  float one = 1, sum = 0;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&h->arrived, size);
  if (rank == 1) {
    char text[16];
    void *memory;
    snprintf(text, sizeof text, "%d", (int)getpid());
    CHECK(write_text(group, "cgroup.procs", text));
    if (ring_alloc(comm, BYTES, &memory) == RING_OK) memset(memory, 1, BYTES);
    CHECK(!"the group's limit is none");
  }
  CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_FLOAT32, RING_SUM), RING_PEER_LOST);
  CHECK_INT(ring_comm_error(comm)->rank, 1);
  h->failed = true;
  ring_comm_free(comm);
}

/* The system kills a rank that exceeds it, wherever the memory is; the other ranks fail at once. */
static void test_group_with_little_memory(void) {
  if (!make_group()) {
    printf("skipped: cannot make a control group that limits memory: %s\n", strerror(errno));
    return;
  }
  hunger *h = shared_alloc(sizeof *h);
  pid_t ranks[2];
  int status[2];
  fflush(NULL);
  for (int rank = 0; rank < 2; rank++) {
    ranks[rank] = fork();
    CHECK(ranks[rank] >= 0);
    if (ranks[rank] > 0) continue;
    alarm(30);
    run_hungry(rank, 2, h);
    exit(0);
  }
  for (int rank = 0; rank < 2; rank++) CHECK(waitpid(ranks[rank], &status[rank], 0) == ranks[rank]);
  CHECK_INT(rmdir(group), 0);
  CHECK_INT(status[0], 0);
  CHECK(WIFSIGNALED(status[1]));
  CHECK_INT(WTERMSIG(status[1]), SIGKILL);
  CHECK(h->failed);
  shared_free(h, sizeof *h);
}

int main(void) {
  RUN(test_arena_without_pages);
  RUN(test_arena_asks_once);
  RUN(test_arena_under_signals);
  RUN(test_job_without_pages);
  RUN(test_room_for_so_many_pages);
  RUN(test_device_of_shared_memory);
  RUN(test_group_with_little_memory);
  return 0;
}
