/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: many buffers, one call. Every long buffer is reduced where it lies; short ones are copied
 * into bundles that are reduced as one, because what a short allreduce costs is its latency. How a
 * group is cut depends on its counts alone, so all ranks cut alike; a digest of the counts is in
 * every frame, so ranks that disagree hear of it from the first one.
 */
#ifndef RING_FUSION_H
#define RING_FUSION_H

#include "api/collective.h"

/* Runs an admitted allreduce_group, whose buffers are in its store. */
ring_status ring_fusion_run(ring_comm *comm, collective_args *group, ring_wait *wait);

#endif
