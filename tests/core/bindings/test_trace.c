/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces: the file is valid JSON after every write, also of a rank that is killed; it has the calls of the
 * rank; clocks of two hosts are aligned within the stated error.
 */
#include "bindings/trace.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bindings/trace_event.h"
#include "check.h"
#include "json.h"
#include "ranks.h"
#include "victims.h"

enum { CALLS = 2000, MILLISECONDS = 1000 };

static char directory[64];

static void make_directory(void) {
  strcpy(directory, "/tmp/test_trace.XXXXXX");
  CHECK(mkdtemp(directory) != NULL);
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "r");
  struct stat about;
  CHECK(file != NULL && fstat(fileno(file), &about) == 0);
  char *text = calloc(1, (size_t)about.st_size + 1);
  CHECK_INT(fread(text, 1, (size_t)about.st_size, file), about.st_size);
  fclose(file);
  return text;
}

static int count_of(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)) != NULL; text++) count++;
  return count;
}

/* Whether all lines but one are whole: SIGKILL can end a write between two pages. */
static bool has_one_cut_line(const char *text) {
  char *copy = strdup(text), *rest = copy;
  int cut = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    line += strspn(line, "[, ");
    if (*line != '\0' && *line != ']' && !json_is_valid(line)) cut++;
  }
  free(copy);
  return cut == 1;
}

static bool is_killed; /* the ranks of check_files() */

/* Runs `check` for the file of each rank, and removes the directory. */
static void check_files(int expected, void (*check)(int rank, const char *text)) {
  DIR *entries = opendir(directory);
  char path[512];
  int count = 0, rank;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (sscanf(entry->d_name, "rank-%5d-", &rank) != 1) continue;
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    char *text = read_file(path);
    CHECK(json_is_valid(text) || (is_killed && has_one_cut_line(text)));
    check(rank, text);
    free(text);
    unlink(path);
    count++;
  }
  closedir(entries);
  CHECK_INT(count, expected);
  CHECK_INT(rmdir(directory), 0);
}

/* ---- The file ----------------------------------------------------------------------------- */

static void add(ring_trace_text *text, const char *line) {
  char *to = ring_trace_text_reserve(text, strlen(line));
  CHECK(to != NULL);
  memcpy(to, line, strlen(line));
  text->length += strlen(line);
}

/* Final lines stay, and provisional ones are replaced, by shorter and by longer ones. */
static void test_valid_after_every_write(void) {
  static const char *const provisional[] = {"\n,{\"late\":\"a long line that is replaced\"}", "",
                                            "\n,{\"late\":1}\n,{\"late\":2}", "\n,{\"late\":3}"};
  char path[128], line[32];
  ring_trace_file file;
  ring_trace_text text = {0};
  make_directory();
  snprintf(path, sizeof path, "%s/file.json", directory);
  CHECK_INT(ring_trace_file_open(&file, path, "{\"first\":true}"), 0);
  for (int i = 0; i < 40; i++) {
    snprintf(line, sizeof line, "\n,{\"final\":%d}", i);
    if (i % 3 == 0) add(&text, line);
    size_t final = text.length;
    add(&text, provisional[i % 4]);
    CHECK_INT(ring_trace_file_write(&file, &text, final), 0);
    char *content = read_file(path);
    CHECK(json_is_valid(content));
    CHECK_INT(count_of(content, "first"), 1);
    CHECK_INT(count_of(content, "final"), i / 3 + 1);
    CHECK_INT(count_of(content, "late"), count_of(provisional[i % 4], "late"));
    free(content);
  }
  close(file.descriptor);
  free(text.bytes);
  unlink(path);
  rmdir(directory);
}

/* A file that may not grow keeps what it has. */
static void test_full_disk(void) {
  struct rlimit before, limit;
  char path[128];
  ring_trace_file file;
  ring_trace_text text = {0};
  make_directory();
  snprintf(path, sizeof path, "%s/file.json", directory);
  CHECK_INT(ring_trace_file_open(&file, path, "{\"first\":true}"), 0);
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 64;
  signal(SIGXFSZ, SIG_IGN);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
  for (int i = 0; i < 10; i++) add(&text, "\n,{\"final\":true}");
  CHECK_INT(ring_trace_file_write(&file, &text, text.length), EFBIG);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
  char *content = read_file(path);
  CHECK(json_is_valid(content));
  CHECK_INT(count_of(content, "final"), 0);
  free(content);
  close(file.descriptor);
  free(text.bytes);
  unlink(path);
  rmdir(directory);
}

/* ---- Ranks -------------------------------------------------------------------------------- */

static ring_trace *start(ring_comm *comm) {
  ring_clock_offset offset;
  ring_trace *trace = NULL;
  CHECK_INT(ring_clock_offset_measure(comm, &offset), RING_OK);
  CHECK_INT(ring_trace_start(comm, directory, &offset, false, &trace), 0);
  return trace;
}

