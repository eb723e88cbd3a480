/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings: every mode, every order of arrival, strangers on the way, and what a rank is told when
 * somebody is missing.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "check.h"
#include "handshake.h"
#include "ranks.h"
#include "rendezvous.h"
#include "socket.h"

/* ---- Helpers ------------------------------------------------------------------------------ */

/* The communicator works: the sum over all ranks of 1 << rank. */
static void check_ring(ring_comm *comm) {
  int64_t x = INT64_C(1) << ring_comm_rank(comm);
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(x, (INT64_C(1) << ring_comm_size(comm)) - 1);
}

static void open_check_close(const ring_options *options) {
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(options, &comm, &error) != RING_OK) {
    fprintf(stderr, "rank %d: %s\n", options->rank, error.message);
    exit(1);
  }
  check_ring(comm);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

/* Returns the rank at fault. */
static int expect_failure(const ring_options *options, ring_status status, const char *text) {
  ring_comm *comm;
  ring_error error;
  ring_status got = ring_comm_open(options, &comm, &error);
  if (got != status) fprintf(stderr, "rank %d: %s\n", options->rank, error.message);
  CHECK_INT(got, status);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
  return error.rank;
}

/* `count` ports in a row of 127.0.0.1 that are free now; all but the last two are then held by
 * listeners that accept and say nothing. */
typedef struct held_ports {
  uint16_t first, last;
  int listeners[8];
  int held;
} held_ports;

static held_ports hold_ports(int count) {
  for (uint16_t first = 40000; first < 60000; first = (uint16_t)(first + count)) {
    held_ports ports = {.first = first, .last = (uint16_t)(first + count - 1)};
    int fd = 0;
    for (int i = 0; i < count && fd >= 0; i++) {
      fd = ring_socket_listen("127.0.0.1", (uint16_t)(first + i));
      if (fd >= 0) ports.listeners[ports.held++] = fd;
    }
    bool all = fd >= 0;
    while (ports.held > (all ? count - 2 : 0)) close(ports.listeners[--ports.held]);
    if (all) return ports;
  }
  CHECK(!"no free ports");
  return (held_ports){0};
}

static void free_ports(held_ports *ports) {
  while (ports->held > 0) close(ports->listeners[--ports->held]);
}

/* ---- Orders of arrival -------------------------------------------------------------------- */

static int note_waiting(void *arg) {
  *(volatile int *)arg = 1; /* the hook is only asked by ranks that wait */
  return 0;
}

/* Rank r begins only when the ranks before it in the order given wait inside open. */
static void arrive_in_order(int rank, int size, void *shared) {
  int *memory = shared, *waiting = memory + 64, first = memory[0];
  int place = (rank - first + size) % size;
  ring_options options = rank_options(rank, size);
  options.interrupt = note_waiting;
  options.interrupt_arg = &waiting[place];
  for (int before = 0; before < place; before++)
    while (!*(volatile int *)&waiting[before]) usleep(1000);
  open_check_close(&options);
}

static void test_any_order(void) {
  for (int first = 0; first < 4; first++) {
    int *memory = shared_alloc(4096);
    memory[0] = first;
    run_ranks(4, arrive_in_order, memory);
    shared_free(memory, 4096);
  }
}

/* ---- Two jobs ----------------------------------------------------------------------------- */

static void join_one_of_two(int rank, int size, void *shared) {
  const char *tokens[] = {"one secret", "another secret"};
  ring_options options = rank_options(rank / 2, size / 2);
  (void)shared;
  options.token = tokens[rank % 2];
  options.token_length = strlen(tokens[rank % 2]);
  for (int i = 0; i < 5; i++) open_check_close(&options);
}

static void test_two_jobs_with_the_same_addresses(void) {
  run_ranks(8, join_one_of_two, NULL);
}

