/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/message_driver.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"
#include "messages/message_turn.h"
#include "peers/peers.h"

/* As the engine waits (engine/idle.c). */
#define MESSAGE_DRIVER_SPIN_NS UINT64_C(300000)
#define MESSAGE_DRIVER_YIELDS 50
#define MESSAGE_DRIVER_LOOK 8
#define MESSAGE_DRIVER_SPIN_LINKS 32 /* with more links a turn takes longer than a sleep */

#define MESSAGE_DRIVER_SLICE_MS 100
#define MESSAGE_DRIVER_SILENCE_MS                                                                  \
  50000 /* a host that has not confirmed bytes for so long has vanished */

/* Pauses of the thread. */
#define MESSAGE_DRIVER_PAUSE_NS UINT64_C(50000)
#define MESSAGE_DRIVER_LONGEST_PAUSE_NS UINT64_C(1000000)
#define MESSAGE_DRIVER_IDLE_NS UINT64_C(20000000) /* until it sleeps without an end */

static bool message_driver_is_busy(const ring_messages *messages) {
  return !messages->broken && !messages->closed &&
         (messages->in_flight > 0 || messages->queued > 0);
}

/* Wakes the driver from its sleep, once. */
static void message_driver_ring(ring_messages *messages) {
  if (!messages->polling) return;
  messages->polling = false;
  while (write(messages->bell[1], "", 1) < 0 && errno == EINTR) continue;
}

void ring_message_driver_notice(ring_messages *messages) {
  if (messages->polling && messages->news)
    message_driver_ring(messages);
  else if (messages->idle && messages->waiting == 0 && message_driver_is_busy(messages))
    pthread_cond_signal(&messages->work);
}

void ring_message_driver_fail(ring_messages *messages, const ring_error *error) {
  ring_protocol_fail(messages, error);
  message_driver_ring(messages);
}

void ring_messages_fail(ring_messages *messages, const ring_error *error) {
  messages_lock(messages);
  ring_message_driver_fail(messages, error);
  messages_unlock(messages);
}

/* ---- Sleeping ----------------------------------------------------------------------------- */

static void message_driver_watch(ring_messages *messages) {
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

static void message_driver_read_bell(const ring_messages *messages) {
  char ring;
  if (!ring_poll_set_ready(&messages->poll_set, messages->bell_slot)) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): the byte is there */
  while (read(messages->bell[0], &ring, 1) < 0 && errno == EINTR) continue;
}

static void message_driver_system_failed(ring_messages *messages, ring_status status) {
  ring_error error;
  ring_error_set(&error, status, messages->rank, errno, "rank %d cannot wait for messages",
                 messages->rank);
  ring_protocol_fail(messages, &error);
}

/* Finds a host that has vanished. */
static void message_driver_check_silence(ring_messages *messages) {
  const ring_peers *peers = &messages->comm->peers;
  for (int i = 0; i < peers->linked_count && !messages->broken; i++) {
    int rank = peers->linked[i];
    const ring_peer *peer = &peers->peer[rank];
    ring_error error;
    if (peer->ended || peer->link->ops->silence(peer->link) < MESSAGE_DRIVER_SILENCE_MS) continue;
    ring_error_set(&error, RING_PEER_LOST, rank, ETIMEDOUT, "rank %d (%s) was lost", rank,
                   ring_peers_name(peers, rank));
    ring_protocol_fail(messages, &error);
  }
}

/* Sleeps until something can move, moves it, and finds hosts that have vanished. Called with the mutex, which is
 * released meanwhile. */
static void message_driver_sleep(ring_messages *messages, int milliseconds) {
  ring_error error;
  message_driver_watch(messages);
  messages->polling = true;
  messages->news = false;
  messages_unlock(messages);
  ring_status status = ring_poll_set_sleep(&messages->poll_set, milliseconds);
  messages_lock(messages);
  messages->polling = false;
  message_driver_read_bell(messages);
  if (messages->broken) return;
  if (status != RING_OK) {
    message_driver_system_failed(messages, status);
    return;
  }
  status = ring_peers_serve(&messages->comm->peers, &messages->poll_set, &error);
  if (status != RING_OK) {
    ring_protocol_fail(messages, &error);
    return;
  }
  ring_message_turn(messages, false);
  message_driver_check_silence(messages);
}

