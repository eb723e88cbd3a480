/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds of a rendezvous: joining, the root, exchanges, handshakes, splits.
 */
#include <string.h>

#include "auth/handshake.h"
#include "base/address.h"
#include "base/bytes.h"
#include "rendezvous/message.h"
#include "seeds.h"

static void add_note(seed *to, ring_status status, const void *body, size_t length) {
  seed_add_number(to, RING_MESSAGE_HEAD_BYTES + length + RING_SEAL_BYTES,
                  RING_MESSAGE_LENGTH_BYTES);
  seed_add_number(to, (uint64_t)status, 1);
  seed_add_number(to, UINT32_MAX, 4); /* no rank is at fault */
  seed_add(to, body, length);
  to->length += RING_SEAL_BYTES; /* which fuzzers do not look at, as the HMAC of a table */
}

static void add_welcome(seed *to) {
  uint8_t body[64], *end = bytes_put(body, 7, 8);
  end = ring_address_pack(bytes_put(end, 4242, 2), "host-a");
  add_note(to, RING_OK, body, (size_t)(end - body));
}

/* Places of `size` ranks on two hosts, without the length. */
static void add_table(seed *to, int size) {
  seed_add_number(to, 2, 4);
  to->length = (size_t)(ring_address_pack(to->bytes + to->length, "host-a") - to->bytes);
  to->length = (size_t)(ring_address_pack(to->bytes + to->length, "host-b") - to->bytes);
  for (int rank = 0; rank < size; rank++) {
    seed_add_number(to, (uint64_t)rank % 2, 1);
    seed_add_number(to, (uint64_t)rank + 1000, 2);
  }
}

static void save_joining(void) {
  seed made = {.length = 0}, root = {.length = 0}, result = {.length = 0}, table = {.length = 0};
  add_welcome(&root);
  add_note(&result, RING_OK, "", 0);
  add_table(&table, 4);
  seed_add_byte(&made, 2); /* size 4 */
  seed_add_byte(&made, 1); /* rank 2 */
  seed_add_piece(&made, &root);
  seed_add_piece(&made, &result);
  seed_add_piece(&made, &table);
  seed_add_number(&made, table.length + RING_SECRET_BYTES, 4);
  seed_add(&made, table.bytes, table.length);
  made.length += RING_SECRET_BYTES;
  seed_save("fuzz_join", "joined", made.bytes, made.length);
  made.length = root.length = 0;
  add_note(&root, RING_TIMEOUT, "missing", 7);
  seed_add_number(&made, 0, 2);
  seed_add_piece(&made, &root);
  seed_save("fuzz_join", "sent-away", made.bytes, made.length);
}

static void save_root(void) {
  seed made = {.length = 0}, join = {.length = 0}, report = {.length = 0}, none = {.length = 0};
  seed_add_number(&join, 4000, 2);
  seed_add_number(&join, 60000, 4);
  join.length += RING_SEAL_BYTES;
  add_note(&report, RING_OK, "", 0);
  seed_add_byte(&made, 0x81); /* size 3, with hosts */
  for (unsigned rank = 1; rank < 3; rank++) {
    seed_add_byte(&made, rank);
    seed_add_piece(&made, &join);
    seed_add_piece(&made, &report);
  }
  seed_add_byte(&made, 0x81); /* and rank 1 opens its link */
  seed_add_piece(&made, &none);
  seed_add_piece(&made, &none);
  seed_save("fuzz_root", "joined", made.bytes, made.length);
  made.bytes[1] |= 0x40; /* rank 1 wants encryption */
  seed_save("fuzz_root", "unlike", made.bytes, made.length);
}

static void save_exchange(void) {
  static const char *const texts[] = {
      "sparkring/3 4000 0 "
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef 0123456789abcdef",
      "sparkring/3 4001 0 "
      "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"};
  seed made = {.length = 0};
  seed_add_number(&made, 0x0100, 2); /* size 2, rank 1 */
  for (unsigned rank = 0; rank < 2; rank++) {
    seed_add_byte(&made, rank);
    seed_add_byte(&made, (unsigned)strlen(texts[rank]));
    seed_add(&made, texts[rank], strlen(texts[rank]));
  }
  seed_save("fuzz_exchange", "both", made.bytes, made.length);
}

/* A connecting side with the key, and an accepting side with it: the target makes the proofs right. */
static void save_handshakes(void) {
  seed made = {.length = 0};
  seed_add_byte(&made, 3);
  seed_add_byte(&made, 0x80);
  seed_add(&made, "sparkrng", 8);
  seed_add_number(&made, RING_WIRE_VERSION, 2);
  seed_add_number(&made, RING_PURPOSE_LINK, 1);
  seed_add_number(&made, 1, 1); /* encrypted */
  made.length += 32;
  seed_add_number(&made, 5, 4);      /* rank */
  seed_add_number(&made, 8, 4);      /* size */
  seed_add_number(&made, 7, 8);      /* epoch */
  seed_add_number(&made, 0x0100, 2); /* connection 0 of 1 */
  made.length += RING_SECRET_BYTES;
  seed_save("fuzz_handshake", "connector", made.bytes, made.length);
  made.bytes[1] = 0; /* who does not want that */
  seed_save("fuzz_handshake", "unlike", made.bytes, made.length);
  made.bytes[0] = 2;
  made.bytes[1] = 0x83;
  made.length = 2 + RING_HELLO_BYTES;
  seed_add_number(&made, RING_ANSWER_ACCEPTED, 4);
  seed_add_number(&made, 3, 4);
  made.length += RING_SECRET_BYTES;
  seed_save("fuzz_handshake", "acceptor", made.bytes, made.length);
  made.bytes[2 + 11] ^= 1; /* encrypted */
  made.bytes[2 + RING_HELLO_BYTES] = RING_ANSWER_UNLIKE;
  seed_save("fuzz_handshake", "refused", made.bytes, made.length);
}

/* Colors, keys and ports of the other ranks: a child of this rank alone, of all ranks, a rank that cannot listen. */
static void save_splits(void) {
  static const char *const names[] = {"alone", "all", "deaf"};
  for (unsigned which = 0; which < 3; which++) {
    seed made = {.length = 0};
    seed_add_byte(&made, which);
    seed_add_byte(&made, 1); /* color 0 */
    seed_add_byte(&made, 5);
    for (unsigned other = 0; other < 2; other++) {
      seed_add_number(&made, which == 0, 4);
      seed_add_number(&made, 7 - other, 4);
      seed_add_number(&made, 25000 + other, 2);
      seed_add_byte(&made, which == 2 && other == 1);
    }
    seed_save("fuzz_split", names[which], made.bytes, made.length);
  }
}

void seeds_rendezvous(void) {
  save_joining();
  save_root();
  save_exchange();
  save_handshakes();
  save_splits();
}
