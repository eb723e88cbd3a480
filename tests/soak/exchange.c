/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <stdio.h>
#include <time.h>

#define EXCHANGE_NS UINT64_C(20000000000)

bool exchange_is_broken(const plan_world *world, board *board) {
  uint64_t struck = atomic_load(&board->struck);
  bool dies = plan_fault_family(world->fault.kind) == PLAN_FAMILY_KILLED;
  return dies && struck != 0 && board_now() > struck &&
         !atomic_load(&board->told[world->fault.rank]);
}

static bool exchange_is_complete(const plan_world *world, board *board) {
  for (int rank = 0; rank < world->size; rank++)
    if (!atomic_load(&board->told[rank])) return false;
  return true;
}

int exchange_texts(void *setting, const char *mine, ring_exchange_put_fn put, void *sink) {
  const player_setting *of = setting;
  const struct timespec moment = {.tv_nsec = 500000};
  uint64_t give_up = board_now() + EXCHANGE_NS;
  board *board = of->board;
  snprintf(board->texts[of->rank], sizeof board->texts[0], "%s", mine);
  atomic_store(&board->told[of->rank], true);
  while (!exchange_is_complete(of->world, board)) {
    if (exchange_is_broken(of->world, board) || board_now() > give_up) return -1;
    nanosleep(&moment, NULL);
  }
  for (int rank = 0; rank < of->world->size; rank++) put(sink, rank, board->texts[rank]);
  return 0;
}
