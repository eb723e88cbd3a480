/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/message_progress.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"
#include "messages/message_turn.h"
#include "peers/peers.h"

/* As the engine waits (engine/idle.c). */
#define MESSAGE_PROGRESS_SPIN_NS UINT64_C(300000)
#define MESSAGE_PROGRESS_YIELDS 50
#define MESSAGE_PROGRESS_LOOK 8
#define MESSAGE_PROGRESS_SPIN_LINKS 32 /* with more links a turn takes longer than a sleep */

#define MESSAGE_PROGRESS_SILENCE_MS                                                                \
  50000 /* a host that has not confirmed bytes for so long has vanished */

static bool message_progress_is_busy(const ring_messages *messages) {
  return !messages->broken && !messages->closed &&
         (messages->in_flight > 0 || messages->queued > 0);
}

/* Wakes the mover from its sleep, once. */
static void message_progress_ring(ring_messages *messages) {
  if (!messages->polling) return;
  messages->polling = false;
  while (write(messages->bell[1], "", 1) < 0 && errno == EINTR) continue;
}

void ring_message_progress_notice(ring_messages *messages) {
  if (messages->polling && messages->news)
    message_progress_ring(messages);
  else if (messages->progress.waiting == 0 && message_progress_is_busy(messages))
    progress_wake(&messages->progress);
}

void ring_message_progress_fail(ring_messages *messages, const ring_error *error) {
  ring_protocol_fail(messages, error);
  message_progress_ring(messages);
}

void ring_messages_fail(ring_messages *messages, const ring_error *error) {
  messages_lock(messages);
  ring_message_progress_fail(messages, error);
  messages_unlock(messages);
}

/* Ends messages when the communicator that they were made of was shrunk. */
static void message_progress_follow(ring_messages *messages) {
  ring_error error;
  if (!messages->broken && ring_comm_is_orphan(messages->comm, "these messages", &error))
    ring_message_progress_fail(messages, &error);
}

ring_status ring_messages_enter(ring_messages *messages) {
  ring_status status = ring_messages_check(messages);
  if (status != RING_OK) return status;
  messages_lock(messages);
  message_progress_follow(messages);
  if (messages->broken) {
    *ring_messages_reason() = messages->failure;
    status = ring_messages_reason()->status;
  } else if (messages->closing || messages->closed) {
    status = ring_messages_invalid("the messages are closed");
  }
  if (status != RING_OK) messages_unlock(messages);
  return status;
}

/* ---- Sleeping ----------------------------------------------------------------------------- */

static void message_progress_watch(ring_messages *messages) {
  ring_peers *peers = &messages->comm->peers;
  ring_poll_set_reset(&messages->poll_set);
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    const ring_channel *channel = &messages->channels[peers->linked[i]];
    peer->slot = SIZE_MAX;
    if (peer->ended) continue;
    short events = peer->link->ops->arm(
        peer->link, channel->first != NULL && !channel->mute ? POLLIN | POLLOUT : POLLIN);
    peer->slot = ring_poll_set_add(&messages->poll_set, events != 0 ? peer->link->fd : -1, events);
  }
  messages->bell_slot = ring_poll_set_add(&messages->poll_set, messages->bell[0], POLLIN);
  ring_peers_watch(peers, &messages->poll_set);
}

static void message_progress_read_bell(const ring_messages *messages) {
  char ring;
  if (!ring_poll_set_ready(&messages->poll_set, messages->bell_slot)) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): the byte is there */
  while (read(messages->bell[0], &ring, 1) < 0 && errno == EINTR) continue;
}

static void message_progress_system_failed(ring_messages *messages, ring_status status) {
  ring_error error;
  ring_error_set(&error, status, messages->rank, errno, "rank %d cannot wait for messages",
                 messages->rank);
  ring_protocol_fail(messages, &error);
}

/* Finds a host that has vanished. */
static void message_progress_check_silence(ring_messages *messages) {
  const ring_peers *peers = &messages->comm->peers;
  for (int i = 0; i < peers->linked_count && !messages->broken; i++) {
    int rank = peers->linked[i];
    const ring_peer *peer = &peers->peer[rank];
    ring_error error;
    if (peer->ended || peer->link->ops->silence(peer->link) < MESSAGE_PROGRESS_SILENCE_MS) continue;
    ring_error_set(&error, RING_PEER_LOST, rank, ETIMEDOUT, "rank %d (%s) was lost", rank,
                   ring_peers_name(peers, rank));
    ring_protocol_fail(messages, &error);
  }
}

/* Sleeps until something can move, moves it, and finds hosts that have vanished. Called with the mutex, which is
 * released meanwhile. */
