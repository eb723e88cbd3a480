/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/handshake.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"

static const char handshake_magic[8] = {'s', 'p', 'a', 'r', 'k', 'r', 'n', 'g'};

enum { TURN_CONNECTOR_HELLO, TURN_ACCEPTOR_HELLO, TURN_CLAIM, TURN_ANSWER, TURN_END };

static const size_t handshake_lengths[] = {RING_HELLO_BYTES, RING_HELLO_BYTES, RING_CLAIM_BYTES,
                                           RING_ANSWER_BYTES};

static uint8_t *handshake_message(ring_handshake *handshake, int turn) {
  uint8_t *message = handshake->transcript;
  for (int i = 0; i < turn; i++) message += handshake_lengths[i];
  return message;
}

static bool handshake_writes(const ring_handshake *handshake) {
  bool connectors_turn = handshake->turn == TURN_CONNECTOR_HELLO || handshake->turn == TURN_CLAIM;
  return connectors_turn != handshake->accepting;
}

static bool handshake_begin(ring_handshake *handshake, int fd, const ring_keys *keys,
                            ring_claim claim) {
  *handshake = (ring_handshake){.fd = fd, .claim = claim, .keys = keys};
  int turn = TURN_CONNECTOR_HELLO;
  uint8_t *to = handshake_message(handshake, turn);
  memcpy(to, handshake_magic, 8);
  to = bytes_put(to + 8, RING_WIRE_VERSION, 2);
  to = bytes_put(to, claim.purpose, 1);
  to = bytes_put(to, claim.encrypted, 1);
  return ring_secret_random(to, 32);
}

bool ring_handshake_connect(ring_handshake *handshake, int fd, const ring_keys *keys,
                            const ring_claim *claim, int peer_rank) {
  bool ready = handshake_begin(handshake, fd, keys, *claim);
  handshake->peer_rank = peer_rank;
  return ready;
}

bool ring_handshake_accept(ring_handshake *handshake, int fd, const ring_keys *keys, int rank,
                           int size, bool encrypted) {
  ring_claim claim = {.size = size, .encrypted = encrypted};
  bool ready = handshake_begin(handshake, fd, keys, claim);
  memcpy(handshake_message(handshake, TURN_ACCEPTOR_HELLO), handshake->transcript,
         RING_HELLO_BYTES);
  handshake->accepting = true;
  handshake->own_rank = rank;
  handshake->peer_rank = -1;
  return ready;
}

/* The proof that ends a message: an HMAC, with the key that this rank and `rank` share, over the
 * name of the sending side and all bytes before the proof. */
static bool handshake_prove(ring_handshake *handshake, int turn, int rank, ring_secret *proof) {
  uint8_t input[16 + sizeof handshake->transcript] = {0};
  uint8_t *end = handshake_message(handshake, turn) + handshake_lengths[turn] - RING_SECRET_BYTES;
  size_t length = (size_t)(end - handshake->transcript);
  const ring_secret *key = ring_keys_pair(handshake->keys, rank);
  strcpy((char *)input, turn == TURN_CLAIM ? "connector" : "acceptor");
  memcpy(input + 16, handshake->transcript, length);
  return key != NULL && ring_secret_mac(key, input, 16 + length, proof);
}

/* Completes the message that this side is about to send. */
static bool handshake_compose(ring_handshake *handshake) {
  int turn = handshake->turn;
  if (turn != TURN_CLAIM && turn != TURN_ANSWER) return true;
  uint8_t *to = handshake_message(handshake, turn);
  if (turn == TURN_CLAIM) {
    to = bytes_put(to, (uint32_t)handshake->claim.rank, 4);
    to = bytes_put(to, (uint32_t)handshake->claim.size, 4);
    to = bytes_put(to, handshake->claim.epoch, 8);
    to = bytes_put(to, (uint32_t)handshake->claim.connection, 1);
    to = bytes_put(to, (uint32_t)handshake->claim.connections, 1);
  } else {
    to = bytes_put(to, handshake->answer, 4);
    to = bytes_put(to, (uint32_t)handshake->own_rank, 4);
  }
  ring_secret proof;
  if (!handshake_prove(handshake, turn, handshake->peer_rank, &proof)) return false;
  memcpy(to, proof.bytes, RING_SECRET_BYTES);
  return true;
}

