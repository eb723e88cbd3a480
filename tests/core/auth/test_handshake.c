/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshakes over a socket pair: both sides run in this process, and a test may alter any byte
 * between them.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "check.h"

typedef struct pair {
  ring_handshake connector, acceptor;
  ring_keys connector_keys, acceptor_keys;
} pair;

static ring_keys keys_of(const char *token, int rank) {
  ring_keys keys;
  CHECK(ring_keys_init(&keys, rank, 4));
  CHECK(ring_secret_begin(&keys.vault->job, token, strlen(token)));
  return keys;
}

static void make_pair(pair *p, const char *dialer_token, const char *accepter_token) {
  int fds[2];
  ring_claim claim = {RING_PURPOSE_LINK, 2, 4, 99, 1, 3, false};
  p->connector_keys = keys_of(dialer_token, 2);
  p->acceptor_keys = keys_of(accepter_token, 0);
  CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  for (int i = 0; i < 2; i++) CHECK_INT(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
  CHECK(ring_handshake_connect(&p->connector, fds[0], &p->connector_keys, &claim, 0));
  CHECK(ring_handshake_accept(&p->acceptor, fds[1], &p->acceptor_keys, 0, 4, false));
}

static void end_pair(pair *p) {
  close(p->connector.fd);
  close(p->acceptor.fd);
  ring_keys_wipe(&p->connector_keys);
  ring_keys_wipe(&p->acceptor_keys);
}

static bool pending(ring_handshake_state state) {
  return state == RING_HANDSHAKE_READING || state == RING_HANDSHAKE_WRITING;
}

static void run_pair(pair *p, ring_answer answer) {
  for (int i = 0; i < 10; i++) {
    ring_handshake_advance(&p->connector);
    if (ring_handshake_advance(&p->acceptor) == RING_HANDSHAKE_CLAIMED)
      ring_handshake_answer(&p->acceptor, answer);
    if (!pending(p->acceptor.state)) shutdown(p->acceptor.fd, SHUT_WR);
  }
}

static void test_both_prove_themselves(void) {
  pair p;
  make_pair(&p, "token", "token");
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_DONE);
  CHECK_INT(p.acceptor.state, RING_HANDSHAKE_DONE);
  CHECK_INT(p.acceptor.claim.rank, 2);
  CHECK_INT(p.acceptor.claim.size, 4);
  CHECK_INT(p.acceptor.claim.epoch, 99);
  CHECK_INT(p.acceptor.claim.purpose, RING_PURPOSE_LINK);
  CHECK_INT(p.acceptor.claim.connection, 1);
  CHECK_INT(p.acceptor.claim.connections, 3);
  end_pair(&p);
}

static void test_a_refusal_arrives(void) {
  pair p;
  make_pair(&p, "token", "token");
  run_pair(&p, RING_ANSWER_STALE);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_REFUSED);
  CHECK_INT(p.connector.answer, RING_ANSWER_STALE);
  CHECK_CONTAINS(ring_answer_text(p.connector.answer), "an earlier attempt of the job");
  end_pair(&p);
}

/* Makes the connecting side one that wants encryption. */
static void make_unlike(pair *p) {
  p->connector.claim.encrypted = true;
  p->connector.transcript[11] = 1;
}

/* Both sides prove themselves, and the answer is not ACCEPTED. */
static void test_who_wants_other_encryption_is_refused(void) {
  static const ring_answer answers[][2] = {{RING_ANSWER_ACCEPTED, RING_ANSWER_UNLIKE},
                                           {RING_ANSWER_STALE, RING_ANSWER_STALE}};
  for (int i = 0; i < 2; i++) {
    pair p;
    make_pair(&p, "token", "token");
    make_unlike(&p);
    run_pair(&p, answers[i][0]);
    CHECK_INT(p.acceptor.claim.encrypted, true);
    CHECK_INT(p.acceptor.state, RING_HANDSHAKE_REFUSED);
    CHECK_INT(p.connector.state, RING_HANDSHAKE_REFUSED);
    CHECK_INT(p.connector.answer, answers[i][1]);
    CHECK_INT(p.connector.claim.rank, p.acceptor.peer_rank);
    end_pair(&p);
  }
}

