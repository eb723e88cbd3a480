/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: which thread moves messages, and when. A thread that waits drives itself, so that no other thread
 * has to be woken. The thread of the messages drives while no thread waits and something is under way: so a
 * started transfer ends without its user. It begins late, because a wait usually follows soon.
 */
#ifndef RING_MESSAGES_MESSAGE_DRIVER_H
#define RING_MESSAGES_MESSAGE_DRIVER_H

#include "messages/protocol.h"

/* 0 or an errno. */
int ring_message_driver_begin(ring_messages *messages);

/* Ends the thread. */
void ring_message_driver_end(ring_messages *messages);

/* The condition that a thread waits for. */
typedef bool (*ring_message_driver_goal_fn)(const ring_messages *messages, const void *arg);

/* The aim of a wait, also in words, and the rank whose progress renews its deadline (RING_ANY_SOURCE: any). */
typedef struct ring_message_driver_aim {
  ring_message_driver_goal_fn goal;
  const void *arg;
  const char *what; /* "a message" */
  bool sends;
  int peer, tag;
} ring_message_driver_aim;

/* Waits, and drives meanwhile, until the goal is true or the messages have failed. Called with the mutex. */
void ring_message_driver_await(ring_messages *messages, const ring_message_driver_aim *aim);

/* Moves what moves without waiting. Called with the mutex. */
void ring_message_driver_poll(ring_messages *messages);

/* Ends everything with an error, and wakes the driver. Called with the mutex. */
void ring_message_driver_fail(ring_messages *messages, const ring_error *error);

/* The same, called without the mutex. */
void ring_messages_fail(ring_messages *messages, const ring_error *error);

/* Wakes the driver for what was posted, or the thread where nobody drives. Called with the mutex. */
void ring_message_driver_notice(ring_messages *messages);

#endif
