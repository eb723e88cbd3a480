/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ends of a link that is made of others: of connections, of TLS, of both. The input is what it is made
 * of, how much its sockets hold, and what the two ends do: who sends, receives or looks ahead, how
 * much at a time, in how many pieces. Whatever that is, each end gets what the other one sent, in
 * order, and all of it once both go on for long enough; then it gets the end.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "transport/link.h"
#include "world.h"

enum { PIECES = 4, MOST = 40000, ACTS_MOST = 300, TURNS_MOST = 100000, CONNECTIONS_MOST = 3 };

typedef struct end {
  ring_link *link;
  uint64_t sent, wanted, received; /* of its own stream, and of the other's */
} end;

static uint8_t byte_at(int side, uint64_t position) {
  return (uint8_t)((position + (uint64_t)side) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* ---- Making them -------------------------------------------------------------------------- */

static void connect_sockets(int fds[2][CONNECTIONS_MOST], int connections, int room) {
  for (int i = 0; i < connections; i++) {
    int pair[2];
    FUZZ_PROMISE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    for (int side = 0; side < 2; side++) {
      setsockopt(pair[side], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
      fds[side][i] = pair[side];
    }
  }
}

static void make_ends(end ends[2], unsigned shape, int room) {
  const ring_secret key = {{0x44}};
  int fds[2][CONNECTIONS_MOST], connections = 1 + (int)(shape / 2 % CONNECTIONS_MOST);
  connect_sockets(fds, connections, room);
  for (int side = 0; side < 2; side++) {
    ring_link *link =
        connections > 1 ? ring_link_multi_tcp(fds[side], connections) : ring_link_tcp(fds[side][0]);
    FUZZ_PROMISE(link != NULL);
    if (shape % 2 == 0) link = ring_link_tls(link, side == 0, &key);
    FUZZ_PROMISE(link != NULL);
    ends[side] = (end){.link = link};
  }
}

/* ---- What they do ------------------------------------------------------------------------- */

static int cut(uint8_t *bytes, size_t length, int count, struct iovec pieces[PIECES]) {
  size_t part = length / (size_t)count;
  for (int i = 0; i < count; i++)
    pieces[i] =
        (struct iovec){bytes + (size_t)i * part, i == count - 1 ? length - (size_t)i * part : part};
  return count;
}

/* What was once tried to be sent has to be sent, so it is tried again first. */
static void act_send(end *ends, int side, size_t length, int count) {
  end *of = &ends[side];
  uint8_t *bytes = malloc(length);
  struct iovec pieces[PIECES];
  FUZZ_PROMISE(bytes != NULL);
  for (size_t i = 0; i < length; i++) bytes[i] = byte_at(side, of->sent + i);
  ssize_t moved = of->link->ops->send(of->link, pieces, cut(bytes, length, count, pieces));
  FUZZ_PROMISE(moved >= 0 && (size_t)moved <= length);
  if (of->sent + length > of->wanted) of->wanted = of->sent + length;
  of->sent += (uint64_t)moved;
  free(bytes);
}

/* With no pieces it only looks. */
static ssize_t act_receive(end *ends, int side, size_t length, int count) {
  end *of = &ends[side];
  uint8_t *bytes = malloc(length);
  struct iovec pieces[PIECES];
  FUZZ_PROMISE(bytes != NULL);
  ssize_t moved = count > 0
                      ? of->link->ops->receive(of->link, pieces, cut(bytes, length, count, pieces))
                      : of->link->ops->peek(of->link, bytes, length);
  for (ssize_t i = 0; i < moved; i++)
    FUZZ_PROMISE(bytes[i] == byte_at(1 - side, of->received + (uint64_t)i));
  if (count > 0 && moved > 0) of->received += (uint64_t)moved;
  FUZZ_PROMISE(of->received <= ends[1 - side].wanted);
  free(bytes);
  return moved;
}

static void act(end *ends, input *from) {
  unsigned what = input_byte(from);
  size_t length = input_byte(from);
  length = 1 + (length << 8 | input_byte(from)) % MOST;
  int side = (int)(what % 2), count = 1 + (int)(what / 8 % PIECES);
  ring_link *link = ends[side].link;
  switch (what / 2 % 4) {
  case 0:
  case 1:
    act_send(ends, side, length, count);
    return;
  case 2:
    FUZZ_PROMISE(act_receive(ends, side, length, count) >= 0);
    return;
  default:
    link->ops->arm(link, (short)((what & 8 ? POLLIN : 0) | (what & 16 ? POLLOUT : 0)));
    FUZZ_PROMISE(act_receive(ends, side, 1 + length % 64, 0) >= 0);
  }
}

/* All that is under way arrives. */
static void settle(end *ends) {
  for (int turn = 0;; turn++) {
    bool settled = true;
    FUZZ_PROMISE(turn < TURNS_MOST);
    for (int side = 0; side < 2; side++) {
      end *of = &ends[side];
      if (of->sent < of->wanted) act_send(ends, side, (size_t)(of->wanted - of->sent), 1);
      FUZZ_PROMISE(act_receive(ends, side, MOST, 1) >= 0);
      settled = settled && of->sent == of->wanted && of->received == ends[1 - side].wanted;
    }
    if (settled) return;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  end ends[2];
  unsigned shape = input_byte(&from), room = input_byte(&from);
  make_ends(ends, shape, (int)room * 1024);
  for (int i = 0; i < ACTS_MOST && from.left > 0; i++) act(ends, &from);
  settle(ends);
  ends[0].link->ops->finish(ends[0].link);
  FUZZ_PROMISE(act_receive(ends, 1, MOST, 1) == -EPIPE);
  for (int side = 0; side < 2; side++) ends[side].link->ops->close(ends[side].link);
  return 0;
}