/* Lets threads in that wait for the mutex. */
static void message_driver_yield_mutex(ring_messages *messages) {
  if (atomic_load_explicit(&messages->entering, memory_order_relaxed) == 0) return;
  messages_unlock(messages);
  sched_yield();
  messages_lock(messages);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static bool message_driver_is_over(const ring_messages *messages,
                                   const ring_message_driver_aim *aim) {
  return aim->goal(messages, aim->arg) || messages->broken;
}

/* Keeps trying for a moment, as the cores of the host allow. */
static void message_driver_spin(ring_messages *messages, const ring_message_driver_aim *aim) {
  const ring_peers *peers = &messages->comm->peers;
  uint64_t begun = 0;
  if (peers->cores == RING_CORES_CROWDED || peers->linked_count > MESSAGE_DRIVER_SPIN_LINKS) return;
  bool shared = peers->cores == RING_CORES_SHARED;
  for (unsigned tries = 1; !message_driver_is_over(messages, aim); tries++) {
    uint64_t moved = messages->moved;
    ring_message_turn(messages, true);
    message_driver_yield_mutex(messages);
    if (moved != messages->moved) {
      begun = 0;
      tries = 0;
      continue;
    }
    if (peers->connecting_count > 0 || (shared && tries > MESSAGE_DRIVER_YIELDS)) return;
    if (shared) sched_yield();
    if (!shared) ring_platform_pause();
    if (tries % MESSAGE_DRIVER_LOOK != 0) continue;
    uint64_t now = ring_platform_now();
    if (begun == 0) begun = now;
    if (now - begun > MESSAGE_DRIVER_SPIN_NS) return;
  }
}

/* How far the ranks that the wait is for have come. */
static uint64_t message_driver_progress(const ring_messages *messages,
                                        const ring_message_driver_aim *aim) {
  return aim->peer == RING_ANY_SOURCE ? messages->moved : messages->channels[aim->peer].moved;
}

static void message_driver_end_wait(ring_messages *messages, const ring_message_driver_aim *aim,
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
  ring_message_driver_fail(messages, &error);
}

static void message_driver_warn(ring_messages *messages, const ring_message_driver_aim *aim,
                                const ring_wait *wait) {
  char text[RING_PROTOCOL_TEXT], warning[RING_PROTOCOL_TEXT + 128];
  ring_protocol_describe(messages, aim->sends, aim->peer, aim->tag, text, sizeof text);
  snprintf(warning, sizeof warning, "rank %d has waited %.1f s for %s %s", messages->rank,
           ring_wait_seconds(wait), aim->what, text);
  messages_unlock(messages);
  ring_wait_warn(wait, warning);
  messages_lock(messages);
}

/* Deadline, hooks and warnings. The mutex is released while hooks run. */
static void message_driver_check(ring_messages *messages, const ring_message_driver_aim *aim,
                                 ring_wait *wait, uint64_t *seen) {
  uint64_t progress = message_driver_progress(messages, aim);
  if (progress != *seen) ring_wait_renew(wait);
  *seen = progress;
  messages_unlock(messages);
  ring_status status = ring_wait_check(wait);
  messages_lock(messages);
  if (message_driver_is_over(messages, aim)) return;
  if (status != RING_OK)
    message_driver_end_wait(messages, aim, wait, status);
  else if (ring_wait_lasts(wait))
    message_driver_warn(messages, aim, wait);
}

/* Drives for a spin and a sleep, or waits for the driver. */
static void message_driver_step(ring_messages *messages, const ring_message_driver_aim *aim,
                                ring_wait *wait) {
  if (messages->driving) {
    bool thread_drives = messages->waiting - messages->sleeping == 1; /* and makes way */
    if (messages->polling && (thread_drives || messages->news)) message_driver_ring(messages);
    messages->sleeping++;
    ring_platform_condition_wait(&messages->changed, &messages->mutex, MESSAGE_DRIVER_SLICE_MS);
    messages->sleeping--;
    return;
  }
  messages->driving = true;
  message_driver_spin(messages, aim);
  if (!message_driver_is_over(messages, aim)) {
    if (wait->begun == 0) ring_wait_begin(wait);
    message_driver_sleep(messages, ring_wait_slice(wait));
  }
  messages->driving = false;
}

void ring_message_driver_await(ring_messages *messages, const ring_message_driver_aim *aim) {
  ring_wait wait;
  if (message_driver_is_over(messages, aim)) return;
  uint64_t seen = message_driver_progress(messages, aim);
  comm_prepare_wait(messages->comm, messages->comm->call_timeout, &wait);
  wait.begun = 0;
  messages->waiting++;
  while (!message_driver_is_over(messages, aim)) {
    message_driver_step(messages, aim, &wait);
    if (message_driver_is_over(messages, aim)) break;
    if (wait.begun == 0) ring_wait_begin(&wait);
    message_driver_check(messages, aim, &wait, &seen);
  }
  messages->waiting--;
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
  ring_message_driver_notice(messages);
}

void ring_message_driver_poll(ring_messages *messages) {
  if (messages->driving || messages->broken || messages->closed) return;
  messages->driving = true;
  ring_message_turn(messages, true);
  if (messages->comm->peers.connecting_count > 0 && !messages->broken)
    message_driver_sleep(messages, 0);
  messages->driving = false;
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
}

/* ---- The thread --------------------------------------------------------------------------- */

/* One turn, and a sleep where the pauses have become long. Returns the next pause. */
static uint64_t message_driver_turn(ring_messages *messages, uint64_t pause) {
  uint64_t moved = messages->moved;
  messages->driving = true;
  ring_message_turn(messages, true);
  if (moved == messages->moved && !messages->broken) {
    if (pause == MESSAGE_DRIVER_LONGEST_PAUSE_NS || messages->comm->peers.connecting_count > 0)
      message_driver_sleep(messages, MESSAGE_DRIVER_SLICE_MS);
    pause =
        2 * pause < MESSAGE_DRIVER_LONGEST_PAUSE_NS ? 2 * pause : MESSAGE_DRIVER_LONGEST_PAUSE_NS;
  }
  messages->driving = false;
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
  return moved == messages->moved ? pause : MESSAGE_DRIVER_PAUSE_NS;
}

static void *message_driver_main(void *arg) {
  ring_messages *messages = arg;
  uint64_t pause = MESSAGE_DRIVER_PAUSE_NS, rested = 0;
  messages_lock(messages);
  while (!messages->stops) {
    bool busy = message_driver_is_busy(messages);
    if (!busy && rested >= MESSAGE_DRIVER_IDLE_NS) {
      messages->idle = true;
      pthread_cond_wait(&messages->work, &messages->mutex);
      messages->idle = false;
      pause = MESSAGE_DRIVER_PAUSE_NS;
      rested = 0;
      continue;
    }
    uint64_t doze = busy && messages->waiting == 0 ? pause : MESSAGE_DRIVER_LONGEST_PAUSE_NS;
    ring_platform_condition_wait_ns(&messages->work, &messages->mutex, doze);
    rested = busy ? 0 : rested + doze;
    if (messages->waiting == 0 && !messages->driving && !messages->stops &&
        message_driver_is_busy(messages))
      pause = message_driver_turn(messages, pause);
  }
  messages_unlock(messages);
  return NULL;
}

int ring_message_driver_begin(ring_messages *messages) {
  int code = ring_platform_thread(&messages->thread, message_driver_main, messages);
  messages->threaded = code == 0;
  return code;
}

void ring_message_driver_end(ring_messages *messages) {
  if (!messages->threaded) return;
  messages_lock(messages);
  messages->stops = true;
  pthread_cond_broadcast(&messages->work);
  message_driver_ring(messages);
  messages_unlock(messages);
  pthread_join(messages->thread, NULL);
  messages->threaded = false;
}
