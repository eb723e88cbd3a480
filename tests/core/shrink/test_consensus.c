/* SPDX-License-Identifier: Apache-2.0
 *
 * The consensus of a shrink below the API: its messages are proven, and a rank that was left out learns it. Each rank is
 * a thread.
 */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "ranks.h"
#include "shrink/consensus.h"
#include "transport/socket.h"

enum { SIZE = 3 };

typedef struct member {
  pthread_t thread;
  ring_roster *roster;
  double seconds;
  ring_status status;
  ring_error error;
} member;

/* The members of a communicator of ranks that listen on this host. */
static void gather(member members[SIZE]) {
  int listeners[SIZE];
  for (int rank = 0; rank < SIZE; rank++) {
    listeners[rank] = ring_socket_listen("127.0.0.1", 0);
    CHECK(listeners[rank] >= 0);
  }
  for (int rank = 0; rank < SIZE; rank++) {
    ring_peers peers = {0};
    CHECK_INT(ring_peers_init(&peers, rank, SIZE), RING_OK);
    peers.epoch = 7;
    for (int other = 0; other < SIZE; other++)
      CHECK_INT(ring_peers_place(&peers, other, "127.0.0.1",
                                 (uint16_t)ring_socket_port(listeners[other])),
                RING_OK);
    members[rank] = (member){.roster = ring_roster_make(&peers), .seconds = 60};
    CHECK(members[rank].roster != NULL);
    CHECK_INT(ring_peers_listen(&members[rank].roster->peers, listeners[rank]), RING_OK);
    ring_peers_fini(&peers);
  }
}

static void *take_part(void *arg) {
  member *of = arg;
  ring_wait wait;
  ring_wait_init(&wait, of->seconds, NULL, NULL);
  of->status = ring_consensus_run(of->roster, &wait, &of->error);
  return NULL;
}

static void begin(member *of) {
  CHECK_INT(pthread_create(&of->thread, NULL, take_part, of), 0);
}

static void end(member *of, ring_status expected) {
  CHECK_INT(pthread_join(of->thread, NULL), 0);
  if (of->status != expected) fprintf(stderr, "%s\n", of->error.message);
  CHECK_INT(of->status, expected);
}

static void disband(member members[SIZE]) {
  for (int rank = 0; rank < SIZE; rank++) ring_roster_free(members[rank].roster);
}

static void expect_generation(const member *of, uint32_t number, unsigned ranks) {
  const ring_generation *generation = &of->roster->generation;
  CHECK_INT(generation->number, number);
  for (int rank = 0; rank < SIZE; rank++)
    CHECK_INT(ring_generation_has(generation, rank), ranks >> rank & 1);
}

static void test_all_ranks_form_the_next_generation(void) {
  member members[SIZE];
  gather(members);
  for (uint32_t number = 1; number < 4; number++) {
    for (int rank = 0; rank < SIZE; rank++) begin(&members[rank]);
    for (int rank = 0; rank < SIZE; rank++) end(&members[rank], RING_OK);
    for (int rank = 0; rank < SIZE; rank++) {
      expect_generation(&members[rank], number, 0x7);
      CHECK(members[rank].roster->generation.epoch == members[0].roster->generation.epoch);
      ring_peers_unlink(&members[rank].roster->peers);
    }
  }
  disband(members);
}

static void test_ranks_whose_ports_refuse_are_gone(void) {
  member members[SIZE];
  gather(members);
  ring_peers_close(&members[0].roster->peers);
  for (int rank = 1; rank < SIZE; rank++) begin(&members[rank]);
  for (int rank = 1; rank < SIZE; rank++) end(&members[rank], RING_OK);
  for (int rank = 1; rank < SIZE; rank++) expect_generation(&members[rank], 1, 0x6);
  disband(members);
}

static void test_a_rank_that_listens_is_awaited(void) {
  member members[SIZE];
  gather(members);
  members[0].seconds = 0.3;
  begin(&members[0]);
  end(&members[0], RING_TIMEOUT);
  CHECK_INT(members[0].error.rank, 1);
  CHECK_CONTAINS(members[0].error.message, "has not called shrink()");
  expect_generation(&members[0], 0, 0x7);
  disband(members);
}

static void test_a_rank_that_was_left_out_learns_it(void) {
  static uint8_t some[] = {0x3};
  const ring_generation without = {.number = 1, .epoch = 8, .members = some};
  member members[SIZE];
  gather(members);
  ring_generation_adopt(members[0].roster, &without);
  ring_generation_adopt(members[1].roster, &without);
  begin(&members[0]);
  begin(&members[2]);
  end(&members[2], RING_ABORTED);
  CHECK_INT(members[2].error.rank, 0);
  CHECK_CONTAINS(members[2].error.message, "formed without this rank");
  begin(&members[1]);
  end(&members[0], RING_OK);
  end(&members[1], RING_OK);
  expect_generation(&members[1], 2, 0x3);
  disband(members);
}

static void test_a_member_adopts_a_newer_generation(void) {
  static uint8_t all[] = {0x7};
  const ring_generation newer = {.number = 1, .epoch = 8, .members = all};
  for (int ahead = 0; ahead < SIZE; ahead++) {
    member members[SIZE];
    gather(members);
    ring_generation_adopt(members[ahead].roster, &newer);
    for (int rank = 0; rank < SIZE; rank++) begin(&members[rank]);
    for (int rank = 0; rank < SIZE; rank++) end(&members[rank], RING_OK);
    for (int rank = 0; rank < SIZE; rank++) expect_generation(&members[rank], 2, 0x7);
    disband(members);
  }
}

static ring_status unpack(const member *at, int from, const uint8_t *message, size_t length) {
  uint8_t copy[64];
  ring_generation_kind kind;
  ring_generation generation;
  CHECK(length <= sizeof copy);
  memcpy(copy, message, length);
  return ring_generation_unpack(at->roster, from, copy, &kind, &generation);
}

static void test_messages_prove_their_bytes_and_ranks(void) {
  uint8_t message[64];
  member members[SIZE];
  gather(members);
  size_t length = ring_generation_message_bytes(&members[0].roster->peers);
  CHECK(ring_generation_pack(members[0].roster, RING_GENERATION_FORM, 1, message));
  CHECK_INT(unpack(&members[1], 0, message, length), RING_OK);
  for (size_t bit = 0; bit < 8 * length; bit++) {
    message[bit / 8] ^= (uint8_t)(1u << bit % 8);
    CHECK_INT(unpack(&members[1], 0, message, length), RING_AUTH);
    message[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  CHECK_INT(unpack(&members[2], 0, message, length), RING_AUTH);
  CHECK_INT(unpack(&members[1], 2, message, length), RING_AUTH);
  members[1].roster->peers.epoch++;
  CHECK_INT(unpack(&members[1], 0, message, length), RING_AUTH);
  disband(members);
}

int main(void) {
  RUN(test_all_ranks_form_the_next_generation);
  RUN(test_ranks_whose_ports_refuse_are_gone);
  RUN(test_a_rank_that_listens_is_awaited);
  RUN(test_a_rank_that_was_left_out_learns_it);
  RUN(test_a_member_adopts_a_newer_generation);
  RUN(test_messages_prove_their_bytes_and_ranks);
  return 0;
}
