/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: one link over several TCP connections, for networks where a single flow gets no further
 * than a part of what the card or the paths between two hosts carry.
 *
 * The stream of each direction is cut into stripes, and stripe s travels on lane s mod lanes. Both
 * ends know from the bytes that they have moved where the stream is, so nothing is added on the wire
 * and order is kept: a side moves bytes on the lane of its position only, and goes on to the next one
 * with the next stripe. What is behind a slow lane waits for it in the buffers of the others.
 *
 * A sleeper waits for the two lanes that its two positions are on, and for the breaking of any: the
 * descriptor of the link watches all of them. The end of the peer comes in order, behind its last
 * byte, on the lane of the position; a lane that breaks breaks the link once what can be read has
 * been.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "link.h"
#include "platform.h"
#include "socket.h"

/* Little enough that a frame of the engine (256 KiB) is on all of a few lanes, enough that a system
 * call is cheap beside copying it. */
#define LANES_STRIPE (64 * 1024)
#define LANES_PIECES 4 /* of one system call; what is left goes with the next */

typedef ssize_t (*lanes_verb)(ring_link *lane, const struct iovec *pieces, int count);

typedef struct lanes_link {
  ring_link base; /* its fd watches the lanes */
  ring_link_ops ops;
  uint64_t sent, received;
  int count;
  int broken; /* errno of a lane that broke, or 0 */
  bool armed; /* since the lanes were last looked at */
  ring_link *lanes[RING_LANES_MAX];
  short watched[RING_LANES_MAX]; /* what for */
} lanes_link;

static int lanes_at(const lanes_link *link, uint64_t position) {
  return (int)(position / LANES_STRIPE % (uint64_t)link->count);
}

/* ---- Sleeping ----------------------------------------------------------------------------- */

/* Nothing alone is watched for on an idle link: its watcher could not tell a break from news. */
static short lanes_arm(ring_link *base, short events) {
  lanes_link *link = (lanes_link *)base;
  int in = lanes_at(link, link->received), out = lanes_at(link, link->sent);
  if (events == 0) return 0;
  for (int i = 0; i < link->count; i++) {
    short wanted = (short)((i == in ? events & POLLIN : 0) | (i == out ? events & POLLOUT : 0));
    if (wanted != 0) wanted = link->lanes[i]->ops->arm(link->lanes[i], wanted);
    if (wanted == link->watched[i]) continue;
    ring_platform_watch_for(base->fd, link->lanes[i]->fd, wanted);
    link->watched[i] = wanted;
  }
  link->armed = true;
  return POLLIN;
}

/* After a sleep that nothing has come of: whether a lane that is not at a position has broken. An
 * end in order hangs up as well, but is no error. */
static void lanes_look(lanes_link *link) {
  struct pollfd entries[RING_LANES_MAX];
  link->armed = false;
  for (int i = 0; i < link->count; i++) entries[i] = (struct pollfd){.fd = link->lanes[i]->fd};
  if (poll(entries, (nfds_t)link->count, 0) <= 0) return;
  for (int i = 0; i < link->count && link->broken == 0; i++) {
    if ((entries[i].revents & POLLERR) == 0) continue;
    int code = ring_socket_failure(link->lanes[i]->fd);
    link->broken = code != 0 ? code : EPIPE;
  }
}

/* ---- Moving ------------------------------------------------------------------------------- */

/* What a verb returns that has moved nothing, for the reason `got`. */
static ssize_t lanes_stuck(lanes_link *link, ssize_t got) {
  if (got == 0 && link->armed) lanes_look(link);
  return got == 0 && link->broken != 0 ? -link->broken : got;
}

/* The bytes of the pieces behind the first `skip`, `room` at most. */
static int lanes_cut(const struct iovec *pieces, int count, size_t skip, size_t room,
                     struct iovec cut[LANES_PIECES], size_t *length) {
  int cuts = 0;
  *length = 0;
  for (int i = 0; i < count && cuts < LANES_PIECES && room > 0; i++) {
    size_t skipped = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;
    size_t take = pieces[i].iov_len - skipped;
    if (take > room) take = room;
    skip -= skipped;
    if (take == 0) continue;
    cut[cuts++] = (struct iovec){(uint8_t *)pieces[i].iov_base + skipped, take};
    *length += take;
    room -= take;
  }
  return cuts;
}

