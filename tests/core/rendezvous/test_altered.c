/* SPDX-License-Identifier: Apache-2.0
 *
 * An attacker on the path changes one bit of the rendezvous, at every position in turn: of handshakes,
 * JOIN, WELCOME, the address table, REPORT and RESULT. Two ranks then get a communicator that works,
 * because the changed bytes are sent again, or an error; never different views of the job. (Later
 * traffic of a link has checks against accidents. An attacker can make them right, unless the link is
 * encrypted.) The linker sends the core's sends through here.
 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

/* In memory of both ranks: which byte of what `rank` sends is changed, and what came of it. */
typedef struct change {
  int rank;
  size_t at, seen;
  ring_status status[2];
  uint64_t epoch[2];
  char message[2][1024];
} change;

static change *now;
static int self = -1; /* -1: nothing is changed */

static size_t meddle(const void *bytes, size_t length, uint8_t *copy) {
  memcpy(copy, bytes, length);
  if (self == now->rank && now->at >= now->seen && now->at < now->seen + length)
    copy[now->at - now->seen] ^= (uint8_t)(1 << now->at % 8);
  return length;
}

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
  uint8_t copy[4096];
  if (self < 0 || length > sizeof copy) return __real_send(fd, bytes, length, flags);
  ssize_t sent = __real_send(fd, copy, meddle(bytes, length, copy), flags);
  if (sent > 0) now->seen += self == now->rank ? (size_t)sent : 0;
  return sent;
}

/* Links send pieces: those of the table are changed here. */
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  uint8_t whole[4096];
  size_t length = 0;
  for (size_t i = 0; i < message->msg_iovlen; i++) {
    const struct iovec *piece = &message->msg_iov[i];
    if (self < 0 || length + piece->iov_len > sizeof whole)
      return __real_sendmsg(fd, message, flags);
    memcpy(whole + length, piece->iov_base, piece->iov_len);
    length += piece->iov_len;
  }
  return __wrap_send(fd, whole, length, flags | MSG_NOSIGNAL);
}

static void open_one(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  ring_error error = {.status = RING_OK};
  now = shared;
  self = rank;
  options.timeout = 1;
  options.shared_memory = RING_OFF;
  now->status[rank] = ring_comm_open(&options, &comm, &error);
  self = -1;
  memcpy(now->message[rank], error.message, sizeof error.message);
  if (now->status[rank] != RING_OK) return;
  now->epoch[rank] = ring_comm_epoch(comm);
  int32_t one = 1; /* fails where the other one has failed */
  if (ring_allreduce(comm, &one, &one, 1, RING_INT32, RING_SUM) == RING_OK) CHECK_INT(one, 2);
  ring_comm_free(comm);
}

/* Changes byte `at` that a rank sends; false when it has sent fewer. */
static bool change_one(change *shared, int rank, size_t at, int *altered) {
  *shared = (change){.rank = rank, .at = at};
  run_ranks(2, open_one, shared);
  bool both = shared->status[0] == RING_OK && shared->status[1] == RING_OK;
  if (both) CHECK(shared->epoch[0] == shared->epoch[1]);
  for (int i = 0; i < 2; i++)
    *altered += shared->status[i] == RING_AUTH &&
                (strstr(shared->message[i], "is not what it has sent") != NULL ||
                 strstr(shared->message[i], "something between changes it") != NULL);
  return shared->seen > at;
}

static void test_no_bit_of_the_rendezvous_changes(void) {
  change *shared = shared_alloc(sizeof *shared);
  for (int rank = 0; rank < 2; rank++) {
    int altered = 0;
    size_t at = rank; /* every fifth byte, each time another bit */
    while (change_one(shared, rank, at, &altered)) at += 5;
    printf("rank %d: %zu bytes sent, %d changes detected\n", rank, shared->seen, altered);
    CHECK(at > 100);
    CHECK(altered > (rank == 0 ? 10 : 3));
  }
  shared_free(shared, sizeof *shared);
}

int main(void) {
  RUN(test_no_bit_of_the_rendezvous_changes);
  return 0;
}
