/* SPDX-License-Identifier: Apache-2.0
 *
 * Both sides of the handshake. The input chooses the side, whether the peer has the key (then the
 * proofs in its bytes are made right, so that the code after them is reached), and the bytes
 * that the peer sends. A peer without the key is never accepted.
 */
#include "base/bytes.h"
#include "transport/socket.h"
#include "world.h"

enum { SIDE_ACCEPTS = 1, PEER_KNOWS = 2 }; /* of the first byte */
enum { SIDE_ENCRYPTS = 0x80 };             /* of the second */
enum { AT_VERSION = 8, AT_ENCRYPTED = 11, TRANSCRIPT = RING_HELLO_BYTES + RING_HELLO_BYTES };

typedef struct case_of {
  bool accepts, knows, encrypts;
  int rank, size;
  ring_vault vault;
  ring_keys keys;
  uint8_t sends[RING_HELLO_BYTES + RING_CLAIM_BYTES];
  size_t length;
} case_of;

/* The first bytes of this side: its random numbers are not random here. */
static void put_own_hello(const case_of *of, ring_purpose purpose, uint8_t *to) {
  memcpy(to, "sparkrng", 8);
  to = bytes_put(to + 8, RING_WIRE_VERSION, 2);
  to = bytes_put(to, purpose, 1);
  to = bytes_put(to, of->encrypts, 1);
  memset(to, 0x11, 32);
}

static void prove(const case_of *of, const char *who, const uint8_t *transcript, size_t length,
                  uint8_t *to) {
  uint8_t message[16 + TRANSCRIPT + RING_CLAIM_BYTES + RING_ANSWER_BYTES] = {0};
  ring_secret proof;
  strcpy((char *)message, who);
  memcpy(message + 16, transcript, length);
  FUZZ_PROMISE(ring_secret_mac(&of->vault.job, message, 16 + length, &proof));
  memcpy(to, proof.bytes, RING_SECRET_BYTES);
}

/* The peer connects to: HELLO, then CLAIM, whose proof is over both hellos and what it claims. */
static void prove_claim(case_of *of) {
  uint8_t transcript[TRANSCRIPT + RING_CLAIM_BYTES];
  if (of->length < sizeof of->sends) return;
  memcpy(transcript, of->sends, RING_HELLO_BYTES);
  put_own_hello(of, 0, transcript + RING_HELLO_BYTES);
  memcpy(transcript + TRANSCRIPT, of->sends + RING_HELLO_BYTES, RING_CLAIM_BYTES);
  size_t before = RING_CLAIM_BYTES - RING_SECRET_BYTES;
  prove(of, "connector", transcript, TRANSCRIPT + before, of->sends + RING_HELLO_BYTES + before);
}

/* The peer accepts: HELLO, then ANSWER, whose proof is over this side's claim, too. */
static void prove_answer(case_of *of, const ring_claim *claim) {
  uint8_t transcript[TRANSCRIPT + RING_CLAIM_BYTES + RING_ANSWER_BYTES], *to = transcript;
  size_t before = RING_ANSWER_BYTES - RING_SECRET_BYTES;
  if (of->length < RING_HELLO_BYTES + RING_ANSWER_BYTES) return;
  put_own_hello(of, claim->purpose, to);
  memcpy(to + RING_HELLO_BYTES, of->sends, RING_HELLO_BYTES);
  to = bytes_put(transcript + TRANSCRIPT, (uint32_t)claim->rank, 4);
  to = bytes_put(to, (uint32_t)claim->size, 4);
  to = bytes_put(to, claim->epoch, 8);
  to = bytes_put(to, (uint32_t)claim->connection, 1);
  to = bytes_put(to, (uint32_t)claim->connections, 1);
  prove(of, "connector", transcript, (size_t)(to - transcript), to);
  memcpy(to + RING_SECRET_BYTES, of->sends + RING_HELLO_BYTES, before);
  prove(of, "acceptor", transcript, TRANSCRIPT + RING_CLAIM_BYTES + before,
        of->sends + RING_HELLO_BYTES + before);
}

static void shake(const case_of *of, ring_handshake *handshake) {
  if (ring_handshake_advance(handshake) == RING_HANDSHAKE_CLAIMED) {
    FUZZ_PROMISE(of->knows && handshake->claim.rank >= 0 && handshake->claim.rank < of->size);
    ring_handshake_answer(handshake, (ring_answer)(of->rank % (RING_ANSWER_UNLIKE + 1)));
    ring_handshake_advance(handshake);
  }
}

static ring_claim claim_of(const case_of *of, ring_purpose purpose) {
  return (ring_claim){.purpose = purpose,
                      .rank = of->rank,
                      .size = of->size,
                      .epoch = 7,
                      .connections = purpose == RING_PURPOSE_LINK ? 2 : 0,
                      .encrypted = of->encrypts};
}

/* Only who has the key and wants the same is welcome; that it wants another thing is believed of nobody
 * else. */
static void check_end(const case_of *of, const ring_handshake *handshake) {
  bool like = (of->sends[AT_ENCRYPTED] != 0) == of->encrypts;
  const uint8_t *version = of->sends + AT_VERSION;
  bool current = bytes_get(&version, 2) == RING_WIRE_VERSION;
  ring_secret key;
  FUZZ_PROMISE(handshake->turn <= 4 && ring_answer_text(handshake->answer) != NULL);
  switch (handshake->state) {
  case RING_HANDSHAKE_DONE:
    FUZZ_PROMISE(of->knows && like && current && ring_handshake_derive(handshake, &key));
    return;
  case RING_HANDSHAKE_REFUSED:
    FUZZ_PROMISE(of->knows && current && handshake->turn == 4);
    FUZZ_PROMISE(of->accepts || !like || handshake->answer != RING_ANSWER_UNLIKE);
    return;
  case RING_HANDSHAKE_VERSION:
    FUZZ_PROMISE(!current && handshake->turn == 2);
    return;
  default:
    return;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  unsigned flags = input_byte(&from), second = input_byte(&from);
  case_of of = {.accepts = flags & SIDE_ACCEPTS,
                .knows = flags & PEER_KNOWS,
                .encrypts = second & SIDE_ENCRYPTS,
                .rank = (int)second % 8,
                .size = 8};
  ring_claim claim = claim_of(&of, (ring_purpose)(1 + flags / 4 % 3));
  ring_handshake handshake;
  world_shakes_hands(true);
  memset(&of.vault, 0x22, sizeof of.vault);
  of.keys = (ring_keys){.rank = of.rank, .size = of.size, .vault = &of.vault};
  input sends = input_cut(&from, sizeof of.sends);
  memcpy(of.sends, sends.at, of.length = sends.left);
  if (of.knows && of.accepts) prove_claim(&of);
  if (of.knows && !of.accepts) prove_answer(&of, &claim);
  int fd = world_connection((input){of.sends, of.length}, (input){0});
  bool begun = of.accepts
                   ? ring_handshake_accept(&handshake, fd, &of.keys, of.rank, of.size, of.encrypts)
                   : ring_handshake_connect(&handshake, fd, &of.keys, &claim, 3);
  FUZZ_PROMISE(begun);
  shake(&of, &handshake);
  check_end(&of, &handshake);
  ring_socket_close(&fd);
  world_end();
  return 0;
}
