/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

#define DIGEST_PIECE (1 << 16)
#define DIGEST_BYTES 32

static bool digest_read(EVP_MD_CTX *context, FILE *file, uint8_t *digest) {
  static uint8_t piece[DIGEST_PIECE];
  size_t got = sizeof piece;
  bool fine = EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
  while (fine && got == sizeof piece) {
    got = fread(piece, 1, sizeof piece, file);
    fine = !ferror(file) && EVP_DigestUpdate(context, piece, got) == 1;
  }
  return fine && EVP_DigestFinal_ex(context, digest, NULL) == 1;
}

SEXP digest_file(SEXP path) {
  const char *name = Rf_translateChar(STRING_ELT(path, 0));
  SEXP digest = PROTECT(Rf_allocVector(RAWSXP, DIGEST_BYTES));
  FILE *file = fopen(name, "rb");
  EVP_MD_CTX *context = file == NULL ? NULL : EVP_MD_CTX_new();
  bool fine = context != NULL && digest_read(context, file, RAW(digest));
  int code = errno;
  EVP_MD_CTX_free(context);
  if (file != NULL) fclose(file);
  UNPROTECT(1);
  if (fine) return digest;
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = code};
  snprintf(error.message, sizeof error.message, "%s cannot be read: %s", name, strerror(code));
  error_raise(RING_SYSTEM, &error);
}
