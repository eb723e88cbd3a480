/* SPDX-License-Identifier: Apache-2.0
 *
 * Small collectives: each rank publishes its payload in its slot or its staging buffer, and every
 * rank reads the payloads that it needs and combines them in rank order by itself.
 */
#ifndef RING_SHM_COLLECTIVES_SMALL_H
#define RING_SHM_COLLECTIVES_SMALL_H

#include "shm_collectives/job.h"

ring_status ring_shm_small(const ring_shm_job *job);

#endif
