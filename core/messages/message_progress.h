/* SPDX-License-Identifier: Apache-2.0
 *
 * How a thread moves messages (progress/progress.h): turns, a spin, a sleep on all links. The progress thread moves
 * messages while no thread waits and something is under way: so a started transfer ends without its user. It begins
 * late, because a wait usually follows soon.
 */
#ifndef RING_MESSAGES_MESSAGE_PROGRESS_H
#define RING_MESSAGES_MESSAGE_PROGRESS_H

#include "messages/protocol.h"

/* 0 or an errno. */
int ring_message_progress_init(ring_messages *messages);

/* Starts the progress thread. 0 or an errno. */
int ring_message_progress_begin(ring_messages *messages);

/* Ends it. */
void ring_message_progress_end(ring_messages *messages);

/* Locks, and checks that nothing has failed. Unlocks where it returns another status than RING_OK. */
ring_status ring_messages_enter(ring_messages *messages);

/* The condition that a thread waits for. */
typedef bool (*ring_message_progress_goal_fn)(const ring_messages *messages, const void *arg);

/* The aim of a wait, also in words, and the rank whose progress renews its deadline (RING_ANY_SOURCE: any). */
typedef struct ring_message_progress_aim {
  ring_message_progress_goal_fn goal;
  const void *arg;
  const char *what; /* "a message" */
  bool sends;
  int peer, tag;
} ring_message_progress_aim;

/* Waits, and moves messages meanwhile, until the goal is true or the messages have failed. Called with the mutex. */
void ring_message_progress_await(ring_messages *messages, const ring_message_progress_aim *aim);

/* Moves what moves without waiting. Called with the mutex. */
void ring_message_progress_poll(ring_messages *messages);

/* Ends everything with an error, and wakes the mover. Called with the mutex. */
void ring_message_progress_fail(ring_messages *messages, const ring_error *error);

/* The same, called without the mutex. */
void ring_messages_fail(ring_messages *messages, const ring_error *error);

/* Wakes the mover for what was posted, or the progress thread where there is none. Called with the mutex. */
void ring_message_progress_notice(ring_messages *messages);

#endif