/* Moves stripe after stripe until a lane does not take, or does not have, all of one. */
static ssize_t lanes_move(lanes_link *link, lanes_verb verb, uint64_t *position,
                          const struct iovec *pieces, int count) {
  uint64_t begun = *position;
  for (;;) {
    struct iovec cut[LANES_PIECES];
    size_t length, left = LANES_STRIPE - (size_t)(*position % LANES_STRIPE);
    int cuts = lanes_cut(pieces, count, (size_t)(*position - begun), left, cut, &length);
    if (cuts == 0) break;
    ssize_t moved = verb(link->lanes[lanes_at(link, *position)], cut, cuts);
    if (moved <= 0 && *position == begun) return lanes_stuck(link, moved);
    if (moved <= 0) break; /* an error comes again */
    *position += (uint64_t)moved;
    if ((size_t)moved < length) break;
  }
  link->armed = false;
  return (ssize_t)(*position - begun);
}

static ssize_t lanes_send(ring_link *base, const struct iovec *pieces, int count) {
  lanes_link *link = (lanes_link *)base;
  if (link->broken != 0) return -link->broken;
  return lanes_move(link, link->lanes[0]->ops->send, &link->sent, pieces, count);
}

static ssize_t lanes_receive(ring_link *base, const struct iovec *pieces, int count) {
  lanes_link *link = (lanes_link *)base;
  return lanes_move(link, link->lanes[0]->ops->receive, &link->received, pieces, count);
}

static ssize_t lanes_peek(ring_link *base, void *bytes, size_t length) {
  lanes_link *link = (lanes_link *)base;
  size_t seen = 0;
  while (seen < length) {
    uint64_t position = link->received + seen;
    ring_link *lane = link->lanes[lanes_at(link, position)];
    size_t want = LANES_STRIPE - (size_t)(position % LANES_STRIPE);
    if (want > length - seen) want = length - seen;
    ssize_t got = lane->ops->peek(lane, (uint8_t *)bytes + seen, want);
    if (got <= 0 && seen == 0) return lanes_stuck(link, got);
    if (got > 0) seen += (size_t)got;
    if (got < (ssize_t)want) break;
  }
  return (ssize_t)seen;
}

/* ---- Beginning and ending ----------------------------------------------------------------- */

static void lanes_finish(ring_link *base) {
  const lanes_link *link = (const lanes_link *)base;
  for (int i = 0; i < link->count; i++) link->lanes[i]->ops->finish(link->lanes[i]);
}

static void lanes_close(ring_link *base) {
  lanes_link *link = (lanes_link *)base;
  for (int i = 0; i < link->count; i++) link->lanes[i]->ops->close(link->lanes[i]);
  ring_socket_close(&base->fd);
  free(link);
}

static uint32_t lanes_silence(ring_link *base) {
  const lanes_link *link = (const lanes_link *)base;
  uint32_t longest = 0;
  for (int i = 0; i < link->count; i++) {
    uint32_t silence = link->lanes[i]->ops->silence(link->lanes[i]);
    if (silence > longest) longest = silence;
  }
  return longest;
}

static bool lanes_arrived(ring_link *base) {
  const lanes_link *link = (const lanes_link *)base;
  for (int i = 0; i < link->count; i++)
    if (!link->lanes[i]->ops->arrived(link->lanes[i])) return false;
  return true;
}

static bool lanes_join(lanes_link *link, const int *fds, int count) {
  link->base.fd = ring_platform_watcher();
  if (link->base.fd < 0) {
    errno = -link->base.fd; /* for the caller */
    link->base.fd = -1;
    return false;
  }
  for (; link->count < count; link->count++) {
    ring_link *lane = ring_link_tcp(fds[link->count]);
    if (lane == NULL) return false;
    link->lanes[link->count] = lane;
    if (ring_platform_watch(link->base.fd, lane->fd)) continue;
    link->count++;
    return false;
  }
  return true;
}

/* By their number of lanes. */
static const char *const lanes_names[RING_LANES_MAX + 1] = {
    NULL,     NULL,      "tcp x2",  "tcp x3",  "tcp x4",  "tcp x5",  "tcp x6",  "tcp x7", "tcp x8",
    "tcp x9", "tcp x10", "tcp x11", "tcp x12", "tcp x13", "tcp x14", "tcp x15", "tcp x16"};

ring_link *ring_link_lanes(const int *fds, int count) {
  lanes_link *link = calloc(1, sizeof *link);
  if (link == NULL) return NULL;
  link->ops =
      (ring_link_ops){lanes_names[count], lanes_send,  lanes_receive, lanes_peek,    lanes_arm,
                      lanes_finish,       lanes_close, lanes_silence, lanes_arrived, true};
  link->base.ops = &link->ops;
  if (lanes_join(link, fds, count)) return &link->base;
  int code = errno;
  for (int i = 0; i < link->count; i++) link->lanes[i]->fd = -1; /* the caller's */
  lanes_close(&link->base);
  errno = code;
  return NULL;
}
