/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives: the ranks post their buffers, then copy or reduce between them.
 */
#ifndef RING_SHM_COLLECTIVES_LARGE_H
#define RING_SHM_COLLECTIVES_LARGE_H

#include "shm_collectives/job.h"

ring_status ring_shm_large(const ring_shm_job *job);

#endif
