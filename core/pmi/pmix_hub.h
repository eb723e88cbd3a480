/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMIx part of the hub: fences between hosts, data of one program for another one, names, and programs that
 * ended without PMIx_Init while others wait.
 */
#ifndef RING_PMI_PMIX_HUB_H
#define RING_PMI_PMIX_HUB_H

#include "pmi/key_values.h"
#include "pmi/pmix_control.h"

/* The data of one host for a fence. */
typedef struct ring_pmix_part {
  uint64_t ticket;
  ring_hub_payload *data; /* behind its kind; NULL: nothing was sent */
} ring_pmix_part;

/* A fence that some host waits in. */
typedef struct ring_pmix_fence {
  struct ring_pmix_fence *next;
  int count;  /* of ranks that take part; 0: all */
  char *head; /* ranks and name, as in the control message */
  size_t head_length;
  int beginner;          /* the host that came first */
  bool *takes_part;      /* by host */
  ring_pmix_part *parts; /* by host */
  int missing;           /* hosts */
} ring_pmix_fence;

typedef struct ring_pmix_hub {
  int size, hosts;
  int *nodes, *leads; /* by rank; by host */
  bool *active;       /* by rank: its program has called PMIx_Init */
  size_t *kept;       /* by host: bytes of its data in fences, and of the fences that it began */
  ring_pmix_fence *fences;
  uint32_t completed; /* fences */
} ring_pmix_hub;

/* `nodes`: the host of each rank. False without memory. */
bool ring_pmix_hub_begin(ring_pmix_hub *hub, const int *nodes, int size);
void ring_pmix_hub_end(ring_pmix_hub *hub);

/* Whether a payload of this kind is for this hub. */
bool ring_pmix_hub_takes(char kind);

/* Handles one control message of a rank. RING_OK, or *error: why the servers have to end. */
ring_status ring_pmix_hub_take(ring_pmix_hub *hub, ring_hub *control, ring_key_values *names,
                               int rank, char kind, const char *bytes, size_t length,
                               ring_error *error);

/* The least rank whose program waits for that of `ended`, which has ended. `silent`: without PMIx_Init. -1: there
 * is none. */
int ring_pmix_hub_waiting(const ring_pmix_hub *hub, int ended, bool silent);

#endif