/* An outsider gets no reason, whatever its settings are. */
static void test_an_outsider_that_wants_other_encryption_is_one(void) {
  pair p;
  make_pair(&p, "token", "Token");
  make_unlike(&p);
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.acceptor.state, RING_HANDSHAKE_OUTSIDER);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_LOST);
  end_pair(&p);
}

/* Verdicts that contradict the two HELLOs they prove. */
static void test_an_impossible_answer_is_an_outsiders(void) {
  for (int unlike = 0; unlike < 2; unlike++) {
    pair p;
    make_pair(&p, "token", "token");
    if (unlike) make_unlike(&p);
    ring_handshake_advance(&p.connector);
    ring_handshake_advance(&p.acceptor);
    ring_handshake_advance(&p.connector);
    CHECK_INT(ring_handshake_advance(&p.acceptor), RING_HANDSHAKE_CLAIMED);
    CHECK_INT(p.acceptor.unlike, unlike);
    p.acceptor.unlike = false;
    ring_handshake_answer(&p.acceptor, unlike ? RING_ANSWER_ACCEPTED : RING_ANSWER_UNLIKE);
    ring_handshake_advance(&p.acceptor);
    CHECK_INT(ring_handshake_advance(&p.connector), RING_HANDSHAKE_OUTSIDER);
    end_pair(&p);
  }
}

static void test_another_token_is_an_outsider(void) {
  pair p;
  make_pair(&p, "token", "Token");
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.acceptor.state, RING_HANDSHAKE_OUTSIDER);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_LOST);
  end_pair(&p);
}

/* An accepting side that lacks the key but knows the protocol: its answer proves nothing. */
static void test_a_false_answer_is_an_outsider(void) {
  pair p;
  make_pair(&p, "token", "token");
  p.acceptor_keys.vault->job.bytes[0] ^= 1;
  ring_handshake_advance(&p.connector);
  ring_handshake_advance(&p.acceptor);
  ring_handshake_advance(&p.connector);
  p.acceptor.turn = 3; /* skips the check of the claim, as an impostor would */
  p.acceptor.peer_rank = 2;
  ring_handshake_answer(&p.acceptor, RING_ANSWER_ACCEPTED);
  ring_handshake_advance(&p.acceptor);
  CHECK_INT(ring_handshake_advance(&p.connector), RING_HANDSHAKE_OUTSIDER);
  end_pair(&p);
}

static void test_the_wrong_rank_is_an_outsider(void) {
  pair p;
  make_pair(&p, "token", "token");
  p.acceptor.own_rank = 1; /* the connecting side wanted rank 0 */
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_OUTSIDER);
  end_pair(&p);
}

/* Passes `length` bytes on with byte `flip` altered; from and to are the relay's own ends. */
static void relay(int from, int to, size_t length, size_t flip, size_t *seen) {
  uint8_t bytes[64];
  ssize_t got = recv(from, bytes, length, MSG_DONTWAIT);
  if (got <= 0) return;
  for (ssize_t i = 0; i < got; i++)
    if ((*seen)++ == flip) bytes[i] ^= 0x20;
  CHECK_INT(send(to, bytes, (size_t)got, MSG_NOSIGNAL), got);
}

