/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include <unistd.h>

#include "check.h"
#include "values.h"

ring_comm *open_at(int rank, int size, const place *place) {
  static char hosts[SIZE_MOST][32];
  static const char *addresses[SIZE_MOST];
  ring_options options = rank_options(rank, size);
  for (int i = 0; i < size; i++) {
    snprintf(hosts[i], sizeof hosts[i], "127.0.0.%d:4242", place->nodes[i] - '0' + 1);
    addresses[i] = hosts[i];
  }
  options.addresses = addresses;
  options.algorithms = place->algorithms;
  return open_with(&options);
}

void run_place(rank_function function, place with) {
  RUN_RANKS((int)strlen(with.nodes), function, with);
}

void place_barrier(place *place, int size) {
  int before = __sync_fetch_and_add(&place->arrived, 1);
  while (*(volatile int *)&place->arrived < (before / size + 1) * size) usleep(200);
}

void check_same_everywhere(ring_comm *comm, place *place, const void *bytes, size_t length) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  place->digests[rank] = digest_of(bytes, length);
  place_barrier(place, size);
  for (int other = 0; other < size; other++) CHECK(place->digests[other] == place->digests[rank]);
  place_barrier(place, size);
}

ring_explanation explained(ring_comm *comm, const char *collective, size_t bytes,
                           ring_dtype dtype) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, bytes, dtype, 0, &explanation), RING_OK);
  return explanation;
}
