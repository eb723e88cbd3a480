/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "platform.h"

bool ring_secret_random(void *bytes, size_t length) {
  return length <= INT_MAX && RAND_bytes(bytes, (int)length) == 1;
}

static bool secret_hmac(const void *key, size_t key_length, const void *data, size_t length,
                        ring_secret *mac) {
  unsigned written = 0;
  return key_length <= INT_MAX &&
         HMAC(EVP_sha256(), key, (int)key_length, data, length, mac->bytes, &written) != NULL &&
         written == RING_SECRET_BYTES;
}

bool ring_secret_mac(const ring_secret *key, const void *data, size_t length, ring_secret *mac) {
  return secret_hmac(key->bytes, RING_SECRET_BYTES, data, length, mac);
}

bool ring_secret_bind(ring_secret *key, const void *data, size_t length) {
  ring_secret bound;
  if (!ring_secret_mac(key, data, length, &bound)) return false;
  *key = bound;
  ring_secret_wipe(&bound, sizeof bound);
  return true;
}

bool ring_secret_begin(ring_secret *key, const void *token, size_t length) {
  static const char label[] = "sparkring job key 1";
  return secret_hmac(length > 0 ? token : "", length, label, sizeof label, key);
}

bool ring_secret_equal(const void *one, const void *other, size_t length) {
  return CRYPTO_memcmp(one, other, length) == 0;
}

void ring_secret_wipe(void *bytes, size_t length) {
  OPENSSL_cleanse(bytes, length);
}

void *ring_secret_alloc(size_t bytes) {
  return ring_platform_pages(bytes);
}

void ring_secret_free(void *memory, size_t bytes) {
  if (memory == NULL) return;
  ring_secret_wipe(memory, bytes);
  ring_platform_pages_free(memory, bytes);
}