/* No byte of the conversation, in either direction, can be altered unnoticed. */
static void test_every_byte_is_covered(void) {
  const size_t total = 2 * RING_HELLO_BYTES + RING_CLAIM_BYTES + RING_ANSWER_BYTES;
  for (size_t flip = 0; flip < total; flip++) {
    pair p;
    make_pair(&p, "token", "token");
    int left[2], right[2];
    size_t seen = 0;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, left), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, right), 0);
    fcntl(left[0], F_SETFL, O_NONBLOCK);
    fcntl(right[1], F_SETFL, O_NONBLOCK);
    int connector_fd = p.connector.fd, acceptor_fd = p.acceptor.fd;
    p.connector.fd = left[0];
    p.acceptor.fd = right[1];
    for (int i = 0; i < 10; i++) {
      ring_handshake_advance(&p.connector);
      relay(left[1], right[0], RING_CLAIM_BYTES, flip, &seen);
      if (ring_handshake_advance(&p.acceptor) == RING_HANDSHAKE_CLAIMED)
        ring_handshake_answer(&p.acceptor, RING_ANSWER_ACCEPTED);
      ring_handshake_advance(&p.acceptor);
      relay(right[0], left[1], RING_CLAIM_BYTES, flip, &seen);
    }
    CHECK(p.connector.state != RING_HANDSHAKE_DONE && p.connector.state != RING_HANDSHAKE_REFUSED);
    p.connector.fd = connector_fd;
    p.acceptor.fd = acceptor_fd;
    for (int i = 0; i < 2; i++) {
      close(left[i]);
      close(right[i]);
    }
    end_pair(&p);
  }
}

static void test_another_version_is_reported(void) {
  pair p;
  make_pair(&p, "token", "token");
  uint8_t hello[RING_HELLO_BYTES] = "sparkrng\x07";
  CHECK_INT(ring_handshake_advance(&p.connector), RING_HANDSHAKE_READING);
  CHECK_INT(send(p.acceptor.fd, hello, sizeof hello, 0), sizeof hello);
  CHECK_INT(ring_handshake_advance(&p.connector), RING_HANDSHAKE_VERSION);
  CHECK_INT(p.connector.peer_version, 7);
  end_pair(&p);
}

/* One that has the key, but asks for what there cannot be. */
static void check_connections(ring_purpose purpose, int connection, int connections,
                              ring_handshake_state state) {
  pair p;
  make_pair(&p, "token", "token");
  p.connector.claim.purpose = p.connector.transcript[10] = purpose;
  p.connector.claim.connection = connection;
  p.connector.claim.connections = connections;
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.acceptor.state, state);
  end_pair(&p);
}

static void test_connections_that_cannot_be(void) {
  check_connections(RING_PURPOSE_LINK, 15, 16, RING_HANDSHAKE_DONE);
  check_connections(RING_PURPOSE_LINK, 16, 17, RING_HANDSHAKE_OUTSIDER);
  check_connections(RING_PURPOSE_LINK, 3, 3, RING_HANDSHAKE_OUTSIDER);
  check_connections(RING_PURPOSE_LINK, 0, 0, RING_HANDSHAKE_OUTSIDER);
  check_connections(RING_PURPOSE_LINK, 255, 255, RING_HANDSHAKE_OUTSIDER);
  check_connections(RING_PURPOSE_RENDEZVOUS, 0, 0, RING_HANDSHAKE_DONE);
  check_connections(RING_PURPOSE_RENDEZVOUS, 0, 1, RING_HANDSHAKE_OUTSIDER);
  check_connections(RING_PURPOSE_SHM, 1, 0, RING_HANDSHAKE_OUTSIDER);
}

/* An outsider that has proved nothing receives one HELLO, whatever it sends. */
static void test_an_outsider_learns_nothing(void) {
  pair p;
  make_pair(&p, "token", "token");
  uint8_t received[256], garbage[RING_CLAIM_BYTES] = {0};
  ring_handshake_advance(&p.connector);
  ring_handshake_advance(&p.acceptor);
  CHECK_INT(recv(p.connector.fd, received, sizeof received, 0), RING_HELLO_BYTES);
  CHECK_INT(send(p.connector.fd, garbage, sizeof garbage, 0), sizeof garbage);
  CHECK_INT(ring_handshake_advance(&p.acceptor), RING_HANDSHAKE_OUTSIDER);
  shutdown(p.acceptor.fd, SHUT_WR);
  CHECK_INT(recv(p.connector.fd, received, sizeof received, 0), 0);
  end_pair(&p);
}

