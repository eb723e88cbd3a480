/* SPDX-License-Identifier: Apache-2.0
 *
 * sparkring's driver. The ranks find each other through the environment.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparkring.h"

static ring_comm *comm;

static void check(ring_status status) {
  if (status == RING_OK) return;
  fprintf(stderr, "bench driver: %s\n", ring_comm_error(comm)->message);
  exit(1);
}

static void allreduce(const float *input, float *output, size_t count) {
  check(ring_allreduce(comm, input, output, count, RING_FLOAT32, RING_SUM));
}

static void reduce(const float *input, float *output, size_t count) {
  check(ring_reduce(comm, input, output, count, RING_FLOAT32, RING_SUM, 0));
}

static void reduce_scatter(const float *input, float *output, size_t count) {
  check(ring_reduce_scatter(comm, input, output, count, RING_FLOAT32, RING_SUM));
}

static void broadcast(const float *input, float *output, size_t count) {
  float *buffer = ring_comm_rank(comm) == 0 ? (float *)input : output;
  check(ring_broadcast(comm, buffer, buffer, count, RING_FLOAT32, 0));
}

static void allgather(const float *input, float *output, size_t count) {
  check(ring_allgather(comm, input, output, count, RING_FLOAT32));
}

static void gather(const float *input, float *output, size_t count) {
  check(ring_gather(comm, input, output, count, RING_FLOAT32, 0));
}

static void scatter(const float *input, float *output, size_t count) {
  check(ring_scatter(comm, input, output, count, RING_FLOAT32, 0));
}

static void alltoall(const float *input, float *output, size_t count) {
  check(ring_alltoall(comm, input, output, count, RING_FLOAT32));
}

const collective library_collectives[] = {
    {"allreduce", allreduce}, {"reduce", reduce},       {"reduce_scatter", reduce_scatter},
    {"broadcast", broadcast}, {"allgather", allgather}, {"gather", gather},
    {"scatter", scatter},     {"alltoall", alltoall},   {NULL, NULL},
};

world library_open(const char *folder) {
  (void)folder;
  ring_options options = RING_OPTIONS_INIT;
  options.timeout = 30;
  ring_error error;
  if (ring_comm_open(&options, &comm, &error) != RING_OK) {
    fprintf(stderr, "bench driver: %s\n", error.message);
    exit(1);
  }
  return (world){ring_comm_rank(comm), ring_comm_size(comm)};
}

void library_barrier(void) {
  check(ring_barrier(comm));
}

void library_close(void) {
  check(ring_comm_close(comm));
  ring_comm_free(comm);
}

/* A shaped link is tcp, too. */
const char *library_link(const char *wanted) {
  const char *link = "";
  for (int peer = 0; peer < ring_comm_size(comm) && !*link; peer++)
    if (peer != ring_comm_rank(comm)) link = ring_comm_link(comm, peer);
  return (strcmp(link, "shm") == 0) == (strcmp(wanted, "shm") == 0) ? wanted : link;
}

void *library_alloc(size_t bytes) {
  void *memory = NULL;
  if (strcmp(library_link("shm"), "shm") == 0) check(ring_alloc(comm, bytes, &memory));
  return memory;
}

void library_free(void *memory) {
  ring_free(memory);
}

const int library_copies = 0;
