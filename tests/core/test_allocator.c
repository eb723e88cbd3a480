/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory runs out: on one rank of a workload the k-th allocation fails, and with it every later one
 * or none, for every k. The linker sends what the core asks of the system through here (--wrap), and
 * OpenSSL asks the same functions.
 *   test_allocator                 some k
 *   test_allocator --all           every k, but of those of OpenSSL every fifth
 *   test_allocator LINK FORM K     one run
 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "workload.h"

typedef struct famine {
  long first;   /* allocation that fails; 0: none does */
  bool lasting; /* and all later ones */
  bool crypto;  /* of OpenSSL; or of the core */
  long asked;   /* allocations of that kind */
  void *site;   /* that asked for the first one that failed */
} famine;

static famine *hunger; /* of this process; NULL: it is not the victim */
static atomic_long asked;
static atomic_long held; /* allocations of the core that were not freed */

/* Whether the system has this one. */
static bool grant(bool crypto, void *site) {
  if (hunger == NULL || hunger->crypto != crypto) return true;
  long number = atomic_fetch_add(&asked, 1) + 1;
  bool first = number == hunger->first;
  bool fails = first || (hunger->lasting && hunger->first != 0 && number > hunger->first);
  if (first) hunger->site = site;
  if (fails) errno = ENOMEM;
  return !fails;
}

static void *keep(void *memory) {
  if (memory != NULL && hunger != NULL) atomic_fetch_add(&held, 1);
  return memory;
}

#define SITE __builtin_return_address(0)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t length, int access, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t length);
int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *arg);

void *__wrap_malloc(size_t size) {
  return grant(false, SITE) ? keep(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t count, size_t size) {
  return grant(false, SITE) ? keep(__real_calloc(count, size)) : NULL;
}

void *__wrap_realloc(void *memory, size_t size) {
  if (!grant(false, SITE)) return NULL;
  return memory == NULL ? keep(__real_realloc(memory, size)) : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return grant(false, SITE) ? keep(__real_aligned_alloc(alignment, size)) : NULL;
}

char *__wrap_strdup(const char *text) {
  return grant(false, SITE) ? keep(__real_strdup(text)) : NULL;
}

char *__wrap_strndup(const char *text, size_t length) {
  return grant(false, SITE) ? keep(__real_strndup(text, length)) : NULL;
}

void __wrap_free(void *memory) {
  if (memory != NULL && hunger != NULL) atomic_fetch_sub(&held, 1);
  __real_free(memory);
}

void *__wrap_mmap(void *at, size_t length, int access, int flags, int fd, off_t offset) {
  if (!grant(false, SITE)) return MAP_FAILED;
  void *memory = __real_mmap(at, length, access, flags, fd, offset);
  return memory == MAP_FAILED ? memory : keep(memory);
}

int __wrap_munmap(void *at, size_t length) {
  if (hunger != NULL) atomic_fetch_sub(&held, 1);
  return __real_munmap(at, length);
}

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found) {
  return grant(false, SITE) ? __real_getaddrinfo(host, service, hints, found) : EAI_MEMORY;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *arg) {
  return grant(false, SITE) ? __real_pthread_create(thread, attributes, function, arg) : EAGAIN;
}

/* OpenSSL's own; what it keeps for good is its affair. */
static void *crypto_malloc(size_t size, const char *file, int line) {
  (void)file, (void)line;
  return grant(true, SITE) ? __real_malloc(size) : NULL;
}

static void *crypto_realloc(void *memory, size_t size, const char *file, int line) {
  (void)file, (void)line;
  return grant(true, SITE) ? __real_realloc(memory, size) : NULL;
}

static void crypto_free(void *memory, const char *file, int line) {
  (void)file, (void)line;
  __real_free(memory);
}

/* ---- Runs --------------------------------------------------------------------------------- */

static void starve(void *arg) {
  hunger = arg;
}

static void feed(void *arg) {
  famine *f = arg;
  f->asked = atomic_load(&asked);
  hunger = NULL;
  CHECK_INT(atomic_load(&held), 0);
}

enum { RUNNERS = 16, FORMS = 6, PARTS = 3, PIECES_MOST = (WORKLOAD_LINKS * FORMS + 2) * PARTS };

typedef struct tally {
  int runs, went_on, failed, problems;
  double delay;
} tally;

static tally *tallies; /* of each link, for each runner */

/* The place as addr2line wants it. */
static unsigned long place(void *site) {
  Dl_info info;
  bool known = site != NULL && dladdr(site, &info) != 0;
  return known ? (unsigned long)((char *)site - (char *)info.dli_fbase) - 1 : 0;
}

/* Runs a workload whose k-th allocation fails. */
static void run(workload *work, long k, tally *sum) {
  famine *f = work->arg;
  char what[160];
  f->first = k;
  f->site = NULL;
  snprintf(what, sizeof what, "%sallocation %ld%s", f->crypto ? "OpenSSL's " : "", k,
           f->lasting ? " and all later ones" : "");
  sum->runs++;
  if (!workload_run(work, what)) {
    sum->problems++;
    fprintf(stderr, "  the allocation was asked for at %#lx\n", place(f->site));
  }
  bool failed = workload_failed(work);
  sum->failed += failed;
  sum->went_on += !failed;
  bool met = failed && strcmp(work->ends[work->victim].step, "open") != 0;
  if (met && workload_delay(work) > sum->delay) sum->delay = workload_delay(work);
}

