/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: any sizes in both directions, tags, any source, probes, order, and thousands of random ones from
 * several threads.
 */
#include <pthread.h>
#include <unistd.h>

#include "messages.h"

static const size_t sizes[] = {0, 1, 8, 1000, 65536, 65537, 300001, (size_t)8 * 1024 * 1024};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- Both directions ---------------------------------------------------------------------- */

/* Every rank starts a receive from its left, then a send to its right, and waits in this order or the
 * other. */
static void cross(ring_messages *messages, int rank, int ranks, size_t size, bool sends_first) {
  uint8_t *out = malloc(size + 1), *in = malloc(size + 1);
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  fill_bytes(out, size, (unsigned)rank);
  ring_transfer *receive = start_recv(messages, in, size, left, 7);
  ring_transfer *send = start_send(messages, out, size, right, 7);
  finish_well(sends_first ? send : receive);
  finish_well(sends_first ? receive : send);
  check_bytes(in, size, (unsigned)left);
  free(out);
  free(in);
}

/* Bit 0 of the order is that of even ranks, bit 1 that of odd ones. */
static void try_cross(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), ranks = ring_comm_size(comm);
  for (int i = 0; i < SIZES; i++)
    for (int order = 0; order < 4; order++)
      cross(messages, rank, ranks, sizes[i], (order >> rank % 2 & 1) != 0);
  end_messages(messages);
}

static void test_starts_wait_in_either_order(void) {
  for (int size = 2; size <= 3; size++) run_comms(size, try_cross, NULL);
}

/* Every rank sends to its right and receives from its left, at once. */
static void try_ring(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < SIZES; i++) {
    uint8_t *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
    ring_message_info info;
    fill_bytes(out, sizes[i], (unsigned)rank);
    went_well(messages, ring_messages_sendrecv(messages, out, sizes[i], RING_UINT8, right, i, in,
                                               sizes[i], RING_UINT8, left, RING_ANY_TAG, &info));
    check_bytes(in, sizes[i], (unsigned)left);
    CHECK_INT(info.source, left);
    CHECK_INT(info.tag, i);
    CHECK_INT(info.count, sizes[i]);
    free(out);
    free(in);
  }
  end_messages(messages);
}

static void test_sendrecv_around_a_ring(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, try_ring, NULL);
}

/* ---- Matching ----------------------------------------------------------------------------- */

static int32_t take_number(ring_messages *messages, int source, int tag, ring_message_info *info) {
  int32_t number;
  went_well(messages, ring_messages_recv(messages, &number, 1, RING_INT32, source, tag, info));
  return number;
}

static void send_number(ring_messages *messages, int32_t number, int peer, int tag) {
  went_well(messages, ring_messages_send(messages, &number, 1, RING_INT32, peer, tag));
}

/* Messages of one tag stay in order; a tag is found behind others; ANY_TAG takes the first one. */
static void try_tags(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  ring_message_info info;
  if (ring_comm_rank(comm) == 1) {
    for (int32_t i = 0; i < 30; i++) send_number(messages, i, 0, i % 3);
  } else {
    for (int32_t i = 2; i < 30; i += 3) CHECK_INT(take_number(messages, 1, 2, &info), i);
    CHECK_INT(info.tag, 2);
    for (int32_t i = 0; i < 30; i++)
      if (i % 3 != 2) CHECK_INT(take_number(messages, 1, RING_ANY_TAG, &info), i);
    CHECK_INT(info.tag, 28 % 3);
  }
  end_messages(messages);
}

static void test_tags(void) {
  run_comms(2, try_tags, NULL);
}

/* Receives that were posted first are served first, whether of any source or of one. */
static void try_posts(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  uint8_t places[4] = {0};
  ring_transfer *receives[4];
  if (ring_comm_rank(comm) == 0) {
    for (int i = 0; i < 4; i++)
      receives[i] = start_recv(messages, &places[i], 1, i % 2 == 0 ? RING_ANY_SOURCE : 1,
                               i < 2 ? 5 : RING_ANY_TAG);
    send_number(messages, 1, 1, 0);
    for (int i = 3; i >= 0; i--) finish_well(receives[i]);
    for (int i = 0; i < 4; i++) CHECK_INT(places[i], 10 + i);
  } else {
    take_number(messages, 0, 0, NULL);
    for (int i = 0; i < 4; i++) {
      uint8_t byte = (uint8_t)(10 + i);
      went_well(messages, ring_messages_send(messages, &byte, 1, RING_UINT8, 0, 5));
    }
  }
  end_messages(messages);
}

