/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/secret.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/platform.h"

/* Forks of OpenSSL begin this text with a name of their own. */
bool ring_secret_has_openssl(const char **found) {
  *found = OpenSSL_version(OPENSSL_VERSION);
  return strncmp(*found, OPENSSL_VERSION_TEXT, 4) == 0;
}

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

static EVP_PKEY *secret_private(const ring_secret *own) {
  return EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, own->bytes, sizeof own->bytes);
}

bool ring_secret_public(const ring_secret *own, uint8_t public[RING_PUBLIC_BYTES]) {
  size_t length = RING_PUBLIC_BYTES;
  EVP_PKEY *key = secret_private(own);
  bool got = key != NULL && EVP_PKEY_get_raw_public_key(key, public, &length) == 1;
  EVP_PKEY_free(key);
  ERR_clear_error();
  return got && length == RING_PUBLIC_BYTES;
}

bool ring_secret_agree(const ring_secret *own, const uint8_t public[RING_PUBLIC_BYTES],
                       ring_secret *shared) {
  size_t length = sizeof shared->bytes;
  EVP_PKEY *key = secret_private(own);
  EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, public, RING_PUBLIC_BYTES);
  EVP_PKEY_CTX *context = key != NULL ? EVP_PKEY_CTX_new(key, NULL) : NULL;
  bool agreed = context != NULL && peer != NULL && EVP_PKEY_derive_init(context) == 1 &&
                EVP_PKEY_derive_set_peer(context, peer) == 1 &&
                EVP_PKEY_derive(context, shared->bytes, &length) == 1;
  EVP_PKEY_CTX_free(context);
  EVP_PKEY_free(peer);
  EVP_PKEY_free(key);
  ERR_clear_error();
  return agreed && length == sizeof shared->bytes;
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
