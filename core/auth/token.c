/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/secret.h"
#include "base/address.h"
#include "base/error.h"

#define TOKEN_FILE "SPARKRING_TOKEN_FILE"

static ring_status token_no_memory(ring_error *error) {
  return ring_error_set(error, RING_NO_MEMORY, -1, 0, "no memory for the token");
}

/* The error of a file that cannot hold a token. */
static ring_status token_bad_file(ring_error *error, int code, const char *why) {
  return ring_error_set(error, RING_INVALID, -1, code, TOKEN_FILE " is %s, %s",
                        ring_quote(getenv(TOKEN_FILE)).text, why);
}

static ring_status token_check_file(int fd, ring_error *error) {
  struct stat of;
  if (fstat(fd, &of) != 0) return token_bad_file(error, errno, "which cannot be looked at");
  if (!S_ISREG(of.st_mode)) return token_bad_file(error, 0, "which is not a regular file");
  if (of.st_uid != geteuid() && of.st_uid != 0)
    return token_bad_file(error, 0,
                          "which belongs to another user: have it written by the user of this "
                          "process");
  if ((of.st_mode & (S_IWGRP | S_IRWXO)) != 0)
    return token_bad_file(error, 0,
                          "which others may read or change: chmod 600 it, and draw a new token");
  return RING_OK;
}

/* Reads until the end or `capacity`. *length: bytes read. */
static bool token_read_all(int fd, char *to, size_t capacity, size_t *length) {
  *length = 0;
  for (;;) {
    ssize_t got = read(fd, to + *length, capacity - *length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    *length += (size_t)got;
    if (got == 0 || *length == capacity) return true;
  }
}

static size_t token_without_line_end(const char *text, size_t length) {
  if (length > 0 && text[length - 1] == '\n') length--;
  if (length > 0 && text[length - 1] == '\r') length--;
  return length;
}

static ring_status token_take(int fd, char **token, size_t *length, ring_error *error) {
  char *text = ring_secret_alloc(RING_TOKEN_FILE_BYTES + 3);
  size_t got = 0;
  if (text == NULL) return token_no_memory(error);
  ring_status status = RING_OK;
  if (!token_read_all(fd, text, RING_TOKEN_FILE_BYTES + 3, &got))
    status = token_bad_file(error, errno, "which cannot be read");
  *length = token_without_line_end(text, got);
  if (status == RING_OK && *length == 0)
    status = token_bad_file(error, 0, "which is empty: write at least 16 random bytes to it");
  if (status == RING_OK && *length > RING_TOKEN_FILE_BYTES)
    status = token_bad_file(error, 0, "which has more than 4096 bytes: it is not a token");
  if (status == RING_OK) {
    *token = ring_secret_alloc(*length);
    if (*token != NULL)
      memcpy(*token, text, *length);
    else
      status = token_no_memory(error);
  }
  ring_secret_free(text, RING_TOKEN_FILE_BYTES + 3);
  return status;
}

static ring_status token_read_file(const char *path, char **token, size_t *length,
                                   ring_error *error) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) /* no name in the error: the value may be the token itself */
    return ring_error_set(error, RING_INVALID, -1, errno,
                          TOKEN_FILE " names a file that cannot be opened");
  ring_status status = token_check_file(fd, error);
  if (status == RING_OK) status = token_take(fd, token, length, error);
  close(fd);
  return status;
}

ring_status ring_token_read(char **token, size_t *length, ring_error *error) {
  const char *text = getenv("SPARKRING_TOKEN"), *path = getenv(TOKEN_FILE);
  *token = NULL;
  *length = 0;
  if (text != NULL && path != NULL)
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "SPARKRING_TOKEN and " TOKEN_FILE " are both set: unset one of them");
  if (text == NULL) return path == NULL ? RING_OK : token_read_file(path, token, length, error);
  if (*text == '\0')
    return ring_error_set(
        error, RING_INVALID, -1, 0,
        "SPARKRING_TOKEN is empty: give it at least 16 random bytes, or unset it");
  size_t bytes = strlen(text);
  *token = ring_secret_alloc(bytes);
  if (*token == NULL) return token_no_memory(error);
  memcpy(*token, text, bytes);
  *length = bytes;
  return RING_OK;
}

void ring_token_free(char *token, size_t length) {
  ring_secret_free(token, length);
}
