/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/seal.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/bytes.h"

enum { SEAL_NONCE_BYTES = 12 };

bool ring_seal_begin(ring_seal *seal, const ring_handshake *handshake) {
  ring_secret key;
  *seal = (ring_seal){.sent = 0};
  bool made = ring_handshake_derive(handshake, &key);
  bool connects = !handshake->accepting;
  made = made &&
         ring_secret_mac(&key, "dialer", 6, connects ? &seal->send_key : &seal->receive_key) &&
         ring_secret_mac(&key, "accepter", 8, connects ? &seal->receive_key : &seal->send_key);
  ring_secret_wipe(&key, sizeof key);
  return made;
}

/* A context with the key, the nonce (the number of the message, unique under the key) and the
 * head. */
static EVP_CIPHER_CTX *seal_context(const ring_secret *key, uint64_t number, bool closing,
                                    const void *head, size_t head_length) {
  uint8_t nonce[SEAL_NONCE_BYTES] = {0};
  int moved;
  EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
  bytes_put(nonce, number, 8);
  if (context != NULL && head_length <= INT_MAX &&
      EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key->bytes, nonce, closing) == 1 &&
      EVP_CipherUpdate(context, NULL, &moved, head, (int)head_length) == 1)
    return context;
  EVP_CIPHER_CTX_free(context);
  return NULL;
}

bool ring_seal_close(ring_seal *seal, const void *head, size_t head_length, void *message,
                     size_t length) {
  EVP_CIPHER_CTX *context = seal_context(&seal->send_key, seal->sent, true, head, head_length);
  uint8_t *at = message;
  int moved;
  bool sealed = context != NULL && length <= INT_MAX &&
                EVP_CipherUpdate(context, at, &moved, at, (int)length) == 1 &&
                EVP_CipherFinal_ex(context, at + length, &moved) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, RING_SEAL_BYTES, at + length);
  EVP_CIPHER_CTX_free(context);
  seal->sent += sealed ? 1 : 0;
  return sealed;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION

ring_status ring_seal_open(ring_seal *seal, const void *head, size_t head_length, void *message,
                           size_t length) {
  (void)seal, (void)head, (void)head_length, (void)message, (void)length;
  return RING_OK;
}

#else

/* Decrypts a message and verifies its tag. A step before the tag can fail without memory only. */
static ring_status seal_read(EVP_CIPHER_CTX *context, uint8_t *at, size_t length) {
  int moved;
  bool ready =
      context != NULL && length <= INT_MAX &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, RING_SEAL_BYTES, at + length) == 1 &&
      EVP_CipherUpdate(context, at, &moved, at, (int)length) == 1;
  if (!ready) return RING_NO_MEMORY;
  return EVP_CipherFinal_ex(context, at + length, &moved) == 1 ? RING_OK : RING_AUTH;
}

ring_status ring_seal_open(ring_seal *seal, const void *head, size_t head_length, void *message,
                           size_t length) {
  EVP_CIPHER_CTX *context =
      seal_context(&seal->receive_key, seal->received++, false, head, head_length);
  ring_status status = seal_read(context, message, length);
  EVP_CIPHER_CTX_free(context);
  ERR_clear_error();
  return status;
}

#endif

void ring_seal_wipe(ring_seal *seal) {
  ring_secret_wipe(seal, sizeof *seal);
}