static bool handshake_proof_is_right(ring_handshake *handshake, int turn, int rank) {
  ring_secret proof;
  const uint8_t *given =
      handshake_message(handshake, turn) + handshake_lengths[turn] - RING_SECRET_BYTES;
  if (handshake_prove(handshake, turn, rank, &proof))
    return ring_secret_equal(proof.bytes, given, RING_SECRET_BYTES);
  /* No key for this rank, or no memory. */
  bool keyless = handshake->keys->vault == NULL || rank == handshake->keys->rank;
  handshake->system_errno = keyless ? 0 : ENOMEM;
  return false;
}

/* The state after a wrong proof; or after a proof that could not be computed, no fault of the other
 * side. */
static ring_handshake_state handshake_unproven(const ring_handshake *handshake) {
  return handshake->system_errno == ENOMEM ? RING_HANDSHAKE_LOST : RING_HANDSHAKE_OUTSIDER;
}

/* The accepting side answers a HELLO of another version, so that the other side can report the
 * version. */
static ring_handshake_state handshake_read_hello(ring_handshake *handshake, const uint8_t *from) {
  if (memcmp(from, handshake_magic, 8) != 0) return RING_HANDSHAKE_OUTSIDER;
  from += 8;
  handshake->peer_version = (int)bytes_get(&from, 2);
  int purpose = (int)bytes_get(&from, 1);
  bool encrypted = bytes_get(&from, 1) != 0;
  handshake->unlike = encrypted != handshake->claim.encrypted;
  if (handshake->peer_version != RING_WIRE_VERSION) handshake->unfit = RING_HANDSHAKE_VERSION;
  if (!handshake->accepting)
    return handshake->unfit != 0 ? handshake->unfit : RING_HANDSHAKE_WRITING;
  if (purpose < RING_PURPOSE_RENDEZVOUS || purpose > RING_PURPOSE_SHM)
    return RING_HANDSHAKE_OUTSIDER;
  handshake->claim.purpose = (ring_purpose)purpose;
  handshake->claim.encrypted = encrypted;
  return RING_HANDSHAKE_WRITING;
}

/* Only links have connections. */
static bool handshake_connection_exists(const ring_claim *claim) {
  if (claim->purpose != RING_PURPOSE_LINK) return claim->connection == 0 && claim->connections == 0;
  return claim->connection < claim->connections && claim->connections <= RING_CONNECTIONS_MAX;
}

static ring_handshake_state handshake_read_claim(ring_handshake *handshake, const uint8_t *from) {
  uint32_t rank = (uint32_t)bytes_get(&from, 4), size = (uint32_t)bytes_get(&from, 4);
  if (size != (uint32_t)handshake->claim.size || rank >= size) return RING_HANDSHAKE_OUTSIDER;
  if (!handshake_proof_is_right(handshake, TURN_CLAIM, (int)rank))
    return handshake_unproven(handshake);
  handshake->claim.rank = handshake->peer_rank = (int)rank;
  handshake->claim.epoch = bytes_get(&from, 8);
  handshake->claim.connection = (int)bytes_get(&from, 1);
  handshake->claim.connections = (int)bytes_get(&from, 1);
  return handshake_connection_exists(&handshake->claim) ? RING_HANDSHAKE_CLAIMED
                                                        : RING_HANDSHAKE_OUTSIDER;
}

static ring_handshake_state handshake_read_answer(ring_handshake *handshake, const uint8_t *from) {
  if (!handshake_proof_is_right(handshake, TURN_ANSWER, handshake->peer_rank))
    return handshake_unproven(handshake);
  handshake->answer = (ring_answer)bytes_get(&from, 4);
  uint32_t rank = (uint32_t)bytes_get(&from, 4);
  if (rank != (uint32_t)handshake->peer_rank) return RING_HANDSHAKE_OUTSIDER;
  /* The proof covers both HELLOs, so both sides have compared the same two wishes. */
  bool welcome = handshake->answer == RING_ANSWER_ACCEPTED;
  if (handshake->unlike ? welcome : handshake->answer == RING_ANSWER_UNLIKE)
    return RING_HANDSHAKE_OUTSIDER;
  return welcome ? RING_HANDSHAKE_DONE : RING_HANDSHAKE_REFUSED;
}

