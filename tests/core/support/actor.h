/* SPDX-License-Identifier: Apache-2.0
 *
 * An actor: a process that follows the protocol of the rendezvous as a rank does, up to a point. The scene
 * sets its rank in a job of four (rank 0 sends the table to 1 and 2, and 2 to 3), and how the job ends.
 */
#ifndef RING_ACTOR_H
#define RING_ACTOR_H

#include "wire.h"

enum { ACT_RANKS = 4 };

typedef struct scene {
  int actor;
  void (*act)(const struct scene *scene);
  int signal; /* what ends or stops the actor; 0: it exits */
  ring_status status;
  const char *text;        /* in the message of every real rank */
  double timeout, seconds; /* to open, and until all have failed */
  int failed;              /* real ranks that have */
} scene;

/* A rank that is played. */
typedef struct actor {
  int root, listener;
  ring_seal seal; /* with rank 0 */
  ring_rendezvous rendezvous;
  ring_keys keys;
  uint64_t epoch;
} actor;

/* Options of a rank of the scene. */
ring_options scene_options(const scene *scene, int rank);

/* Joins rank 0 and receives the WELCOME. */
actor act_as_client(const scene *scene);

/* Lets the other ranks join, and sends each the port of its parent. */
actor act_as_rank_0(const scene *scene);

/* Accepts the rank that comes next; ranks of other tests may look for theirs here, too. */
int act_accept(const actor *self, int rank, ring_claim *claim, ring_seal *seal);

void act_send(int fd, ring_seal *seal, const ring_message *message);

/* Waits until the other side has ended the connection. */
void act_await_end(int fd);

#endif
