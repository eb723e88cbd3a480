/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library has to bring to be measured by driver.c: these few functions, and one table row a
 * collective. Rank 0 is the root. A function that fails prints why and exits.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* count is the number of elements of one block: the whole vector of allreduce and broadcast, what
 * one rank gives to each in allgather and alltoall. A broadcast is in place, in the input of the
 * root and the output of the others, because MPI's is. */
typedef struct collective {
  const char *name; /* NULL ends the table */
  void (*run)(const float *input, float *output, size_t count);
} collective;

extern const collective library_collectives[];

typedef struct world {
  int rank, size;
} world;

/* `folder` is empty and shared by all ranks, for libraries whose ranks find each other by files. */
world library_open(const char *folder);
void library_barrier(void);
void library_close(void);

/* "tcp" or "shm" where the library reports which it uses, else `wanted`. */
const char *library_link(const char *wanted);

/* Memory that all ranks reach without copies, aligned to 64 bytes; NULL where the library has none
 * to give, and then only ordinary memory is measured. */
void *library_alloc(size_t bytes);
void library_free(void *memory);

/* No library but the floor: its output is its input. */
extern const int library_copies;

#ifdef __cplusplus
}
#endif

#endif