/* The state after a complete message. */
static ring_handshake_state handshake_finish_turn(ring_handshake *handshake) {
  const uint8_t *message = handshake_message(handshake, handshake->turn);
  bool wrote = handshake_writes(handshake);
  int turn = handshake->turn++;
  handshake->moved = 0;
  if (wrote && turn != TURN_ANSWER)
    return handshake->unfit != 0 ? handshake->unfit : RING_HANDSHAKE_READING;
  if (wrote)
    return handshake->answer == RING_ANSWER_ACCEPTED ? RING_HANDSHAKE_DONE : RING_HANDSHAKE_REFUSED;
  if (turn == TURN_CLAIM) return handshake_read_claim(handshake, message);
  if (turn == TURN_ANSWER) return handshake_read_answer(handshake, message);
  return handshake_read_hello(handshake, message);
}

/* Moves bytes of the current message. True when it is complete. */
static bool handshake_move(ring_handshake *handshake) {
  uint8_t *message = handshake_message(handshake, handshake->turn) + handshake->moved;
  size_t left = handshake_lengths[handshake->turn] - handshake->moved;
  ssize_t moved = handshake_writes(handshake) ? send(handshake->fd, message, left, MSG_NOSIGNAL)
                                              : recv(handshake->fd, message, left, 0);
  if (moved > 0) {
    handshake->moved += (size_t)moved;
    return (size_t)moved == left;
  }
  bool again = moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ||
                             (errno == ENOTCONN && !handshake->accepting));
  if (again) return false;
  handshake->system_errno = moved < 0 ? errno : 0;
  handshake->state = RING_HANDSHAKE_LOST;
  return false;
}

ring_handshake_state ring_handshake_advance(ring_handshake *handshake) {
  while (handshake->state == RING_HANDSHAKE_READING || handshake->state == RING_HANDSHAKE_WRITING) {
    bool writes = handshake_writes(handshake);
    handshake->state = writes ? RING_HANDSHAKE_WRITING : RING_HANDSHAKE_READING;
    if (writes && handshake->moved == 0 && !handshake_compose(handshake)) {
      handshake->system_errno = ENOMEM;
      handshake->state = RING_HANDSHAKE_LOST;
      break;
    }
    if (!handshake_move(handshake)) break;
    handshake->state = handshake_finish_turn(handshake);
  }
  return handshake->state;
}

void ring_handshake_answer(ring_handshake *handshake, ring_answer answer) {
  bool unlike = handshake->unlike && answer == RING_ANSWER_ACCEPTED;
  handshake->answer = unlike ? RING_ANSWER_UNLIKE : answer;
  handshake->state = RING_HANDSHAKE_WRITING;
}

const char *ring_answer_text(ring_answer answer) {
  switch (answer) {
  case RING_ANSWER_STALE:
    return "this process belongs to an earlier attempt of the job";
  case RING_ANSWER_TWICE:
    return "another process with this rank is connected already";
  case RING_ANSWER_CONNECTIONS:
    return "the connections of a link came out of order, or are more than it can serve";
  default: /* not sent for a link, or reported elsewhere */
    return "its reason makes no sense";
  }
}

bool ring_handshake_derive(const ring_handshake *handshake, ring_secret *key) {
  static const char label[] = "sparkring link 1";
  uint8_t input[sizeof label + sizeof handshake->transcript];
  const ring_secret *pair = ring_keys_pair(handshake->keys, handshake->peer_rank);
  memcpy(input, label, sizeof label);
  memcpy(input + sizeof label, handshake->transcript, sizeof handshake->transcript);
  return pair != NULL && ring_secret_mac(pair, input, sizeof input, key);
}