/* ---- Ranks of an exchange ----------------------------------------------------------------- */

/* What `rank` of four has, whose texts all have read. */
static void exchange_keys(ring_keys keys[4]) {
  uint8_t publics[4][RING_PUBLIC_BYTES];
  for (int rank = 0; rank < 4; rank++) {
    CHECK(ring_keys_init(&keys[rank], rank, 4));
    CHECK(ring_keys_generate(&keys[rank], publics[rank]));
  }
  for (int rank = 0; rank < 4; rank++)
    for (int other = 0; other < 4; other++)
      ring_keys_set_public(&keys[rank], other, publics[other]);
}

/* A pair whose connecting side has these keys and claims to be rank 2. */
static void make_exchanged_pair(pair *p, const ring_keys *connector, const ring_keys *acceptor) {
  make_pair(p, "", "");
  p->connector.keys = connector;
  p->acceptor.keys = acceptor;
}

static void test_two_ranks_have_a_key_of_their_own(void) {
  ring_keys keys[4];
  pair p;
  ring_secret derived[2];
  exchange_keys(keys);
  make_exchanged_pair(&p, &keys[2], &keys[0]);
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.connector.state, RING_HANDSHAKE_DONE);
  CHECK_INT(p.acceptor.state, RING_HANDSHAKE_DONE);
  CHECK(ring_handshake_derive(&p.connector, &derived[0]));
  CHECK(ring_handshake_derive(&p.acceptor, &derived[1]));
  CHECK(memcmp(&derived[0], &derived[1], sizeof derived[0]) == 0);
  end_pair(&p);
  for (int rank = 0; rank < 4; rank++) ring_keys_wipe(&keys[rank]);
}

/* Who has read all texts, and even another rank of the job, is not rank 2. */
static void test_nobody_else_has_it(void) {
  ring_keys keys[4], reader = {.vault = NULL};
  uint8_t public[RING_PUBLIC_BYTES];
  pair p;
  exchange_keys(keys);
  CHECK(ring_keys_init(&reader, 2, 4) && ring_keys_generate(&reader, public));
  for (int rank = 0; rank < 4; rank++) ring_keys_set_public(&reader, rank, keys[0].publics[rank]);
  const ring_keys *others[] = {&reader, &keys[1], &keys[3]};
  for (int i = 0; i < 3; i++) {
    make_exchanged_pair(&p, others[i], &keys[0]);
    run_pair(&p, RING_ANSWER_ACCEPTED);
    CHECK_INT(p.acceptor.state, RING_HANDSHAKE_OUTSIDER);
    CHECK(p.connector.state == RING_HANDSHAKE_LOST);
    end_pair(&p);
  }
  ring_keys_wipe(&reader);
  for (int rank = 0; rank < 4; rank++) ring_keys_wipe(&keys[rank]);
}

static void test_wiped_keys_prove_nothing(void) {
  pair p;
  make_pair(&p, "token", "token");
  ring_keys_wipe(&p.acceptor_keys);
  run_pair(&p, RING_ANSWER_ACCEPTED);
  CHECK_INT(p.acceptor.state, RING_HANDSHAKE_OUTSIDER);
  end_pair(&p);
}

int main(void) {
  RUN(test_two_ranks_have_a_key_of_their_own);
  RUN(test_nobody_else_has_it);
  RUN(test_wiped_keys_prove_nothing);
  RUN(test_both_prove_themselves);
  RUN(test_a_refusal_arrives);
  RUN(test_who_wants_other_encryption_is_refused);
  RUN(test_an_outsider_that_wants_other_encryption_is_one);
  RUN(test_an_impossible_answer_is_an_outsiders);
  RUN(test_another_token_is_an_outsider);
  RUN(test_a_false_answer_is_an_outsider);
  RUN(test_the_wrong_rank_is_an_outsider);
  RUN(test_every_byte_is_covered);
  RUN(test_another_version_is_reported);
  RUN(test_connections_that_cannot_be);
  RUN(test_an_outsider_learns_nothing);
  return 0;
}