static void message_progress_sleep(ring_messages *messages, int milliseconds) {
  ring_error error;
  message_progress_watch(messages);
  messages->polling = true;
  messages->news = false;
  messages_unlock(messages);
  ring_status status = ring_poll_set_sleep(&messages->poll_set, milliseconds);
  messages_lock(messages);
  messages->polling = false;
  message_progress_read_bell(messages);
  if (messages->broken) return;
  if (status != RING_OK) {
    message_progress_system_failed(messages, status);
    return;
  }
  status = ring_peers_serve(&messages->comm->peers, &messages->poll_set, &error);
  if (status != RING_OK) {
    ring_protocol_fail(messages, &error);
    return;
  }
  ring_message_turn(messages, false);
  message_progress_check_silence(messages);
}

/* Lets threads in that wait for the mutex. */
static void message_progress_yield_mutex(ring_messages *messages) {
  if (atomic_load_explicit(&messages->entering, memory_order_relaxed) == 0) return;
  messages_unlock(messages);
  sched_yield();
  messages_lock(messages);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static bool message_progress_is_over(const ring_messages *messages,
                                     const ring_message_progress_aim *aim) {
  return aim->goal(messages, aim->arg) || messages->broken;
}

/* Keeps trying for a moment, as the cores of the host allow. */
static void message_progress_spin(ring_messages *messages, const ring_message_progress_aim *aim) {
  const ring_peers *peers = &messages->comm->peers;
  uint64_t begun = 0;
  if (peers->cores == RING_CORES_CROWDED || peers->linked_count > MESSAGE_PROGRESS_SPIN_LINKS)
    return;
  bool shared = peers->cores == RING_CORES_SHARED;
  for (unsigned tries = 1; !message_progress_is_over(messages, aim); tries++) {
    uint64_t moved = messages->moved;
    ring_message_turn(messages, true);
    message_progress_yield_mutex(messages);
    if (moved != messages->moved) {
      begun = 0;
      tries = 0;
      continue;
    }
    if (peers->connecting_count > 0 || (shared && tries > MESSAGE_PROGRESS_YIELDS)) return;
    if (shared) sched_yield();
    if (!shared) ring_platform_pause();
    if (tries % MESSAGE_PROGRESS_LOOK != 0) continue;
    uint64_t now = ring_platform_now();
    if (begun == 0) begun = now;
    if (now - begun > MESSAGE_PROGRESS_SPIN_NS) return;
  }
}

/* How far the ranks that the wait is for have come. */
static uint64_t message_progress_of(const ring_messages *messages,
                                    const ring_message_progress_aim *aim) {
  return aim->peer == RING_ANY_SOURCE ? messages->moved : messages->channels[aim->peer].moved;
}

static void message_progress_end_wait(ring_messages *messages, const ring_message_progress_aim *aim,
                                      ring_wait *wait, ring_status why) {
  char text[RING_PROTOCOL_TEXT], what[RING_PROTOCOL_TEXT + 64];
  ring_error error;
  ring_protocol_describe(messages, aim->sends, aim->peer, aim->tag, text, sizeof text);
  snprintf(what, sizeof what, "%s %s", aim->what, text);
  if (why == RING_ABORTED)
    ring_wait_aborted(wait, messages->rank, what, &error);
  else
    ring_error_set(&error, why, aim->peer, 0, "rank %d waited %.1f s for %s", messages->rank,
                   ring_wait_seconds(wait), what);
  ring_message_progress_fail(messages, &error);
}

static void message_progress_warn(ring_messages *messages, const ring_message_progress_aim *aim,
                                  const ring_wait *wait) {
  char text[RING_PROTOCOL_TEXT], warning[RING_PROTOCOL_TEXT + 128];
  ring_protocol_describe(messages, aim->sends, aim->peer, aim->tag, text, sizeof text);
  snprintf(warning, sizeof warning, "rank %d has waited %.1f s for %s %s", messages->rank,
           ring_wait_seconds(wait), aim->what, text);
  messages_unlock(messages);
  ring_wait_warn(wait, warning);
  messages_lock(messages);
}

typedef struct message_progress_wait {
  const ring_message_progress_aim *aim;
  ring_wait wait;
  uint64_t seen;
} message_progress_wait;

/* Deadline, hooks, which keep their own time, and warnings. The mutex is released while hooks run. */
static void message_progress_check(void *queue, void *arg, bool due) {
  ring_messages *messages = queue;
  message_progress_wait *waits = arg;
  const ring_message_progress_aim *aim = waits->aim;
  ring_wait *wait = &waits->wait;
  (void)due;
  if (wait->begun == 0) ring_wait_begin(wait);
  uint64_t progress = message_progress_of(messages, aim);
  if (progress != waits->seen) ring_wait_renew(wait);
  waits->seen = progress;
  messages_unlock(messages);
  ring_status status = ring_wait_check(wait);
  messages_lock(messages);
  message_progress_follow(messages);
  if (message_progress_is_over(messages, aim)) return;
  if (status != RING_OK)
    message_progress_end_wait(messages, aim, wait, status);
  else if (ring_wait_lasts(wait))
    message_progress_warn(messages, aim, wait);
}

static bool message_progress_wait_is_over(const void *messages, const void *waits) {
  return message_progress_is_over(messages, ((const message_progress_wait *)waits)->aim);
}

/* Spins and sleeps. */
static bool message_progress_move(void *queue, void *arg) {
  ring_messages *messages = queue;
  message_progress_wait *waits = arg;
  ring_progress_begin(&messages->progress);
  message_progress_spin(messages, waits->aim);
  if (!message_progress_is_over(messages, waits->aim)) {
    if (waits->wait.begun == 0) ring_wait_begin(&waits->wait);
    message_progress_sleep(messages, ring_wait_slice(&waits->wait));
  }
  ring_progress_end(&messages->progress);
  return true;
}

/* The progress thread makes way for a thread that waits. */
static void message_progress_press(void *queue) {
  ring_messages *messages = queue;
  const ring_progress *progress = &messages->progress;
  bool thread_moves = progress->waiting - progress->sleeping == 1;
  if (messages->polling && (progress->stops || thread_moves || messages->news))
    message_progress_ring(messages);
}

void ring_message_progress_await(ring_messages *messages, const ring_message_progress_aim *aim) {
  message_progress_wait waits = {.aim = aim};
  if (message_progress_is_over(messages, aim)) return;
  waits.seen = message_progress_of(messages, aim);
  comm_prepare_wait(messages->comm, messages->comm->call_timeout, &waits.wait);
  waits.wait.begun = 0;
  ring_progress_wait(&messages->progress, &waits);
  progress_changed(&messages->progress);
  ring_message_progress_notice(messages);
}

void ring_message_progress_poll(ring_messages *messages) {
  message_progress_follow(messages);
  if (messages->progress.moving || messages->broken || messages->closed) return;
  ring_progress_begin(&messages->progress);
  ring_message_turn(messages, true);
  if (messages->comm->peers.connecting_count > 0 && !messages->broken)
    message_progress_sleep(messages, 0);
  ring_progress_end(&messages->progress);
  progress_changed(&messages->progress);
}

/* ---- The thread --------------------------------------------------------------------------- */

/* One turn, and a sleep where the pauses have become long. While threads wait, they move the messages. */
static void message_progress_turn(void *queue) {
  ring_messages *messages = queue;
  ring_progress *progress = &messages->progress;
  uint64_t moved = messages->moved;
  if (progress->waiting > 0 || !message_progress_is_busy(messages)) return;
  ring_progress_begin(progress);
  ring_message_turn(messages, true);
  if (moved == messages->moved && !messages->broken) {
    if (progress->pause == RING_PROGRESS_LONGEST_NS || messages->comm->peers.connecting_count > 0)
      message_progress_sleep(messages, RING_PROGRESS_SLICE_MS);
    progress->pause = progress_longer(progress->pause, RING_PROGRESS_LONGEST_NS);
  }
  ring_progress_end(progress);
  progress_changed(progress);
  if (moved != messages->moved) progress->pause = RING_PROGRESS_PAUSE_NS;
}

/* Rests without an end once nothing has been under way for a while. */
static bool message_progress_rest(void *queue) {
  ring_messages *messages = queue;
  ring_progress *progress = &messages->progress;
  if (!progress->stops && !message_progress_is_busy(messages) &&
      progress->idle >= RING_PROGRESS_IDLE_NS) {
    ring_progress_rest(progress, RING_PROGRESS_FOREVER, true);
    progress->pause = RING_PROGRESS_PAUSE_NS;
    progress->idle = 0;
  }
  if (progress->stops) return false;
  bool busy = message_progress_is_busy(messages);
  uint64_t doze = busy && progress->waiting == 0 ? progress->pause : RING_PROGRESS_LONGEST_NS;
  ring_progress_rest(progress, doze, false);
  progress->idle = busy ? 0 : progress->idle + doze;
  return !progress->stops;
}

static const ring_progress_ops message_progress_ops = {.is_over = message_progress_wait_is_over,
                                                       .move = message_progress_move,
                                                       .press = message_progress_press,
                                                       .check = message_progress_check,
                                                       .rest = message_progress_rest,
                                                       .turn = message_progress_turn};

int ring_message_progress_init(ring_messages *messages) {
  return ring_progress_init(&messages->progress, &message_progress_ops, messages);
}

int ring_message_progress_begin(ring_messages *messages) {
  return ring_progress_start(&messages->progress);
}

void ring_message_progress_end(ring_messages *messages) {
  messages_lock(messages);
  ring_progress_stop(&messages->progress);
  messages_unlock(messages);
}
