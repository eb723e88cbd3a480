/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CONNECTION_LEAD = 0, CONNECTION_PIECE = 1 << 16 };

_Noreturn void ring_pmix_connection_fail(const char *reason) {
  fprintf(stderr, "sparkring-pmix: %s\n", reason);
  _exit(1);
}

void *ring_pmix_connection_allocate(size_t bytes) {
  void *memory = calloc(1, bytes + 1); /* of no bytes, too */
  if (memory == NULL) ring_pmix_connection_fail("out of memory");
  return memory;
}

/* Ignores the end of the lead, which the receiving thread finds. */
static void connection_write(const void *bytes, size_t length) {
  const char *from = bytes;
  while (length > 0) {
    ssize_t sent = send(CONNECTION_LEAD, from, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    from += sent;
    length -= (size_t)sent;
  }
}

void ring_pmix_connection_send(char kind, const ring_pmix_message *message) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  uint8_t head[RING_PMIX_HEAD];
  ring_pmix_message_head(head, kind, message);
  pthread_mutex_lock(&mutex);
  connection_write(head, sizeof head);
  connection_write(message->bytes, message->length);
  pthread_mutex_unlock(&mutex);
}

/* Bytes that were received, from begin to end. */
static struct {
  char *bytes;
  size_t begin, end, capacity;
} connection_input;

/* Makes room behind them. */
static void connection_reserve(void) {
  size_t kept = connection_input.end - connection_input.begin;
  if (connection_input.begin > 0)
    memmove(connection_input.bytes, connection_input.bytes + connection_input.begin, kept);
  connection_input.begin = 0;
  connection_input.end = kept;
  if (connection_input.capacity - kept >= CONNECTION_PIECE) return;
  size_t capacity = 2 * connection_input.capacity + CONNECTION_PIECE;
  char *bytes = realloc(connection_input.bytes, capacity);
  if (bytes == NULL) ring_pmix_connection_fail("out of memory");
  connection_input.bytes = bytes;
  connection_input.capacity = capacity;
}

bool ring_pmix_connection_receive(char *kind, ring_pmix_message *message) {
  connection_reserve();
  for (;;) {
    long size =
        ring_pmix_message_next(connection_input.bytes + connection_input.begin,
                               connection_input.end - connection_input.begin, kind, message);
    if (size < 0) ring_pmix_connection_fail("the lead sent an invalid message");
    connection_input.begin += (size_t)size;
    if (size > 0) return true;
    connection_reserve();
    ssize_t got = recv(CONNECTION_LEAD, connection_input.bytes + connection_input.end,
                       connection_input.capacity - connection_input.end, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    connection_input.end += (size_t)got;
  }
}