static workload *prepare(workload_link link, int form) {
  workload *work = workload_alloc(link, form % 2);
  famine *f = work->arg = shared_alloc(sizeof *f);
  f->lasting = form / 2 % 2 != 0;
  f->crypto = form / 4 % 2 != 0;
  work->starve = starve;
  work->feed = feed;
  return work;
}

static void finish_work(workload *work) {
  shared_free(work->arg, sizeof(famine));
  workload_free(work);
}

/* Of the runs of one link and form those of every `step`th allocation from `first` on, and of these
 * some: each runner takes the next piece, as long as there is one. */
typedef struct piece {
  workload_link link;
  int form;
  bool exchanges;
  long first, step;
  int part;
} piece;

static piece pieces[PIECES_MOST];
static int piece_count;

static void run_piece(const piece *p, tally *sum) {
  workload *work = prepare(p->link, p->form);
  work->exchanges = p->exchanges;
  run(work, 0, sum);
  long most = ((famine *)work->arg)->asked;
  if (p->part == 0)
    printf("%s, form %d%s: %ld allocations\n", workload_link_name(p->link), p->form,
           p->exchanges ? ", exchange" : "", most);
  CHECK(!workload_failed(work));
  CHECK(most > 20);
  for (long k = p->first + p->part * p->step; k <= most + 2; k += PARTS * p->step)
    run(work, k, sum);
  finish_work(work);
}

/* Most runs wait, so many go on beside each other. */
static void run_pieces(int runner, int runners, void *next) {
  (void)runners;
  alarm(0); /* all of them take long */
  for (int i; (i = __sync_fetch_and_add((int *)next, 1)) < piece_count;)
    run_piece(&pieces[i], &tallies[runner * WORKLOAD_LINKS + (int)pieces[i].link]);
}

static void plan(workload_link link, int form, bool exchanges, long first, long step) {
  for (int part = 0; part < PARTS; part++)
    pieces[piece_count++] = (piece){link, form, exchanges, first, step, part};
}

static void report(void) {
  int problems = 0;
  for (workload_link link = WORKLOAD_SHM; link < WORKLOAD_LINKS; link++) {
    tally all = {0};
    for (int runner = 0; runner < RUNNERS; runner++) {
      const tally *sum = &tallies[runner * WORKLOAD_LINKS + (int)link];
      all.runs += sum->runs;
      all.went_on += sum->went_on;
      all.failed += sum->failed;
      all.problems += sum->problems;
      if (sum->delay > all.delay) all.delay = sum->delay;
    }
    problems += all.problems;
    printf("%-6s %5d runs: %5d went on, %5d failed as they should, %d did not; once they had met, "
           "the others knew within %.3f s\n",
           workload_link_name(link), all.runs, all.went_on, all.failed - all.problems, all.problems,
           all.delay);
  }
  CHECK_INT(problems, 0);
}

/* step: of the core's allocations; OpenSSL makes ten times as many, that are more alike. */
static void run_all(long step, long crypto_step) {
  long first = 0;
  tallies = shared_alloc(RUNNERS * WORKLOAD_LINKS * sizeof *tallies);
  for (workload_link link = WORKLOAD_SHM; link < WORKLOAD_LINKS; link++)
    for (int form = 0; form < FORMS; form++, first++) {
      long stride = form < 4 ? step : crypto_step;
      plan(link, form, false, 1 + first % stride, stride);
    }
  plan(WORKLOAD_SHM, 0, true, 1, step);
  plan(WORKLOAD_TCP, 3, true, 1, step);
  int *next = shared_alloc(sizeof *next);
  run_ranks(RUNNERS, run_pieces, next);
  shared_free(next, sizeof *next);
  report();
}

/* One run, to look at: LINK FORM K. */
static void run_one(char **arguments) {
  tally sum = {0};
  workload *work = prepare((workload_link)atoi(arguments[0]), atoi(arguments[1]));
  run(work, atol(arguments[2]), &sum);
  for (int i = 0; i < WORKLOAD_RANKS; i++) {
    const workload_end *end = &work->ends[i];
    printf("rank %d: %s %s at %.3f: %s\n", i, end->step != NULL ? end->step : "came through",
           ring_status_name(end->status), end->at, end->message);
  }
  printf("%#lx\n", place(((famine *)work->arg)->site));
  finish_work(work);
}

static void *meet(void *arg) {
  ring_options options = rank_options(*(int *)arg, 2);
  options.shared_memory = -1;
  options.encryption = 1;
  ring_comm *comm = NULL;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
  return NULL;
}

/* OpenSSL allocates thousands of times when it is first used: that is done before the forks. */
static void warm_up(void) {
  int ranks[2] = {0, 1};
  pthread_t thread;
  CHECK_INT(CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free), 1);
  CHECK_INT(pthread_create(&thread, NULL, meet, &ranks[1]), 0);
  meet(&ranks[0]);
  CHECK_INT(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv) {
  warm_up();
  if (argc == 4)
    run_one(argv + 1);
  else if (argc == 2 && strcmp(argv[1], "--all") == 0)
    run_all(1, 5);
  else
    run_all(23, 1499);
  return 0;
}
