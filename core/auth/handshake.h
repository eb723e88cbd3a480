/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake that begins every connection: a mutual challenge and response with the key that the
 * two ranks share (keys.h; HMAC-SHA256). The connecting side proves itself first. So an outsider
 * that connects learns only the fields of HELLO; an outsider that is connected to learns a rank,
 * too. Each proof covers all bytes before it, so the messages of another connection cannot be
 * replayed.
 *
 *   connector → HELLO    magic, wire version, purpose, encrypted, nonce             44 bytes
 *             ← HELLO    magic, wire version, purpose, encrypted, nonce             44
 *             → CLAIM    rank, size, epoch, connection, connections,
 *                        HMAC(key, "connector", all before)                         50
 *             ← ANSWER   answer, rank, HMAC(key, "acceptor", all before)           40
 *
 * Both sides must want encryption, or neither. An encrypted connection uses a key derived from the
 * key of the two ranks and from all bytes above (ring_handshake_derive). If the HELLOs disagree, the
 * handshake goes on and the ANSWER reports it, because a HELLO proves nothing: an outsider may have
 * sent or changed it.
 *
 * A handshake owns no memory, and borrows its descriptor and the keys. It never blocks:
 * ring_handshake_advance moves the bytes that can be moved, and its state shows what to wait for.
 */
#ifndef RING_AUTH_HANDSHAKE_H
#define RING_AUTH_HANDSHAKE_H

#include "auth/keys.h"
#include "sparkring.h"

#define RING_WIRE_VERSION 6

#define RING_CONNECTIONS_MAX 16 /* of one link */

typedef enum ring_purpose {
  RING_PURPOSE_RENDEZVOUS = 1, /* a client connects to rank 0 */
  RING_PURPOSE_LINK = 2,       /* a link between two ranks of a formed job */
  RING_PURPOSE_SHM = 3         /* a rank receives the shared memory of its host */
} ring_purpose;

/* The claim of the connecting side: its rank, and the number of the connection in its link. epoch
 * is 0 while it is not known. connection and connections are 0 except for links. */
typedef struct ring_claim {
  ring_purpose purpose;
  int rank, size;
  uint64_t epoch;
  int connection, connections; /* connection of connections, 0 to connections - 1 */
  bool encrypted;              /* the wish of the connecting side */
} ring_claim;

typedef enum ring_answer {
  RING_ANSWER_ACCEPTED = 0,
  RING_ANSWER_FORMED = 1,      /* the job has formed already */
  RING_ANSWER_STALE = 2,       /* another epoch */
  RING_ANSWER_TWICE = 3,       /* the rank has a link already, or needs none */
  RING_ANSWER_CONNECTIONS = 4, /* connections out of order, or too many for the accepting system */
  RING_ANSWER_UNLIKE = 5       /* only one of the two sides wants encryption */
} ring_answer;

typedef enum ring_handshake_state {
  RING_HANDSHAKE_READING,
  RING_HANDSHAKE_WRITING,
  RING_HANDSHAKE_CLAIMED,  /* accepting side: the proof is right; call ring_handshake_answer */
  RING_HANDSHAKE_DONE,     /* both have proved themselves and the answer is ACCEPTED */
  RING_HANDSHAKE_REFUSED,  /* both have proved themselves and the answer is not ACCEPTED */
  RING_HANDSHAKE_OUTSIDER, /* the other side has another protocol or lacks the key */
  RING_HANDSHAKE_VERSION,  /* the other side has another version of the protocol */
  RING_HANDSHAKE_LOST      /* the connection failed: see system_errno (0: closed) */
} ring_handshake_state;

enum { RING_HELLO_BYTES = 44, RING_CLAIM_BYTES = 50, RING_ANSWER_BYTES = 40 };

typedef struct ring_handshake {
  int fd;
  bool accepting;
  ring_handshake_state state;
  ring_handshake_state unfit; /* accepting side: final state after its HELLO is sent, or 0 */
  int turn;                   /* which of the four messages is under way */
  ring_claim claim;
  ring_answer answer;
  int own_rank;     /* of the accepting side, sent in the answer */
  int peer_rank;    /* connecting side: the expected rank; accepting side: the claimed rank */
  int peer_version; /* wire version of the other side */
  bool unlike;      /* the two HELLOs differ in their wish for encryption */
  int system_errno;
  size_t moved; /* bytes of the current message */
  const ring_keys *keys;
  uint8_t transcript[2 * RING_HELLO_BYTES + RING_CLAIM_BYTES + RING_ANSWER_BYTES];
} ring_handshake;

/* Begins as the connecting side, which expects rank `peer_rank`. False without random numbers. */
bool ring_handshake_connect(ring_handshake *handshake, int fd, const ring_keys *keys,
                            const ring_claim *claim, int peer_rank);

/* Begins as the accepting side, rank `rank` of `size`. False without random numbers. */
bool ring_handshake_accept(ring_handshake *handshake, int fd, const ring_keys *keys, int rank,
                           int size, bool encrypted);

ring_handshake_state ring_handshake_advance(ring_handshake *handshake);

/* After CLAIMED: sets the answer; then advance until DONE or REFUSED. ACCEPTED becomes UNLIKE when
 * the sides disagree about encryption. */
void ring_handshake_answer(ring_handshake *handshake, ring_answer answer);

/* After DONE: a key that only both ends of this connection have. */
bool ring_handshake_derive(const ring_handshake *handshake, ring_secret *key);

/* Why a link is refused: "this process belongs to an earlier attempt of the job". */
const char *ring_answer_text(ring_answer answer);

#endif
