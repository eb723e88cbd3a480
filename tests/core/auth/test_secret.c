/* SPDX-License-Identifier: Apache-2.0
 *
 * The cryptography below everything else: results equal the standards' test vectors, comparisons are
 * OpenSSL's constant-time ones (the linker sends them through here), keys differ wherever any fact
 * differs, and an opened message is the one that was sent, or none.
 */
#include "auth/seal.h"
#include "check.h"

static void from_hex(const char *text, uint8_t *to, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned byte;
    CHECK_INT(sscanf(text + 2 * i, "%2x", &byte), 1);
    to[i] = (uint8_t)byte;
  }
}

static ring_secret secret_of(const char *text) {
  ring_secret made = {0};
  from_hex(text, made.bytes, sizeof made.bytes);
  return made;
}

static bool is(const ring_secret *secret, const char *text) {
  ring_secret expected = secret_of(text);
  return memcmp(secret->bytes, expected.bytes, sizeof expected.bytes) == 0;
}

/* ---- Standards ---------------------------------------------------------------------------- */

/* RFC 7748, 6.1. */
static void test_x25519(void) {
  ring_secret alice = secret_of("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  ring_secret bob = secret_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  ring_secret public = {0}, shared = {0};
  CHECK(ring_secret_public(&alice, public.bytes));
  CHECK(is(&public, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  CHECK(ring_secret_agree(&bob, public.bytes, &shared));
  CHECK(is(&shared, "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
  memset(&public, 0, sizeof public); /* what makes the same of every private key */
  CHECK(!ring_secret_agree(&bob, public.bytes, &shared));
}

/* RFC 4231, 4.3: zeros behind a short key make no difference. */
static void test_hmac(void) {
  static const char message[] = "what do ya want for nothing?";
  ring_secret key = {.bytes = "Jefe"}, mac;
  CHECK(ring_secret_mac(&key, message, strlen(message), &mac));
  CHECK(is(&mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
}

/* The GCM specification, test case 14. */
static void test_gcm(void) {
  ring_seal seal = {.sent = 0};
  uint8_t message[16 + RING_SEAL_BYTES] = {0}, expected[16 + RING_SEAL_BYTES];
  from_hex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919", expected, 32);
  CHECK(ring_seal_close(&seal, NULL, 0, message, 16));
  CHECK(memcmp(message, expected, sizeof expected) == 0);
}

/* ---- Comparisons -------------------------------------------------------------------------- */

static size_t compared;

int __real_CRYPTO_memcmp(const void *one, const void *other, size_t length);
int __wrap_CRYPTO_memcmp(const void *one, const void *other, size_t length);
int __wrap_CRYPTO_memcmp(const void *one, const void *other, size_t length) {
  compared += length;
  return __real_CRYPTO_memcmp(one, other, length);
}

static void test_comparisons_look_at_every_byte(void) {
  uint8_t one[RING_SECRET_BYTES] = {0}, other[RING_SECRET_BYTES] = {0};
  for (size_t at = 0; at <= sizeof one; at++) {
    compared = 0;
    memset(other, 0, sizeof other);
    if (at < sizeof other) other[at] = 1;
    CHECK_INT(ring_secret_equal(one, other, sizeof one), at == sizeof one);
    CHECK_INT(compared, sizeof one);
  }
}

/* ---- Keys --------------------------------------------------------------------------------- */

static void give(ring_keys keys[3]) {
  uint8_t publics[3][RING_PUBLIC_BYTES];
  for (int rank = 0; rank < 3; rank++) {
    CHECK(ring_keys_init(&keys[rank], rank, 3) && ring_keys_generate(&keys[rank], publics[rank]));
    CHECK(ring_secret_begin(&keys[rank].vault->job, "job", 3));
  }
  for (int rank = 0; rank < 3; rank++)
    for (int other = 0; other < 3; other++)
      ring_keys_set_public(&keys[rank], other, publics[other]);
}

static bool have_the_same(const ring_keys *one, const ring_keys *other) {
  const ring_secret *a = ring_keys_pair(one, other->rank), *b = ring_keys_pair(other, one->rank);
  CHECK(a != NULL && b != NULL);
  return memcmp(a, b, sizeof *a) == 0;
}

static void test_pairs(void) {
  ring_keys keys[3], child[2];
  const int members[] = {2, 0};
  give(keys);
  for (int rank = 0; rank < 3; rank++)
    for (int other = 0; other < rank; other++) CHECK(have_the_same(&keys[rank], &keys[other]));
  CHECK(memcmp(ring_keys_pair(&keys[0], 1), ring_keys_pair(&keys[0], 2), 32) != 0);
  CHECK(ring_keys_pair(&keys[0], 0) == NULL && ring_keys_pair(&keys[0], 3) == NULL);
  for (int rank = 0; rank < 2; rank++) {
    CHECK(ring_keys_init(&child[rank], rank, 2));
    CHECK(ring_keys_split(&child[rank], &keys[members[rank]], members, "facts", 5));
  }
  CHECK(have_the_same(&child[0], &child[1]));
  CHECK(memcmp(ring_keys_pair(&child[0], 1), ring_keys_pair(&keys[2], 0), 32) != 0);
  ring_secret_begin(&keys[1].vault->job, "another job", 11);
  keys[1].pairs[0].known = false;
  CHECK(!have_the_same(&keys[0], &keys[1]));
  for (int rank = 0; rank < 3; rank++) ring_keys_wipe(&keys[rank]);
  for (int rank = 0; rank < 2; rank++) ring_keys_wipe(&child[rank]);
  CHECK(ring_keys_pair(&keys[0], 1) == NULL);
}

/* ---- Seals -------------------------------------------------------------------------------- */

enum { HEAD = 4, TEXT = 20, WHOLE = TEXT + RING_SEAL_BYTES };

static ring_seal make_seal(char sends, char receives) {
  ring_seal seal = {.sent = 0};
  memset(&seal.send_key, sends, sizeof seal.send_key);
  memset(&seal.receive_key, receives, sizeof seal.receive_key);
  return seal;
}

static void send_text(ring_seal *seal, const char *head, uint8_t message[WHOLE]) {
  memset(message, 'x', TEXT);
  CHECK(ring_seal_close(seal, head, HEAD, message, TEXT));
  CHECK(memchr(message, 'x', TEXT) == NULL || memcmp(message, "xxxx", 4) != 0);
}

static void test_a_sealed_message_arrives(void) {
  ring_seal here = make_seal('a', 'b'), there = make_seal('b', 'a');
  uint8_t message[WHOLE];
  for (int i = 0; i < 3; i++) {
    send_text(&here, "head", message);
    CHECK_INT(ring_seal_open(&there, "head", HEAD, message, TEXT), RING_OK);
    CHECK(memcmp(message, "xxxxxxxxxxxxxxxxxxxx", TEXT) == 0);
  }
}

static void test_every_bit_is_sealed(void) {
  for (size_t bit = 0; bit < 8 * (HEAD + WHOLE); bit++) {
    ring_seal here = make_seal('a', 'b'), there = make_seal('b', 'a');
    uint8_t message[HEAD + WHOLE] = "head";
    send_text(&here, "head", message + HEAD);
    message[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK_INT(ring_seal_open(&there, message, HEAD, message + HEAD, TEXT), RING_AUTH);
  }
}

/* Repeated, swapped, left out, sent back, or of another connection. */
static void test_no_other_message_fits(void) {
  ring_seal here = make_seal('a', 'b'), there = make_seal('b', 'a'), other = make_seal('b', 'c');
  uint8_t first[WHOLE], second[WHOLE], again[WHOLE];
  send_text(&here, "head", first);
  send_text(&here, "head", second);
  memcpy(again, first, WHOLE);
  ring_seal early = there, back = here, elsewhere = other;
  CHECK_INT(ring_seal_open(&early, "head", HEAD, second, TEXT), RING_AUTH);
  CHECK_INT(ring_seal_open(&back, "head", HEAD, again, TEXT), RING_AUTH);
  memcpy(again, first, WHOLE);
  CHECK_INT(ring_seal_open(&elsewhere, "head", HEAD, again, TEXT), RING_AUTH);
  memcpy(again, first, WHOLE);
  CHECK_INT(ring_seal_open(&there, "head", HEAD, first, TEXT), RING_OK);
  CHECK_INT(ring_seal_open(&there, "head", HEAD, again, TEXT), RING_AUTH);
}

int main(void) {
  RUN(test_x25519);
  RUN(test_hmac);
  RUN(test_gcm);
  RUN(test_comparisons_look_at_every_byte);
  RUN(test_pairs);
  RUN(test_a_sealed_message_arrives);
  RUN(test_every_bit_is_sealed);
  RUN(test_no_other_message_fits);
  return 0;
}
