/* SPDX-License-Identifier: Apache-2.0
 *
 * A player is one rank in one world: it opens, splits, makes the calls of all rounds, some of them
 * as requests that it finishes when its dice choose so, plays its part in the fault, closes, and frees
 * everything. After a failure it goes on with the communicators that are still whole.
 */
#ifndef SOAK_PLAYER_H
#define SOAK_PLAYER_H

#include "state.h"

typedef struct player_setting {
  const plan_world *world;
  state *state;
  int rank;
  const char *token;
  double patience; /* seconds from a fault to its error */
  bool prints;     /* every error */
} player_setting;

/* Plays the world. False when something was not as it should be, which it has printed to stderr. */
bool player_play(const player_setting *setting);

#endif
