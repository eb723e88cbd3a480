/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange: the ranks pass their texts by the shared state, and it fails when one of them has died before it
 * has, as Spark's allGather does.
 */
#ifndef SOAK_EXCHANGE_H
#define SOAK_EXCHANGE_H

#include "player.h"

/* A ring_exchange_fn; `setting` is the player_setting. */
int exchange_texts(void *setting, const char *mine, ring_exchange_put_fn put, void *sink);

/* Whether the victim of the world has died before it has passed its text. */
bool exchange_is_broken(const plan_world *world, state *state);

#endif
