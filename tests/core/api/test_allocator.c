/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory runs out: on one rank of a workload an allocation fails, and with it every later one or
 * none. The linker sends what the core asks of the system through here (--wrap), and OpenSSL asks the
 * same functions. Before that the workload runs over each link with enough of it, to learn which sites
 * ask (see origin.h). Then each site of the core fails alone, and each line of OpenSSL and each way of
 * the core into it, over every link and on every rank that has them; and each call of an allocator in
 * the core with all that follows it, in turn over these. With sanitizers, all of them in turn.
 *   test_allocator                      every site
 *   test_allocator --all                every allocation, but of those of OpenSSL every fifth
 *   test_allocator LINK FORM K [SITE]   one run: the K-th allocation of that site, or of all
 */
#include <errno.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "sites.h"
#include "workload.h"

typedef struct famine {
  uint64_t site;    /* whose allocations are counted; 0: all */
  long first;       /* of these, that fails; 0: none does */
  bool lasting;     /* and all later ones, whoever asks */
  bool crypto;      /* of OpenSSL; or of the core */
  bool arrived;     /* it has failed */
  unsigned long at; /* which asked for it */
  journal *journal; /* of all that is asked for, or NULL */
} famine;

static famine *hunger; /* of this process; NULL: it is not the victim */
static atomic_long asked;
static atomic_bool begun;
static atomic_long held; /* allocations of the core that were not freed */

/* Whether the system has this one. */
static bool grant(void *from, const char *file, int line) {
  if (hunger == NULL) return true;
  origin who = origin_find(from, file, line);
  if (hunger->journal != NULL) journal_note(hunger->journal, &who);
  if (hunger->crypto != (who.line != 0)) return true;
  bool fails = atomic_load(&begun) && hunger->lasting;
  if (!atomic_load(&begun) && (hunger->site == 0 || hunger->site == origin_site(&who)) &&
      atomic_fetch_add(&asked, 1) + 1 == hunger->first) {
    atomic_store(&begun, true);
    hunger->arrived = true;
    hunger->at = who.at;
    fails = true;
  }
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
  return grant(SITE, NULL, 0) ? keep(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t count, size_t size) {
  return grant(SITE, NULL, 0) ? keep(__real_calloc(count, size)) : NULL;
}

void *__wrap_realloc(void *memory, size_t size) {
  if (!grant(SITE, NULL, 0)) return NULL;
  return memory == NULL ? keep(__real_realloc(memory, size)) : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return grant(SITE, NULL, 0) ? keep(__real_aligned_alloc(alignment, size)) : NULL;
}

char *__wrap_strdup(const char *text) {
  return grant(SITE, NULL, 0) ? keep(__real_strdup(text)) : NULL;
}

char *__wrap_strndup(const char *text, size_t length) {
  return grant(SITE, NULL, 0) ? keep(__real_strndup(text, length)) : NULL;
}

void __wrap_free(void *memory) {
  if (memory != NULL && hunger != NULL) atomic_fetch_sub(&held, 1);
  __real_free(memory);
}

void *__wrap_mmap(void *at, size_t length, int access, int flags, int fd, off_t offset) {
  if (!grant(SITE, NULL, 0)) return MAP_FAILED;
  void *memory = __real_mmap(at, length, access, flags, fd, offset);
  return memory == MAP_FAILED ? memory : keep(memory);
}

int __wrap_munmap(void *at, size_t length) {
  if (hunger != NULL) atomic_fetch_sub(&held, 1);
  return __real_munmap(at, length);
}

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found) {
  return grant(SITE, NULL, 0) ? __real_getaddrinfo(host, service, hints, found) : EAI_MEMORY;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *arg) {
  return grant(SITE, NULL, 0) ? __real_pthread_create(thread, attributes, function, arg) : EAGAIN;
}

/* OpenSSL's own; what it keeps for good is its affair. */
static void *crypto_malloc(size_t size, const char *file, int line) {
  return grant(SITE, file, line) ? __real_malloc(size) : NULL;
}

static void *crypto_realloc(void *memory, size_t size, const char *file, int line) {
  return grant(SITE, file, line) ? __real_realloc(memory, size) : NULL;
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
  (void)arg;
  hunger = NULL;
  CHECK_INT(atomic_load(&held), 0);
}

/* A form is a sum of these. */
enum { FORM_VICTIM = 1, FORM_LASTING = 2, FORM_CRYPTO = 4, FORM_EXCHANGE = 8 };
enum { RUNNERS = 16, TRIES = 3 };

typedef struct tally {
  int runs, went_on, failed, missed, unmet, problems;
  double delay;
} tally;

static tally *tallies; /* of each link, for each runner */

/* One run: over a link, in a form, the k-th allocation of a site, or of all. */
typedef struct job {
  workload_link link;
  int form;
  uint64_t site;
  long k;
} job;

