/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define RANKS_SECONDS 120

void *shared_alloc(size_t length) {
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

void shared_free(void *memory, size_t length) {
  munmap(memory, length);
}

double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

pid_t fork_for(unsigned seconds) {
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) alarm(seconds);
  return child;
}

void ranks_barrier(int *arrived, int size) {
  __sync_fetch_and_add(arrived, 1);
  while (*(volatile int *)arrived < size) usleep(1000);
}

void run_ranks(int size, rank_function function, void *shared) {
  pid_t children[RANKS_MAX];
  int failures = 0;
  CHECK(size <= RANKS_MAX);
  fflush(NULL);
  for (int rank = 0; rank < size; rank++) {
    children[rank] = fork();
    CHECK(children[rank] >= 0);
    if (children[rank] > 0) continue;
    alarm(RANKS_SECONDS);
    function(rank, size, shared);
    exit(0); /* so that leaks are looked for in every rank */
  }
  for (int rank = 0; rank < size; rank++) {
    int status = 0;
    CHECK(waitpid(children[rank], &status, 0) == children[rank]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    fprintf(stderr, "rank %d of %d ended with status %#x\n", rank, size, (unsigned)status);
    failures++;
  }
  CHECK_INT(failures, 0);
}

void await_count(const int *count, int least) {
  while (*(const volatile int *)count < least) usleep(1000);
}

bool ranks_share = true;

__attribute__((constructor)) static void ranks_read_environment(void) {
  const char *value = getenv("SPARKRING_SHARED_MEMORY");
  ranks_share = value == NULL || strcmp(value, "0") != 0;
}

const char *ranks_network(void) {
  static char name[16];
  const char *connections = getenv("SPARKRING_CONNECTIONS"),
             *encryption = getenv("SPARKRING_ENCRYPTION");
  bool encrypted = encryption != NULL && strcmp(encryption, "1") == 0;
  snprintf(name, sizeof name, "%s%s%s", encrypted ? "tls" : "tcp", connections != NULL ? " x" : "",
           connections != NULL ? connections : "");
  return name;
}

const char *ranks_link(void) {
  return ranks_share ? "shm" : ranks_network();
}

ring_options rank_options(int rank, int size) {
  static const char *addresses[RANKS_MAX];
  static char token[64];
  /* The parent's number: the same for the ranks of one test program, different for others. */
  snprintf(token, sizeof token, "test of process %d", (int)getppid());
  for (int i = 0; i < size; i++) addresses[i] = "127.0.0.1:4242";
  ring_options options = RING_OPTIONS_INIT;
  options.rank = rank;
  options.size = size;
  options.addresses = addresses;
  options.address_count = size;
  options.token = token;
  options.token_length = strlen(token);
  options.timeout = 60;
  options.call_timeout = 60;
  options.shared_memory = ranks_share ? RING_DEFAULT : RING_OFF;
  return options;
}

ring_comm *open_with(const ring_options *options) {
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(options, &comm, &error) != RING_OK) {
    fprintf(stderr, "rank %d of %d: %s: %s\n", options->rank, options->size,
            ring_status_name(error.status), error.message);
    exit(1);
  }
  return comm;
}

ring_comm *open_rank(int rank, int size) {
  ring_options options = rank_options(rank, size);
  return open_with(&options);
}

void close_rank(ring_comm *comm) {
  ring_status status = ring_comm_close(comm);
  if (status != RING_OK) fprintf(stderr, "close: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  ring_comm_free(comm);
}

typedef struct ranks_call {
  comm_function function;
  void *shared;
} ranks_call;

static void ranks_open_run_close(int rank, int size, void *arg) {
  const ranks_call *call = arg;
  ring_comm *comm = open_rank(rank, size);
  call->function(comm, call->shared);
  close_rank(comm);
}

void run_comms(int size, comm_function function, void *shared) {
  ranks_call call = {function, shared};
  run_ranks(size, ranks_open_run_close, &call);
}

static void *shared_copy(const void *value, size_t length) {
  return memcpy(shared_alloc(length), value, length);
}

void run_ranks_with(int size, rank_function function, const void *value, size_t length) {
  void *shared = shared_copy(value, length);
  run_ranks(size, function, shared);
  shared_free(shared, length);
}

void run_comms_with(int size, comm_function function, const void *value, size_t length) {
  void *shared = shared_copy(value, length);
  run_comms(size, function, shared);
  shared_free(shared, length);
}

void ranks_expect(ring_comm *comm, ring_status status, ring_status expected, int fault,
                  const char *text) {
  const ring_error *error = ring_comm_error(comm);
  if (status != expected || error->rank != fault)
    fprintf(stderr, "rank %d: %s: %s\n", ring_comm_rank(comm), ring_status_name(status),
            error->message);
  CHECK_INT(status, expected);
  CHECK_INT(error->rank, fault);
  CHECK_CONTAINS(error->message, text);
}
