/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: from calls to collectives. A call is one collective, or a group of buffers that is cut into
 * several. Every long buffer of a group is reduced where it lies; short ones are copied into bundles
 * that are reduced as one, because latency is most of the time of a short allreduce. The cut depends
 * on the counts alone, so all ranks cut alike. A digest of the counts is in every frame, so ranks
 * that disagree find out by the first one.
 */
#ifndef RING_API_FUSION_H
#define RING_API_FUSION_H

#include "api/collective.h"

/* Runs an admitted call, the buffers of a group being in its store. A failure breaks the communicator. */
ring_status ring_fusion_run(ring_comm *comm, collective_args *args, ring_wait *wait);

/* The same with the communicator's call timeout. A failure becomes the communicator's error, too. A call on memory of
 * a GPU is carried out by its device; its failure breaks the device alone. */
ring_status ring_fusion_run_here(ring_comm *comm, collective_args *args);

#endif