static workload *prepare(const job *of) {
  workload *work = workload_alloc(of->link, of->form & FORM_VICTIM);
  famine *f = work->arg = shared_alloc(sizeof *f);
  *f = (famine){.site = of->site,
                .first = of->k,
                .lasting = of->form & FORM_LASTING,
                .crypto = of->form & FORM_CRYPTO};
  work->exchanges = of->form & FORM_EXCHANGE;
  work->starve = starve;
  work->feed = feed;
  return work;
}

static void finish_work(workload *work) {
  shared_free(work->arg, sizeof(famine));
  workload_free(work);
}

/* Whether a run shows nothing: the allocation was not asked for, or ranks were late, as on a machine
 * that has no time for them. */
static bool is_void(const workload *work, bool well) {
  return !((famine *)work->arg)->arrived || (!well && workload_late(work));
}

static bool run_once(workload *work, const char *what, tally *sum) {
  famine *f = work->arg;
  f->arrived = false;
  sum->runs++;
  bool well = workload_run(work, what), failed = workload_failed(work);
  if (!well) fprintf(stderr, "  the allocation was asked for at %#lx\n", f->at);
  sum->failed += failed;
  sum->went_on += !failed;
  bool arrived = failed && strcmp(work->ends[work->victim].step, "open") != 0;
  if (arrived && workload_delay(work) > sum->delay) sum->delay = workload_delay(work);
  return well;
}

static void run(const job *of, tally *sum) {
  workload *work = prepare(of);
  char what[160];
  snprintf(what, sizeof what, "again: %d %d %ld %#llx", (int)of->link, of->form, of->k,
           (unsigned long long)of->site);
  bool well = run_once(work, what, sum);
  for (int i = 1; i < TRIES && is_void(work, well); i++) well = run_once(work, what, sum);
  sum->unmet += !((famine *)work->arg)->arrived;
  sum->missed += workload_missed(work);
  sum->problems += !well;
  finish_work(work);
}

/* ---- Who asks in a whole run -------------------------------------------------------------- */

static const job wholes[SITE_RUNS] = {
    {.link = WORKLOAD_SHM, .form = 0},
    {.link = WORKLOAD_SHM, .form = FORM_VICTIM},
    {.link = WORKLOAD_TCP, .form = 0},
    {.link = WORKLOAD_TCP, .form = FORM_VICTIM},
    {.link = WORKLOAD_CONNECTIONS, .form = 0},
    {.link = WORKLOAD_CONNECTIONS, .form = FORM_VICTIM},
    {.link = WORKLOAD_TLS, .form = 0},
    {.link = WORKLOAD_TLS, .form = FORM_VICTIM},
    {.link = WORKLOAD_SHM, .form = FORM_EXCHANGE},
    {.link = WORKLOAD_TCP, .form = FORM_EXCHANGE | FORM_VICTIM},
};

static void listen_to(int number, int count, void *shared) {
  (void)count;
  workload *work = prepare(&wholes[number]);
  ((famine *)work->arg)->journal = (journal *)shared + number;
  CHECK(workload_run(work, "nothing"));
  CHECK(!workload_failed(work));
  finish_work(work);
}

typedef struct list {
  job *jobs;
  int count, capacity;
} list;

static void list_add(list *to, const job *in, int form, uint64_t site, long k) {
  if (to->count == to->capacity) {
    to->capacity = to->capacity == 0 ? 1024 : 2 * to->capacity;
    to->jobs = realloc(to->jobs, (size_t)to->capacity * sizeof *to->jobs);
    CHECK(to->jobs != NULL);
  }
  to->jobs[to->count++] = (job){in->link, in->form | form, site, k};
}

/* In the middle of the times that it asks, what fails with all that follows. */
static void list_sites(list *to, const sites *from) {
  int turn = 0, core = 0, crypto = 0;
  for (int i = 0; i < from->count; i++) {
    const site *of = &from->all[i];
    uint64_t key = origin_site(&of->origin);
    bool of_crypto = of->origin.line != 0;
    site_news news = sites_news(from, i);
    if (of_crypto && !news.line && !news.callers) continue;
    crypto += of_crypto;
    core += !of_crypto;
    turn = site_turn(of, turn);
    for (int run = 0; run < SITE_RUNS; run++)
      if (of->counts[run] > 0 && (run == turn || !SPARKRING_SANITIZED))
        list_add(to, &wholes[run], of_crypto ? FORM_CRYPTO : 0, key, 1);
    if (of_crypto || !news.call) continue;
    turn = site_turn(of, turn);
    list_add(to, &wholes[turn], FORM_LASTING, key, (of->counts[turn] + 1) / 2);
  }
  printf("%d sites of the core, %d of OpenSSL\n", core, crypto);
}

