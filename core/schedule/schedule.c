/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include <stdlib.h>

const ring_schedule ring_schedule_empty;

void ring_schedule_free(ring_schedule *schedule) {
  free(schedule->lanes);
  free(schedule->steps);
  *schedule = (ring_schedule){0};
}
