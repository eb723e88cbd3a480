/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <stdio.h>
#include <time.h>

#define EXCHANGE_NS UINT64_C(20000000000)

bool exchange_is_broken(const plan_world *world, state *state) {
  uint64_t struck = atomic_load(&state->struck);
  bool dies = plan_fault_family(world->fault.kind) == PLAN_FAMILY_KILLED;
  return dies && struck != 0 && state_now() > struck &&
         !atomic_load(&state->passed[world->fault.rank]);
}

static bool exchange_is_complete(const plan_world *world, state *state) {
  for (int rank = 0; rank < world->size; rank++)
    if (!atomic_load(&state->passed[rank])) return false;
  return true;
}

int exchange_texts(void *setting, const char *mine, ring_exchange_put_fn put, void *sink) {
  const player_setting *of = setting;
  const struct timespec moment = {.tv_nsec = 500000};
  uint64_t deadline = state_now() + EXCHANGE_NS;
  state *state = of->state;
  snprintf(state->texts[of->rank], sizeof state->texts[0], "%s", mine);
  atomic_store(&state->passed[of->rank], true);
  while (!exchange_is_complete(of->world, state)) {
    if (exchange_is_broken(of->world, state) || state_now() > deadline) return -1;
    nanosleep(&moment, NULL);
  }
  for (int rank = 0; rank < of->world->size; rank++) put(sink, rank, state->texts[rank]);
  return 0;
}
