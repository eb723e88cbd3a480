/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake that begins every connection: a mutual challenge and response keyed by what the two
 * ranks share (keys.h; HMAC-SHA256). The connecting side proves itself first, so a stranger who connects learns
 * nothing but what HELLO has, and one who is connected to learns a rank, too. Each proof covers everything
 * said before it, so neither side can be fed another connection's answers.
 *
 *   connecting side → HELLO    magic, wire version, purpose, encrypted, nonce             44 bytes
 *          ← HELLO    magic, wire version, purpose, encrypted, nonce             44
 *          → CLAIM    rank, size, epoch, connection, connections,
 *                     HMAC(key, "connecting side", all before)                            50
 *          ← VERDICT  verdict, rank, HMAC(key, "accepting side", all before)           40
 *
 * Both sides must want the connection encrypted, or neither; what is said afterwards is then, with a
 * key that comes from the job's and from all of the above (ring_handshake_derive). Where they do not
 * agree they prove themselves all the same, and the verdict is that: a HELLO alone, which anybody may
 * have said or changed, is not believed.
 *
 * A handshake owns no memory and only borrows its descriptor and the keys. It never blocks: ring_handshake_advance
 * moves what can be moved and says what it needs next.
 */
#ifndef RING_AUTH_HANDSHAKE_H
#define RING_AUTH_HANDSHAKE_H

#include "auth/keys.h"
#include "sparkring.h"

#define RING_WIRE_VERSION 6

#define RING_CONNECTIONS_MAX 16 /* of one link */

typedef enum ring_purpose {
  RING_PURPOSE_RENDEZVOUS = 1, /* a rank looks for rank 0 */
  RING_PURPOSE_LINK = 2,       /* a link between two ranks of a formed job */
  RING_PURPOSE_SHM = 3         /* a rank fetches the memory of its host */
} ring_purpose;

/* Who the connecting side says it is, and which of the connections of its link this one is to be. epoch is 0
 * while it is not known; connection and connections are, but for links. */
typedef struct ring_claim {
  ring_purpose purpose;
  int rank, size;
  uint64_t epoch;
  int connection, connections; /* connection of connections, 0 to connections - 1 */
  bool encrypted;              /* what it wants */
} ring_claim;

typedef enum ring_verdict {
  RING_VERDICT_WELCOME = 0,
  RING_VERDICT_FORMED = 1, /* the job has met already */
  RING_VERDICT_STALE = 2,  /* another epoch */
  RING_VERDICT_TWICE = 3,  /* this rank has a link already, or is no rank of this job */
  RING_VERDICT_CONNECTIONS =
      4,                  /* its connections come out of order, or are too many for this system */
  RING_VERDICT_UNLIKE = 5 /* one of the two sides wants encryption, the other does not */
} ring_verdict;

typedef enum ring_handshake_state {
  RING_HANDSHAKE_READING,
  RING_HANDSHAKE_WRITING,
  RING_HANDSHAKE_CLAIMED,  /* accepting side: the proof is right; call ring_handshake_answer */
  RING_HANDSHAKE_DONE,     /* both have proved themselves and the verdict is WELCOME */
  RING_HANDSHAKE_REFUSED,  /* the verdict is another one */
  RING_HANDSHAKE_STRANGER, /* the other side does not speak this protocol or lacks the key */
  RING_HANDSHAKE_VERSION,  /* the other side speaks another version of it */
  RING_HANDSHAKE_LOST      /* the connection failed: see system_errno (0: closed) */
} ring_handshake_state;

enum { RING_HELLO_BYTES = 44, RING_CLAIM_BYTES = 50, RING_VERDICT_BYTES = 40 };

typedef struct ring_handshake {
  int fd;
  bool accepting;
  ring_handshake_state state;
  ring_handshake_state unfit; /* accepting side: how it will end once it has said HELLO, or 0 */
  int turn;                   /* which of the four messages is under way */
  ring_claim claim;
  ring_verdict verdict;
  int own_rank; /* accepting side's rank, told in the verdict */
  int peer_rank; /* connecting side: whom it wants to reach; accepting side: who has claimed to be there */
  int peer_version; /* what the other side speaks */
  bool unlike;      /* the two HELLOs do not want the same encryption */
  int system_errno;
  size_t moved; /* bytes of the current message */
  const ring_keys *keys;
  uint8_t transcript[2 * RING_HELLO_BYTES + RING_CLAIM_BYTES + RING_VERDICT_BYTES];
} ring_handshake;

/* Begins as the one that connected; peer_rank is the rank it expects. */
bool ring_handshake_connect(ring_handshake *handshake, int fd, const ring_keys *keys,
                            const ring_claim *claim, int peer_rank);

/* Begins as the one that accepted, as rank `rank` of `size`. */
bool ring_handshake_accept(ring_handshake *handshake, int fd, const ring_keys *keys, int rank,
                           int size, bool encrypted);

ring_handshake_state ring_handshake_advance(ring_handshake *handshake);

/* After CLAIMED: decides; then advance until DONE or REFUSED. Who wants other encryption is not
 * welcome: WELCOME becomes UNLIKE. */
void ring_handshake_answer(ring_handshake *handshake, ring_verdict verdict);

/* After DONE: a key that only both ends of this connection have. */
bool ring_handshake_derive(const ring_handshake *handshake, ring_secret *key);

/* Why a link is refused: "this process belongs to an earlier attempt of the job". */
const char *ring_verdict_text(ring_verdict verdict);

#endif
