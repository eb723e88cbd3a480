/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and containers that do not have everything: system calls that do not exist or are not
 * permitted (seccomp), and limits of a process. The workload goes on by a slower way, or its victim
 * prints what is missing.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "workload.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

typedef struct lack {
  const char *name;
  int call; /* that fails */
  int code; /* with this errno */
  int limit;
  rlim_t most;
} lack;

/* Lets one system call fail from now on. */
static void forbid(int call, int code) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void starve(void *arg) {
  const lack *l = arg;
  if (l->code != 0) {
    forbid(l->call, l->code);
    return;
  }
  struct rlimit limit = {l->most, l->most};
  CHECK_INT(setrlimit((__rlimit_resource_t)l->limit, &limit), 0);
}

enum { RUNNERS = 16 };

static int problems;

static void run_lack(const lack *l, workload_link link, int victim) {
  workload *work = workload_alloc(link, victim);
  lack *shared = work->arg = shared_alloc(sizeof *shared);
  *shared = *l;
  work->starve = starve;
  problems += !workload_run_again(work, l->name);
  const workload_end *end = &work->ends[victim];
  printf("%-24s %-4d %-5s rank %d: %s %s, link %s\n", l->name, l->code, workload_link_name(link),
         victim, end->step != NULL ? end->step : "came through",
         end->step != NULL ? end->message : "", end->link);
  shared_free(shared, sizeof *shared);
  workload_free(work);
}

typedef struct lack_list {
  const lack *lacks;
  size_t count;
} lack_list;

static void run_some(int runner, int runners, void *arg) {
  const lack_list *list = arg;
  for (size_t i = (size_t)runner; i < list->count * WORKLOAD_LINKS; i += (size_t)runners) {
    size_t lack = i / WORKLOAD_LINKS, link = i % WORKLOAD_LINKS;
    run_lack(&list->lacks[lack], (workload_link)link, (int)(lack + link) % 2);
  }
  CHECK_INT(problems, 0);
}

/* All of them, on each link; some beside each other, as many only wait. */
static void run_lacks(const lack *lacks, size_t count) {
  lack_list list = {lacks, count};
  run_ranks(RUNNERS, run_some, &list);
}

#define CALL(name, code) {#name, SYS_##name, code, 0, 0}

static void test_system_calls_that_fail(void) {
  static const lack lacks[] = {
      CALL(memfd_create, ENOSYS),  CALL(memfd_create, EPERM),  CALL(membarrier, ENOSYS),
      CALL(membarrier, EPERM),     CALL(ftruncate, EPERM),     CALL(fallocate, ENOSYS),
      CALL(madvise, EPERM),        CALL(pipe2, ENOSYS),        CALL(sched_getaffinity, EPERM),
      CALL(epoll_create1, ENOSYS), CALL(epoll_create1, EPERM), CALL(getrandom, ENOSYS),
      CALL(accept4, EPERM),        CALL(sched_yield, EPERM),   CALL(openat, EACCES),
      CALL(clone3, EPERM),         CALL(prlimit64, EPERM),     CALL(sysinfo, EPERM),
      CALL(setsockopt, EPERM),     CALL(bind, EACCES),         CALL(socket, EMFILE),
      CALL(mmap, ENOMEM),
  };
  run_lacks(lacks, sizeof lacks / sizeof lacks[0]);
}

static void test_limits(void) {
  static const lack lacks[] = {
      {"no files", 0, 0, RLIMIT_FSIZE, 0},
      {"files of 1 MiB", 0, 0, RLIMIT_FSIZE, 1 << 20},
      {"no locked memory", 0, 0, RLIMIT_MEMLOCK, 0},
      {"16 GiB of addresses", 0, 0, RLIMIT_AS, (rlim_t)16 << 30},
      {"512 MiB of addresses", 0, 0, RLIMIT_AS, (rlim_t)512 << 20},
      {"16 MiB of addresses", 0, 0, RLIMIT_AS, (rlim_t)16 << 20},
      {"1 MiB of data", 0, 0, RLIMIT_DATA, 1 << 20},
  };
  run_lacks(lacks, sizeof lacks / sizeof lacks[0]);
}

int main(void) {
  RUN(test_system_calls_that_fail);
  RUN(test_limits);
  return 0;
}