/* The same two jobs squeezed into few ports, so that each walks over the other's. */
static void join_in_few_ports(int rank, int size, void *shared) {
  const uint16_t *ports = shared;
  const char *jobs[] = {"one", "other"};
  ring_options options = rank_options(rank / 2, size / 2);
  options.job = jobs[rank % 2];
  options.port_first = ports[0];
  options.port_last = ports[1];
  open_check_close(&options);
}

static void test_two_jobs_in_few_ports(void) {
  held_ports held = hold_ports(8);
  uint16_t *ports = shared_alloc(64);
  ports[0] = held.first;
  ports[1] = held.last;
  free_ports(&held);
  run_ranks(6, join_in_few_ports, ports);
  shared_free(ports, 64);
}

/* ---- Strangers ---------------------------------------------------------------------------- */

static void join_past_strangers(int rank, int size, void *shared) {
  const held_ports *held = shared;
  ring_options options = rank_options(rank, size);
  options.port_first = held->first;
  options.port_last = held->last;
  open_check_close(&options);
}

static void test_ports_that_are_taken(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(6); /* four are held: with two ranks, each has one to find */
  run_ranks(2, join_past_strangers, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

/* Answers as a web server would, until both ranks are done. */
static void answer_garbage(const held_ports *held, volatile int *done) {
  struct pollfd entries[8];
  for (int i = 0; i < held->held; i++)
    entries[i] = (struct pollfd){.fd = held->listeners[i], .events = POLLIN};
  while (*done < 2) {
    CHECK(poll(entries, (nfds_t)held->held, 10) >= 0);
    for (int i = 0; i < held->held; i++) {
      int fd = accept(entries[i].fd, NULL, NULL);
      if (fd < 0) continue;
      CHECK_INT(send(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, MSG_NOSIGNAL),
                47);
      close(fd);
    }
  }
}

static void join_past_a_web_server(int rank, int size, void *shared) {
  held_ports *held = shared;
  int *done = (int *)(held + 1);
  if (rank == size - 1) {
    answer_garbage(held, done);
    return;
  }
  join_past_strangers(rank, size - 1, shared);
  __sync_fetch_and_add(done, 1);
}

static void test_ports_that_answer_something_else(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(6);
  run_ranks(3, join_past_a_web_server, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

/* Connections of strangers to rank 0 while the job forms: more than the porch has places for. */
static void be_pestered(int rank, int size, void *shared) {
  held_ports *held = shared;
  ring_options options = rank_options(rank, size - 1);
  options.port_first = held->first;
  options.port_last = held->last;
  if (rank < size - 1) {
    volatile int *pestered = (volatile int *)(held + 1);
    while (rank == 1 && !*pestered) usleep(1000);
    open_check_close(&options);
    return;
  }
  int count = 0;
  for (long tries = 0; count < 200 && tries < 200000; tries++) {
    ring_resolved resolved;
    const char *reason;
    uint16_t port = (uint16_t)(held->first + tries % (held->last - held->first + 1));
    CHECK(ring_socket_resolve("127.0.0.1", port, &resolved, &reason));
    int fd = ring_socket_dial(&resolved, 0);
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    if (fd < 0 || poll(&entry, 1, 1000) != 1 || (entry.revents & POLLERR)) {
      if (fd >= 0) close(fd);
      continue;
    }
    if (count++ % 2 == 0)
      send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n", 51, MSG_NOSIGNAL);
    /* left open: a half-open connection; the process ends with all of them */
  }
  CHECK_INT(count, 200);
  *(volatile int *)(held + 1) = 1;
}

static void test_strangers_at_rank_0(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(3, be_pestered, shared);
  shared_free(shared, 4096);
}

/* Connects to rank 0, which listens on one of two ports and may not be there yet. */
static int dial_rank_0(const held_ports *held) {
  for (unsigned i = 0;; i++) {
    ring_resolved resolved;
    const char *reason;
    CHECK(i < 100000);
    CHECK(ring_socket_resolve("127.0.0.1", (uint16_t)(held->first + i % 2), &resolved, &reason));
    int fd = ring_socket_dial(&resolved, 0);
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    if (fd >= 0 && poll(&entry, 1, 1000) == 1 && ring_socket_failure(fd) == 0) return fd;
    if (fd >= 0) close(fd);
  }
}

/* More connections than the porch has places for, each a byte now and then: never quite silent. */
static void be_dribbled_at(int rank, int size, void *shared) {
  enum { STRANGERS = 90 };
  held_ports *held = shared;
  int *done = (int *)(held + 1);
  int fds[STRANGERS];
  if (rank < size - 1) {
    while (rank == 1 && *(volatile int *)(done + 1) == 0) usleep(1000);
    join_past_strangers(rank, size - 1, shared);
    __sync_fetch_and_add(done, 1);
    return;
  }
  for (int i = 0; i < STRANGERS; i++) fds[i] = dial_rank_0(held);
  done[1] = 1;
  for (int round = 0; *(volatile int *)done < 2; round++) {
    CHECK(round < 3000);
    for (int i = 0; i < STRANGERS; i++) send(fds[i], "s", 1, MSG_NOSIGNAL);
    usleep(20000);
  }
}

static void test_strangers_that_dribble(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(3, be_dribbled_at, shared);
  shared_free(shared, 4096);
}

/* ---- Who is missing ----------------------------------------------------------------------- */

static void miss_some(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.timeout = rank == 0 ? 0.7 : 20;
  if (rank == 2 || rank == 3) return;
  if (rank == 0)
    expect_failure(
        &options, RING_TIMEOUT,
        "3 of 5 ranks met within 0.7 s; missing: rank 2 (127.0.0.1), rank 3 (127.0.0.1). "
        "Usual causes: fewer free slots than partitions");
  else
    expect_failure(&options, RING_TIMEOUT, "rank 0 reports: 3 of 5 ranks met");
}

static void test_missing_ranks_are_named(void) {
  run_ranks(5, miss_some, NULL);
}

/* Ranks that give up before rank 0 does are told in time who is missing, and are not missed. */
static void give_up_early(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  if (rank == 3) return;
  if (rank != 0) options.timeout = 1.5;
  const char *text = rank == 0 ? "3 of 4 ranks met" : "rank 0 reports: 3 of 4 ranks met";
  CHECK_INT(expect_failure(&options, RING_TIMEOUT, text), 3);
}

static void test_different_deadlines(void) {
  run_ranks(4, give_up_early, NULL);
}

static void miss_rank_0(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.timeout = 0.5;
  if (rank != 0)
    expect_failure(&options, RING_TIMEOUT, "did not find rank 0 on 127.0.0.1 within 0.5");
}

static void test_rank_0_is_missing(void) {
  run_ranks(3, miss_rank_0, NULL);
}

static void bring_another_token(int rank, int size, void *shared) {
  const held_ports *held = shared;
  ring_options options = rank_options(rank, size);
  options.port_first = held->first;
  options.port_last = held->last;
  options.timeout = 1;
  if (rank == 1) options.token = "a guess at the token";
  if (rank == 1) options.token_length = 20;
  expect_failure(&options, RING_TIMEOUT,
                 rank == 0 ? "missing: rank 1"
                           : "another job, or one with another token, answered");
}

static void test_another_token(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(2);
  run_ranks(2, bring_another_token, shared);
  shared_free(shared, 4096);
}

static int stop_at_once(void *arg) {
  (void)arg;
  return 1;
}

static void test_an_interrupt(void) {
  for (int rank = 0; rank < 2; rank++) {
    ring_options options = rank_options(rank, 2);
    options.interrupt = stop_at_once;
    expect_failure(&options, RING_ABORTED, "interrupted while waiting for the other ranks");
  }
}

static void test_a_host_that_does_not_exist(void) {
  ring_options options = rank_options(1, 2);
  options.addresses = (const char *const[]){"no-such-host.invalid", "127.0.0.1"};
  expect_failure(&options, RING_PEER_LOST,
                 "cannot resolve the host no-such-host.invalid of rank 0");
}

/* ---- A rank too many ---------------------------------------------------------------------- */

/* Ranks 0 and 1 form a job; the third process claims to be rank 1, too, after that. */
static void come_too_late(int rank, int size, void *shared) {
  volatile int *memory = shared;
  const uint16_t *ports = (const uint16_t *)shared + 32;
  ring_options options = rank_options(rank == 2 ? 1 : rank, size - 1);
  options.port_first = ports[0];
  options.port_last = ports[1];
  if (rank == 2) {
    while (!memory[0]) usleep(1000);
    options.timeout = 1;
    expect_failure(&options, RING_TIMEOUT,
                   "a job with this token and these addresses has already formed there");
    memory[1] = 1;
    return;
  }
  ring_comm *comm;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  memory[0] = 1;
  int32_t go_on = 1;
  while (go_on) {
    go_on = !memory[1];
    CHECK_INT(ring_allreduce(comm, &go_on, &go_on, 1, RING_INT32, RING_MIN), RING_OK);
    if (rank == 1) usleep(1000); /* rank 0 waits, and so serves its porch */
  }
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_a_rank_left_over(void) {
  held_ports held = hold_ports(4);
  uint16_t *shared = shared_alloc(4096);
  shared[32] = held.first;
  shared[33] = held.last;
  free_ports(&held);
  run_ranks(3, come_too_late, shared);
  shared_free(shared, 4096);
}

/* ---- Other ways to meet ------------------------------------------------------------------- */

static void meet_at_root(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  options.address_count = 0;
  options.addresses = NULL;
  options.root_address = "127.0.0.1:7077";
  open_check_close(&options);
}

static void test_only_the_root_is_known(void) {
  run_ranks(4, meet_at_root, NULL);
}

static void meet_without_token(int rank, int size, void *shared) {
  (void)shared;
  char job[32];
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  snprintf(job, sizeof job, "%d", (int)getppid());
  options.token = NULL;
  options.token_length = 0;
  options.job = job;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_comm_authenticated(comm), 0);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_without_a_token(void) {
  run_ranks(3, meet_without_token, NULL);
}

static void meet_from_environment(int rank, int size, void *shared) {
  (void)shared;
  char number[16], token[32];
  snprintf(number, sizeof number, "%d", rank);
  setenv("SPARKRING_RANK", number, 1);
  snprintf(number, sizeof number, "%d", size);
  setenv("SPARKRING_SIZE", number, 1);
  setenv("SPARKRING_ADDRESSES", "127.0.0.1,127.0.0.1,127.0.0.1", 1);
  snprintf(token, sizeof token, "environment %d", (int)getppid());
  setenv("SPARKRING_TOKEN", token, 1);
  ring_options options = RING_OPTIONS_INIT;
  open_check_close(&options);
}

static void test_from_the_environment(void) {
  run_ranks(3, meet_from_environment, NULL);
}

/* ---- Exchange ----------------------------------------------------------------------------- */

/* Memory through which all ranks pass their texts, as Spark's allGather does. */
typedef struct exchange {
  pthread_barrier_t all_wrote;
  char texts[4][200];
  int mode;
  int victim;
} exchange;

typedef struct exchange_end {
  int rank, size;
  exchange *shared;
} exchange_end;

enum { EXCHANGE_WORKS, EXCHANGE_FAILS, EXCHANGE_FORGETS, EXCHANGE_GARBLES };

static int pass_texts(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const exchange_end *end = arg;
  exchange *shared = end->shared;
  snprintf(shared->texts[end->rank], sizeof shared->texts[0], "%s", mine);
  pthread_barrier_wait(&shared->all_wrote);
  if (shared->mode == EXCHANGE_FAILS) return 1;
  for (int rank = 0; rank < end->size; rank++) {
    if (shared->mode == EXCHANGE_FORGETS && rank == 1) continue;
    put(sink, rank, shared->mode == EXCHANGE_GARBLES ? "nonsense" : shared->texts[rank]);
  }
  put(sink, end->size, "one too many is ignored");
  return 0;
}

static void meet_by_exchange(int rank, int size, void *shared) {
  exchange_end end = {rank, size, shared};
  ring_options options = rank_options(rank, size);
  options.token = NULL;
  options.token_length = 0;
  options.exchange = pass_texts;
  options.exchange_arg = &end;
  switch (end.shared->mode) {
  case EXCHANGE_WORKS: {
    ring_comm *comm;
    CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
    CHECK_INT(ring_comm_authenticated(comm), 1);
    check_ring(comm);
    CHECK_INT(ring_comm_close(comm), RING_OK);
    ring_comm_free(comm);
    return;
  }
  case EXCHANGE_FAILS:
    expect_failure(&options, RING_ABORTED, "the exchange with the other ranks failed");
    return;
  case EXCHANGE_FORGETS:
    expect_failure(&options, RING_INVALID, "the exchange brought no text of rank 1");
    return;
  case EXCHANGE_GARBLES:
    expect_failure(&options, RING_INVALID, "a text of rank 0 that sparkring did not write");
    return;
  }
}

static void test_exchange(void) {
  exchange *shared = shared_alloc(sizeof *shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  for (shared->mode = EXCHANGE_WORKS; shared->mode <= EXCHANGE_GARBLES; shared->mode++) {
    pthread_barrier_init(&shared->all_wrote, &attributes, 4);
    run_ranks(4, meet_by_exchange, shared);
    pthread_barrier_destroy(&shared->all_wrote);
  }
  shared_free(shared, sizeof *shared);
}

/* ---- Deaths while opening ----------------------------------------------------------------- */

static int pass_texts_and_die(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const exchange_end *end = arg;
  int failure = pass_texts(arg, mine, put, sink);
  if (end->rank == end->shared->victim) _exit(0);
  return failure;
}

static void lose_one_while_opening(int rank, int size, void *shared) {
  exchange_end end = {rank, size, shared};
  ring_options options = rank_options(rank, size);
  char text[64];
  options.exchange = pass_texts_and_die;
  options.exchange_arg = &end;
  snprintf(text, sizeof text, "rank %d (127.0.0.1)", end.shared->victim);
  CHECK_INT(expect_failure(&options, RING_PEER_LOST, text), end.shared->victim);
}

/* Higher ranks dial lower ones, so there is a way to notice for each direction. */
static void test_a_rank_that_dies_while_opening(void) {
  exchange *shared = shared_alloc(sizeof *shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  for (shared->victim = 0; shared->victim < 4; shared->victim++) {
    pthread_barrier_init(&shared->all_wrote, &attributes, 4);
    run_ranks(4, lose_one_while_opening, shared);
    pthread_barrier_destroy(&shared->all_wrote);
  }
  shared_free(shared, sizeof *shared);
}

/* ---- A false rank 0 ----------------------------------------------------------------------- */

/* The key of a job of two ranks on 127.0.0.1 without a token: what an impostor can compute, too. */
static ring_secret open_key(void) {
  const uint8_t size[4] = {2};
  ring_secret key;
  CHECK(ring_secret_begin(&key, NULL, 0) && ring_secret_bind(&key, "", 0) &&
        ring_secret_bind(&key, size, 4) && ring_secret_bind(&key, "127.0.0.1", 9) &&
        ring_secret_bind(&key, "127.0.0.1", 9));
  return key;
}

/* Welcomes a rank with a table that is one byte too long; false when nobody comes any more. */
static bool welcome_falsely(int listener, const ring_secret *key, char name) {
  struct pollfd entry = {.fd = listener, .events = POLLIN};
  if (poll(&entry, 1, 1000) != 1) return false;
  ring_handshake handshake;
  entry.fd = ring_socket_accept(listener);
  CHECK(ring_handshake_accept(&handshake, entry.fd, key, 0, 2));
  while (ring_handshake_advance(&handshake) != RING_HANDSHAKE_DONE) {
    if (handshake.state == RING_HANDSHAKE_CLAIMED)
      ring_handshake_answer(&handshake, RING_VERDICT_WELCOME);
    else if (handshake.state > RING_HANDSHAKE_CLAIMED || poll(&entry, 1, 1000) != 1)
      return true; /* it went away */
  }
  uint8_t message[64], join[RING_JOIN_BYTES];
  uint8_t *to = bytes_put(message + RING_WELCOME_HEAD_BYTES, 1, 8);
  for (int rank = 0; rank < 2; rank++) {
    to = bytes_put(to, 99, 2);
    to = bytes_put(to, 2, 1);
    *to++ = (uint8_t)name; /* hosts that no earlier table had */
    *to++ = (uint8_t)('a' + rank);
  }
  to = bytes_put(to, 0, 1);
  bytes_put(bytes_put(bytes_put(message, (uint64_t)(to - message) - 4, 4), 0, 1), UINT32_MAX, 4);
  if (poll(&entry, 1, 1000) == 1) CHECK_INT(recv(entry.fd, join, sizeof join, 0), sizeof join);
  send(entry.fd, message, (size_t)(to - message), MSG_NOSIGNAL);
  if (poll(&entry, 1, 1000) == 1) close(entry.fd); /* it has read and hung up */
  return true;
}

static void meet_an_impostor(int rank, int size, void *shared) {
  const held_ports *held = shared;
  if (rank == 0) {
    ring_secret key = open_key();
    int welcomes = 0;
    while (welcomes < 20 && welcome_falsely(held->listeners[0], &key, (char)('a' + welcomes)))
      welcomes++;
    CHECK(welcomes >= 3);
    return;
  }
  ring_options options = rank_options(rank, size);
  options.token = NULL;
  options.token_length = 0;
  options.port_first = held->first;
  options.port_last = held->last;
  options.timeout = 2;
  CHECK_INT(expect_failure(&options, RING_TIMEOUT, "did not find rank 0"), 0);
}

static void test_a_false_rank_0(void) {
  held_ports *shared = shared_alloc(4096);
  *shared = hold_ports(3);
  run_ranks(2, meet_an_impostor, shared);
  held_ports held = *shared;
  free_ports(&held);
  shared_free(shared, 4096);
}

/* ---- Leaks -------------------------------------------------------------------------------- */

static int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static void open_often(int rank, int size, void *shared) {
  (void)shared;
  ring_options options = rank_options(rank, size);
  open_check_close(&options);
  int before = count_descriptors();
  for (int i = 0; i < 20; i++) open_check_close(&options);
  options.timeout = 0.05;
  options.port_first = options.port_last = 1; /* nobody is there */
  if (rank > 0) expect_failure(&options, RING_TIMEOUT, "did not find rank 0");
  CHECK_INT(count_descriptors(), before);
}

static void test_no_descriptor_is_left(void) {
  run_ranks(3, open_often, NULL);
}

int main(void) {
  RUN(test_any_order);
  RUN(test_two_jobs_with_the_same_addresses);
  RUN(test_two_jobs_in_few_ports);
  RUN(test_ports_that_are_taken);
  RUN(test_ports_that_answer_something_else);
  RUN(test_strangers_at_rank_0);
  RUN(test_strangers_that_dribble);
  RUN(test_missing_ranks_are_named);
  RUN(test_different_deadlines);
  RUN(test_rank_0_is_missing);
  RUN(test_another_token);
  RUN(test_an_interrupt);
  RUN(test_a_host_that_does_not_exist);
  RUN(test_a_rank_left_over);
  RUN(test_only_the_root_is_known);
  RUN(test_without_a_token);
  RUN(test_from_the_environment);
  RUN(test_exchange);
  RUN(test_a_rank_that_dies_while_opening);
  RUN(test_a_false_rank_0);
  RUN(test_no_descriptor_is_left);
  return 0;
}