static void test_posts_are_served_in_order(void) {
  run_comms(2, try_posts, NULL);
}

/* A message of each other rank, in the order in which they come. */
static void try_any_source(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), root = size / 2;
  bool seen[8] = {false};
  if (rank != root) {
    send_number(messages, rank, root, rank);
    CHECK_INT(take_number(messages, root, 99, NULL), root);
  }
  for (int i = 0; rank == root && i < size - 1; i++) {
    ring_message_info info;
    int32_t number = take_number(messages, RING_ANY_SOURCE, RING_ANY_TAG, &info);
    CHECK_INT(info.source, number);
    CHECK_INT(info.tag, number);
    CHECK(!seen[number]);
    seen[number] = true;
    send_number(messages, rank, number, 99);
  }
  end_messages(messages);
}

static void test_any_source(void) {
  for (int size = 2; size <= 4; size++) run_comms(size, try_any_source, NULL);
}

/* ---- Probing ------------------------------------------------------------------------------ */

static void check_taken(ring_messages *messages, size_t size) {
  ring_transfer *take;
  ring_message_info info;
  went_well(messages, ring_messages_take_start(messages, RING_ANY_SOURCE, 3, &take));
  CHECK_INT(ring_transfer_wait(take), RING_OK);
  info = ring_transfer_info(take);
  CHECK_INT(info.count, size);
  CHECK_INT(info.dtype, RING_UINT8);
  uint8_t *output = ring_transfer_take_output(take);
  CHECK((output == NULL) == (size == 0));
  check_bytes(output, size, 1);
  ring_free(output);
  ring_transfer_free(take);
}

static void try_probe(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  ring_message_info info;
  int found = 1, rank = ring_comm_rank(comm);
  if (rank == 0) {
    went_well(messages, ring_messages_iprobe(messages, RING_ANY_SOURCE, 3, &found, &info));
    CHECK_INT(found, 0);
    send_number(messages, 0, 1, 0);
  } else {
    take_number(messages, 0, 0, NULL);
  }
  for (int i = 0; i < SIZES; i++) {
    uint8_t *bytes = malloc(sizes[i] + 1);
    if (rank == 1) {
      fill_bytes(bytes, sizes[i], 1);
      went_well(messages, ring_messages_send(messages, bytes, sizes[i], RING_UINT8, 0, 3));
    } else if (i % 2 == 0) {
      went_well(messages, ring_messages_probe(messages, RING_ANY_SOURCE, RING_ANY_TAG, &info));
      CHECK_INT(info.source, 1);
      CHECK_INT(info.tag, 3);
      CHECK_INT(info.count, sizes[i]);
      check_taken(messages, sizes[i]);
    } else {
      for (found = 0; found == 0;)
        went_well(messages, ring_messages_iprobe(messages, 1, 3, &found, &info));
      CHECK_INT(info.count, sizes[i]);
      check_taken(messages, sizes[i]);
    }
    free(bytes);
  }
  end_messages(messages);
}

static void test_probe_and_take(void) {
  run_comms(2, try_probe, NULL);
}

/* ---- To oneself --------------------------------------------------------------------------- */

static void try_self(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm);
  for (int i = 0; i < 2 * SIZES; i++) {
    size_t size = sizes[i / 2];
    uint8_t *out = malloc(size + 1), *in = malloc(size + 1);
    ring_transfer *send = NULL, *receive = NULL;
    fill_bytes(out, size, (unsigned)i);
    if (i % 2 == 0) send = start_send(messages, out, size, rank, i);
    receive = start_recv(messages, in, size, rank, i);
    if (i % 2 == 1) send = start_send(messages, out, size, rank, i);
    finish_well(receive);
    finish_well(send);
    check_bytes(in, size, (unsigned)i);
    free(out);
    free(in);
  }
  end_messages(messages);
}

