/* SPDX-License-Identifier: Apache-2.0
 *
 * Encrypted communicators: traffic cannot be read on the network, a rank needs a token, and ranks that
 * disagree get an error. The linker sends the core's sends through here, to see the bytes on the wire.
 * test_link.c and test_tls.c check the promises of every link for them, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

enum { COUNT = 30000 };
#define SECRET 0x5ec2e7c0dedd15c0ull

/* ---- What leaves -------------------------------------------------------------------------- */

static bool leaked;

static void look(const void *bytes, size_t length) {
  uint64_t secret = SECRET;
  leaked = leaked || memmem(bytes, length, &secret, sizeof secret) != NULL;
}

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
  look(bytes, length);
  return __real_send(fd, bytes, length, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  for (size_t i = 0; i < message->msg_iovlen; i++)
    look(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  return __real_sendmsg(fd, message, flags);
}

/* ---- Options ------------------------------------------------------------------------------ */

static void refuse(ring_options options, const char *text) {
  ring_comm *comm;
  ring_error error;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, text);
  CHECK(comm == NULL);
}

static void test_what_cannot_be(void) {
  ring_options options = rank_options(0, 2);
  options.encryption = (ring_choice)3;
  refuse(options, "encryption is 3: it must be RING_DEFAULT, RING_ON or RING_OFF");
  options.encryption = RING_ON;
  options.token = NULL;
  options.token_length = 0;
  refuse(options, "encryption needs a token");
  CHECK_INT(setenv("SPARKRING_ENCRYPTION", "yes", 1), 0);
  refuse(rank_options(0, 2), "SPARKRING_ENCRYPTION is \"yes\", which is neither 1 nor 0");
  CHECK_INT(unsetenv("SPARKRING_ENCRYPTION"), 0);
}

/* ---- Communicators ------------------------------------------------------------------------ */

typedef struct expected {
  ring_choice encryption;
  int connections;
  ring_choice shared_memory;
  const char *link;
} expected;

static void send_secrets(ring_comm *comm) {
  uint64_t *x = malloc(COUNT * sizeof *x);
  for (size_t i = 0; i < COUNT; i++) x[i] = SECRET;
  CHECK_INT(ring_broadcast(comm, x, x, COUNT, RING_INT64, 0), RING_OK);
  CHECK_INT(ring_allreduce(comm, x, x, COUNT, RING_INT64, RING_MIN), RING_OK);
  CHECK_INT(ring_broadcast(comm, x, x, 1, RING_INT64, 0), RING_OK);
  for (size_t i = 0; i < COUNT; i++) CHECK(x[i] == SECRET);
  free(x);
}

static void use_links(int rank, int size, void *shared) {
  const expected *of = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *half;
  options.encryption = of->encryption;
  options.connections = of->connections;
  options.shared_memory = of->shared_memory;
  comm = open_with(&options);
  CHECK_INT(ring_comm_encrypted(comm), of->encryption == RING_ON);
  leaked = false;
  send_secrets(comm);
  CHECK_INT(strcmp(ring_comm_link(comm, rank ^ 1), of->link), 0);
  CHECK_INT(ring_comm_split(comm, rank / 2, 0, &half), RING_OK);
  CHECK_INT(ring_comm_encrypted(half), of->encryption == RING_ON);
  send_secrets(half);
  CHECK_INT(strcmp(ring_comm_link(half, 1 - rank % 2), of->link), 0);
  bool over_network = of->shared_memory == RING_OFF;
  CHECK_INT(leaked, over_network && of->encryption == RING_OFF);
  close_rank(half);
  close_rank(comm);
}

static void test_what_leaves(void) {
  static const expected cases[] = {{RING_OFF, 0, RING_OFF, "tcp"},
                                   {RING_ON, 0, RING_OFF, "tls"},
                                   {RING_ON, 3, RING_OFF, "tls x3"},
                                   {RING_ON, 0, RING_DEFAULT, "shm"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    RUN_RANKS(4, use_links, cases[i]);
  }
}

/* ---- Ranks that disagree ------------------------------------------------------------------ */

enum { PATIENCE = 20, TRIO = 3 };

typedef struct disagreement {
  int odd;
  bool encrypts; /* the odd rank; the others want the opposite */
  bool exchanges;
  pthread_barrier_t all_wrote;
  char texts[TRIO][200];
} disagreement;

typedef struct exchange_end {
  disagreement *of;
  int rank;
} exchange_end;

static int pass_texts(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const exchange_end *end = arg;
  snprintf(end->of->texts[end->rank], sizeof end->of->texts[0], "%s", mine);
  pthread_barrier_wait(&end->of->all_wrote);
  for (int rank = 0; rank < TRIO; rank++) put(sink, rank, end->of->texts[rank]);
  return 0;
}

/* The error of the odd one names rank 0, those of the others the odd one; of two odd ones, by an exchange, of the
 * first. */
static void check_message(const disagreement *of, int rank, const ring_error *error) {
  char text[128];
  bool wants = of->encrypts == (of->odd != 0);
  bool odd = rank > 0 && (rank == of->odd || of->odd == 0);
  snprintf(text, sizeof text,
           " (127.0.0.1) wants %s, and rank 0 (127.0.0.1) wants %s: pass the same",
           wants ? "encryption" : "no encryption", wants ? "none" : "it");
  CHECK_CONTAINS(error->message, text);
  if (of->odd > 0) CHECK_INT(error->rank, odd ? 0 : of->odd);
  snprintf(text, sizeof text, "%srank %d ",
           rank > 0 && !odd && !of->exchanges ? "rank 0 reports: " : "",
           error->rank > 0 ? error->rank : rank);
  CHECK(strncmp(error->message, text, strlen(text)) == 0);
}

/* All get the error soon, and not at the deadline. */
static void disagree(int rank, int size, void *shared) {
  exchange_end end = {shared, rank};
  const disagreement *of = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error;
  time_t began = time(NULL);
  options.timeout = PATIENCE;
  options.encryption = (rank == of->odd) == of->encrypts ? RING_ON : RING_OFF;
  if (of->exchanges) options.exchange = pass_texts;
  options.exchange_arg = &end;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_MISMATCH);
  CHECK(time(NULL) - began < PATIENCE / 2);
  check_message(of, rank, &error);
}

static void test_ranks_that_disagree(void) {
  disagreement *of = shared_alloc(sizeof *of);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  for (int i = 0; i < 4 * TRIO; i++) {
    of->odd = i / 4;
    of->encrypts = i % 2;
    of->exchanges = i / 2 % 2;
    pthread_barrier_init(&of->all_wrote, &attributes, TRIO);
    run_ranks(TRIO, disagree, of);
    pthread_barrier_destroy(&of->all_wrote);
  }
  shared_free(of, sizeof *of);
}

/* A rank that never comes keeps no other from its error. */
static void disagree_without_rank_1(int rank, int size, void *shared) {
  if (rank != 1) disagree(rank, size, shared);
}

static void test_disagreement_with_a_rank_missing(void) {
  RUN_RANKS(TRIO, disagree_without_rank_1, (disagreement){.odd = 2, .encrypts = true});
}

int main(void) {
  RUN(test_what_cannot_be);
  RUN(test_what_leaves);
  RUN(test_ranks_that_disagree);
  RUN(test_disagreement_with_a_rank_missing);
  return 0;
}