static void list_all(list *to, const journal *in, int number) {
  long core = 0, crypto = 0;
  for (int i = 0; i < in->count; i++) {
    bool of_crypto = in->asked[i].line != 0;
    long k = of_crypto ? ++crypto : ++core;
    if (of_crypto && k % 5 != 1) continue;
    list_add(to, &wholes[number], of_crypto ? FORM_CRYPTO : 0, 0, k);
    if (!of_crypto) list_add(to, &wholes[number], FORM_LASTING, 0, k);
  }
  printf("%s, form %d: %ld allocations, %ld of OpenSSL\n", workload_link_name(wholes[number].link),
         wholes[number].form, core, crypto);
}

/* ---- All of them -------------------------------------------------------------------------- */

static list jobs;

/* Most runs wait, so many go on beside each other. */
static void run_jobs(int runner, int runners, void *next) {
  (void)runners;
  alarm(0); /* all of them take long */
  for (int i; (i = __sync_fetch_and_add((int *)next, 1)) < jobs.count;)
    run(&jobs.jobs[i], &tallies[runner * WORKLOAD_LINKS + (int)jobs.jobs[i].link]);
}

static void report(void) {
  int problems = 0, unmet = 0, missed = 0, others = 0;
  for (workload_link link = WORKLOAD_SHM; link < WORKLOAD_LINKS; link++) {
    tally all = {0};
    for (int runner = 0; runner < RUNNERS; runner++) {
      const tally *sum = &tallies[runner * WORKLOAD_LINKS + (int)link];
      all.runs += sum->runs;
      all.went_on += sum->went_on;
      all.failed += sum->failed;
      all.missed += sum->missed;
      all.unmet += sum->unmet;
      all.problems += sum->problems;
      if (sum->delay > all.delay) all.delay = sum->delay;
    }
    others += (WORKLOAD_RANKS - 1) * all.failed;
    missed += all.missed;
    problems += all.problems;
    unmet += all.unmet;
    printf(
        "%-6s %5d runs: %5d went on, %5d failed as they should, %d did not; %d times another rank "
        "got no reason; once connected, the others knew within %.3f s\n",
        workload_link_name(link), all.runs, all.went_on, all.failed - all.problems, all.problems,
        all.missed, all.delay);
  }
  printf("%d allocations to fail: %d were not asked for again\n", jobs.count, unmet);
  CHECK_INT(problems, 0);
  CHECK(unmet * 20 <= jobs.count);
  CHECK(missed * 20 <= others);
}

static void run_all(bool every) {
  size_t length = SITE_RUNS * sizeof(journal);
  journal *journals = shared_alloc(length);
  sites found = {0};
  run_ranks(SITE_RUNS, listen_to, journals);
  for (int i = 0; i < SITE_RUNS; i++) {
    CHECK(journals[i].count > 20);
    if (every) list_all(&jobs, &journals[i], i);
    if (!every) sites_add(&found, &journals[i], i);
  }
  if (!every) list_sites(&jobs, &found);
  shared_free(journals, length);
  tallies = shared_alloc(RUNNERS * WORKLOAD_LINKS * sizeof *tallies);
  RUN_RANKS(RUNNERS, run_jobs, (int){0});
  report();
  free(found.all);
  free(jobs.jobs);
}

/* One run, to look at: LINK FORM K [SITE]. */
static void run_one(int count, char **arguments) {
  uint64_t site = count > 3 ? strtoull(arguments[3], NULL, 16) : 0;
  workload *work = prepare(
      &(job){(workload_link)atoi(arguments[0]), atoi(arguments[1]), site, atol(arguments[2])});
  workload_run(work, "this run");
  for (int i = 0; i < WORKLOAD_RANKS; i++) {
    const workload_end *end = &work->ends[i];
    printf("rank %d: %s %s at %.3f: %s\n", i, end->step != NULL ? end->step : "came through",
           ring_status_name(end->status), end->at, end->message);
  }
  printf("%#lx\n", ((famine *)work->arg)->at);
  finish_work(work);
}

static void *open_to_warm_up(void *arg) {
  ring_options options = rank_options(*(int *)arg, 2);
  options.shared_memory = RING_OFF;
  options.encryption = RING_ON;
  ring_comm *comm = NULL;
  comm = open_with(&options);
  close_rank(comm);
  return NULL;
}

/* OpenSSL allocates thousands of times when it is first used: that is done before the forks. */
static void warm_up(void) {
  int ranks[2] = {0, 1};
  pthread_t thread;
  CHECK_INT(CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free), 1);
  CHECK_INT(pthread_create(&thread, NULL, open_to_warm_up, &ranks[1]), 0);
  open_to_warm_up(&ranks[0]);
  CHECK_INT(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv) {
  warm_up();
  if (argc >= 4)
    run_one(argc - 1, argv + 1);
  else
    run_all(argc == 2 && strcmp(argv[1], "--all") == 0);
  return 0;
}