static void test_messages_to_oneself(void) {
  run_comms(1, try_self, NULL);
  run_comms(2, try_self, NULL);
}

/* ---- Progress ----------------------------------------------------------------------------- */

/* Rank 0 starts, and makes no call until rank 1 has everything. */
static void try_background(ring_comm *comm, void *shared) {
  int *received = shared;
  ring_messages *messages = messages_of(comm);
  const size_t size = (size_t)8 * 1024 * 1024;
  uint8_t *bytes = malloc(size);
  if (ring_comm_rank(comm) == 0) {
    fill_bytes(bytes, size, 5);
    ring_transfer *send = start_send(messages, bytes, size, 1, 1);
    await_count(received, 1);
    finish_well(send);
  } else {
    went_well(messages, ring_messages_recv(messages, bytes, size, RING_UINT8, 0, 1, NULL));
    check_bytes(bytes, size, 5);
    __atomic_fetch_add(received, 1, __ATOMIC_SEQ_CST);
  }
  free(bytes);
  end_messages(messages);
}

static void test_started_sends_end_without_their_rank(void) {
  RUN_COMMS(2, try_background, (int[1]){0});
}

/* More short messages than there is room for, before the first receive. */
static void try_flood(ring_comm *comm, void *shared) {
  (void)shared;
  enum { COUNT = 3000, BYTES = 1000 };
  static uint8_t bytes[COUNT][BYTES];
  static ring_transfer *sends[COUNT];
  ring_messages *messages = messages_of(comm);
  if (ring_comm_rank(comm) == 0) {
    for (int i = 0; i < COUNT; i++) {
      fill_bytes(bytes[i], BYTES, (unsigned)i);
      sends[i] = start_send(messages, bytes[i], BYTES, 1, i % 5);
    }
    int done;
    CHECK_INT(ring_transfer_test(sends[0], &done), RING_OK);
    CHECK_INT(done, 1);
    CHECK_INT(ring_transfer_test(sends[COUNT - 1], &done), RING_OK);
    CHECK_INT(done, 0); /* there was no room for it */
    send_number(messages, 1, 1, 100);
    for (int i = 0; i < COUNT; i++) finish_well(sends[i]);
  } else {
    take_number(messages, 0, 100, NULL);
    for (int tag = 4; tag >= 0; tag--)
      for (int i = tag; i < COUNT; i += 5) {
        went_well(messages,
                  ring_messages_recv(messages, bytes[i], BYTES, RING_UINT8, 0, tag, NULL));
        check_bytes(bytes[i], BYTES, (unsigned)i);
      }
  }
  end_messages(messages);
}

static void test_more_messages_than_room(void) {
  run_comms(2, try_flood, NULL);
}

/* Messages and collectives do not disturb each other, in any order. */
static void try_beside(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int i = 0; i < 50; i++) {
    uint8_t in = 0, out = (uint8_t)(rank + i);
    int one = 1, sum = 0;
    ring_transfer *receive = start_recv(messages, &in, 1, (rank + size - 1) % size, RING_ANY_TAG);
    if (i % 2 == 0) CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    ring_transfer *send = start_send(messages, &out, 1, (rank + 1) % size, i);
    if (i % 2 == 1) CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    CHECK_INT(sum, size);
    finish_well(receive);
    finish_well(send);
    CHECK_INT(in, (uint8_t)((rank + size - 1) % size + i));
  }
  end_messages(messages);
}

static void test_messages_beside_collectives(void) {
  run_comms(3, try_beside, NULL);
}

/* ---- Random messages ---------------------------------------------------------------------- */

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
  RUN(test_starts_wait_in_either_order);
  RUN(test_sendrecv_around_a_ring);
  RUN(test_tags);
  RUN(test_posts_are_served_in_order);
  RUN(test_any_source);
  RUN(test_probe_and_take);
  RUN(test_messages_to_oneself);
  RUN(test_started_sends_end_without_their_rank);
  RUN(test_more_messages_than_room);
  RUN(test_messages_beside_collectives);
  RUN(test_random_messages_of_two_threads);
  RUN(test_random_messages_from_any_source);
  return 0;
}