static void sum(ring_comm *comm) {
  static float x[1000];
  CHECK_INT(ring_allreduce(comm, x, x, 1000, RING_FLOAT32, RING_SUM), RING_OK);
}

static void trace_calls(ring_comm *comm, void *shared) {
  (void)shared;
  sum(comm);
  ring_trace *trace = start(comm);
  for (int i = 0; i < CALLS; i++) sum(comm);
  CHECK_INT(ring_trace_stop(trace), 0);
  sum(comm);
}

static void check_calls(int rank, const char *text) {
  char name[64];
  snprintf(name, sizeof name, "\"name\":\"rank %d (127.0.0.1)\"", rank);
  CHECK_CONTAINS(text, name);
  CHECK_CONTAINS(text, "\"clock_offset_ns\":0,");
  CHECK_INT(count_of(text, "\"name\":\"allreduce\",\"cat\":\"call\",\"ph\":\"X\""), CALLS);
  CHECK_INT(count_of(text, "\"bytes\":4000"), CALLS);
  CHECK_INT(count_of(text, "unfinished"), 0);
}

static void test_calls(void) {
  make_directory();
  run_comms(2, trace_calls, NULL);
  check_files(2, check_calls);
}

/* Rank 1 is killed at any point of its calls. Rank 0 waits for it in a call that fails. */
static void trace_until_killed(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_trace *trace = start(comm);
  if (rank == 1) be_killed_soon(shared);
  static float x[1000];
  ring_status status = RING_OK;
  while (status == RING_OK) status = ring_allreduce(comm, x, x, 1000, RING_FLOAT32, RING_SUM);
  CHECK_INT(ring_trace_stop(trace), 0);
  ring_comm_free(comm);
}

static void check_some(int rank, const char *text) {
  (void)rank;
  CHECK_CONTAINS(text, "\"process_sort_index\"");
}

static void test_killed_rank(void) {
  is_killed = true;
  for (int round = 0; round < 5; round++) {
    make_directory();
    RUN_WITH_VICTIM(2, trace_until_killed, (failing){.victim = 1});
    check_files(2, check_some);
  }
  is_killed = false;
}

/* A rank that hangs in a call shows the call. */
static void trace_open_call(ring_comm *comm, void *shared) {
  ring_trace *trace = start(comm);
  if (ring_comm_rank(comm) == 1) await_count(shared, 1);
  if (ring_comm_rank(comm) == 0) {
    pid_t child = fork_for(60);
    if (child == 0) { /* looks at the file while its parent waits in the call */
      usleep(400 * MILLISECONDS);
      char path[128];
      snprintf(path, sizeof path, "%s/rank-00000-%016llx.json", directory,
               (unsigned long long)ring_comm_epoch(comm));
      char *text = read_file(path);
      CHECK(json_is_valid(text));
      CHECK_INT(count_of(text, "\"unfinished\":true"), 2); /* the call and its wait */
      __atomic_fetch_add((int *)shared, 1, __ATOMIC_SEQ_CST);
      _exit(0);
    }
  }
  sum(comm);
  CHECK_INT(ring_trace_stop(trace), 0);
}

static void check_ended(int rank, const char *text) {
  (void)rank;
  CHECK_INT(count_of(text, "\"name\":\"allreduce\""), 1);
  CHECK_INT(count_of(text, "unfinished"), 0);
}

static void test_open_call(void) {
  make_directory();
  RUN_COMMS(2, trace_open_call, (int){0});
  check_files(2, check_ended);
}

static void fail_to_start(ring_comm *comm, void *shared) {
  (void)shared;
  ring_trace *trace = NULL;
  const ring_clock_offset offset = {0};
  CHECK_INT(ring_trace_start(comm, "/nonexistent", &offset, false, &trace), ENOENT);
  CHECK(trace == NULL);
  CHECK_INT(ring_trace_stop(NULL), 0);
  sum(comm);
}

static void test_no_directory(void) {
  run_comms(2, fail_to_start, NULL);
}

/* Two addresses of this host count as two hosts, and have one clock. */
static void align(int rank, int size, void *shared) {
  (void)shared;
  static const char *addresses[] = {"127.0.0.1", "127.0.0.2", "127.0.0.2"};
  ring_options options = rank_options(rank, size);
  options.addresses = addresses;
  ring_comm *comm = open_with(&options);
  ring_clock_offset offset;
  CHECK_INT(ring_clock_offset_measure(comm, &offset), RING_OK);
  CHECK((offset.error > 0) == (rank > 0));
  CHECK(llabs((long long)offset.nanoseconds) <= offset.error);
  close_rank(comm);
}

static void test_clocks_of_two_hosts(void) {
  run_ranks(3, align, NULL);
}

int main(void) {
  RUN(test_valid_after_every_write);
  RUN(test_full_disk);
  RUN(test_calls);
  RUN(test_killed_rank);
  RUN(test_open_call);
  RUN(test_no_directory);
  RUN(test_clocks_of_two_hosts);
  return 0;
}
