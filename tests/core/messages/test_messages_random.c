/* SPDX-License-Identifier: Apache-2.0
 *
 * Thousands of random messages, from several threads and from any source.
 */
#include <pthread.h>

#include "messages.h"

enum { THREADS = 2, ROUNDS = SPARKRING_SANITIZED ? 4 : 10, EACH = 60, TAGS = 4 };

typedef struct worker {
  ring_messages *messages;
  int rank, size, number; /* of this thread */
} worker;

/* Mostly short messages, some long. */
static size_t random_size(unsigned *seed) {
  unsigned kind = (unsigned)rand_r(seed) % 100;
  unsigned most = kind < 60 ? 200 : kind < 85 ? 70000 : kind < 97 ? 400000 : 8000000;
  return (unsigned)rand_r(seed) % (most + 1);
}

/* The messages of a round from one rank to another: all ranks know their sizes and tags. */
typedef struct plan {
  size_t size[EACH];
  int tag[EACH];
} plan;

static plan plan_of(int from, int to, int round, int thread) {
  unsigned seed = (unsigned)(((from * 16 + to) * 64 + round) * 8 + thread + 1);
  plan made;
  for (int i = 0; i < EACH; i++) {
    made.size[i] = random_size(&seed) / (SPARKRING_SANITIZED ? 4 : 1);
    made.tag[i] = thread * TAGS + rand_r(&seed) % TAGS;
  }
  return made;
}

/* Receives from `from` in the order of the sends, one tag after another or all as they were sent. */
static int post_round(const worker *of, int from, int round, uint8_t **in,
                      ring_transfer **receives) {
  const plan theirs = plan_of(from, of->rank, round, of->number);
  int count = 0;
  for (int tag = TAGS - 1; tag >= 0; tag--)
    for (int i = 0; i < EACH; i++) {
      if (theirs.tag[i] != of->number * TAGS + tag) continue;
      in[i] = malloc(theirs.size[i] + 1);
      receives[i] = start_recv(of->messages, in[i], theirs.size[i] + 1, from, theirs.tag[i]);
      count++;
    }
  return count;
}

static void check_round(const worker *of, int from, int round, uint8_t **in,
                        ring_transfer **receives) {
  const plan theirs = plan_of(from, of->rank, round, of->number);
  for (int i = EACH - 1; i >= 0; i--) {
    CHECK_INT(ring_transfer_wait(receives[i]), RING_OK);
    ring_message_info info = ring_transfer_info(receives[i]);
    CHECK_INT(info.source, from);
    CHECK_INT(info.tag, theirs.tag[i]);
    CHECK_INT(info.count, theirs.size[i]);
    check_bytes(in[i], theirs.size[i], (unsigned)(from + i));
    ring_transfer_free(receives[i]);
    free(in[i]);
  }
}

static void run_round(const worker *of, int round) {
  int peers = of->size, rank = of->rank;
  uint8_t **in = calloc((size_t)peers * EACH, sizeof *in);
  uint8_t **out = calloc((size_t)peers * EACH, sizeof *out);
  ring_transfer **receives = calloc((size_t)peers * EACH, sizeof(ring_transfer *));
  ring_transfer **sends = calloc((size_t)peers * EACH, sizeof(ring_transfer *));
  for (int peer = 0; round % 2 == 0 && peer < peers; peer++)
    CHECK_INT(post_round(of, peer, round, in + peer * EACH, receives + peer * EACH), EACH);
  for (int i = 0; i < EACH; i++)
    for (int peer = 0; peer < peers; peer++) {
      const plan ours = plan_of(rank, peer, round, of->number);
      int at = peer * EACH + i;
      out[at] = malloc(ours.size[i] + 1);
      fill_bytes(out[at], ours.size[i], (unsigned)(rank + i));
      sends[at] = start_send(of->messages, out[at], ours.size[i], peer, ours.tag[i]);
    }
  for (int peer = 0; round % 2 == 1 && peer < peers; peer++)
    CHECK_INT(post_round(of, peer, round, in + peer * EACH, receives + peer * EACH), EACH);
  for (int peer = 0; peer < peers; peer++)
    check_round(of, peer, round, in + peer * EACH, receives + peer * EACH);
  for (int at = 0; at < peers * EACH; at++) {
    finish_well(sends[at]);
    free(out[at]);
  }
  free(in);
  free(out);
  free(receives);
  free(sends);
}

static void *run_rounds(void *arg) {
  for (int round = 0; round < ROUNDS; round++) run_round(arg, round);
  return NULL;
}

static void try_random(ring_comm *comm, void *shared) {
  (void)shared;
  worker workers[THREADS];
  pthread_t ids[THREADS];
  ring_messages *messages = messages_of(comm);
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){messages, ring_comm_rank(comm), ring_comm_size(comm), i};
    CHECK_INT(pthread_create(&ids[i], NULL, run_rounds, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  end_messages(messages);
}

static void test_random_messages_of_two_threads(void) {
  for (int size = 2; size <= 4; size++) run_comms(size, try_random, NULL);
}

/* Each rank sends a known number of messages to random ranks, and takes what comes from any rank: of each source
 * in order. */
static void try_random_any(ring_comm *comm, void *shared) {
  enum { COUNT = SPARKRING_SANITIZED ? 300 : 1000 };
  int *expected = shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), mine = 0;
  unsigned seed = (unsigned)rank + 17;
  int32_t next[8] = {0}, last[8] = {0};
  ring_messages *messages = messages_of(comm);
  static ring_transfer *sends[COUNT];
  static int32_t *payloads[COUNT];
  for (int i = 0; i < COUNT; i++) {
    int peer = rand_r(&seed) % size;
    size_t count = 1 + random_size(&seed) / 40;
    payloads[i] = calloc(count, sizeof(int32_t));
    payloads[i][0] = payloads[i][count - 1] = ++next[peer];
    went_well(messages, ring_messages_send_start(messages, payloads[i], count, RING_INT32, peer,
                                                 i % 7, &sends[i]));
    __atomic_fetch_add(&expected[peer], 1, __ATOMIC_SEQ_CST);
  }
  ranks_barrier(&expected[8], size);
  for (mine = 0; mine < expected[rank]; mine++) {
    ring_transfer *take;
    went_well(messages, ring_messages_take_start(messages, RING_ANY_SOURCE, RING_ANY_TAG, &take));
    CHECK_INT(ring_transfer_wait(take), RING_OK);
    ring_message_info info = ring_transfer_info(take);
    const int32_t *got = ring_transfer_take_output(take);
    CHECK_INT(got[0], ++last[info.source]);
    CHECK_INT(got[info.count - 1], got[0]);
    ring_free((void *)(uintptr_t)got);
    ring_transfer_free(take);
  }
  for (int i = 0; i < COUNT; i++) {
    finish_well(sends[i]);
    free(payloads[i]);
  }
  end_messages(messages);
}

static void test_random_messages_from_any_source(void) {
  for (int size = 2; size <= 4; size++) RUN_COMMS(size, try_random_any, (int[9]){0});
}

int main(void) {
  RUN(test_random_messages_of_two_threads);
  RUN(test_random_messages_from_any_source);
  return 0;
}
