/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of MPI that the backend needs, whichever library is loaded. A driver calls the functions of a library by
 * its binary interface (mpi_constants.h); one table for each interface. No driver knows ranks of a communicator
 * of ours, deadlines or errors: its functions return MPI's codes, 0 for success.
 */
#ifndef RING_BACKEND_MPI_DRIVER_H
#define RING_BACKEND_MPI_DRIVER_H

#include <stdbool.h>

#include "backend/mpi_constants.h"
#include "sparkring.h"

/* An object of MPI. Zeroed: none. */
typedef union ring_mpi_handle {
  void *pointer;
  int number;
} ring_mpi_handle;

/* Ops of ours, where MPI leaves the result open: what NaN gives, and sums that overflow. Open MPI 4 saturates
 * short integers, and MPICH 4.0 compares unsigned ones as signed. X(name, dtype, op). */
#define RING_MPI_OWN_OP_MAP(X)                                                                     \
  X(SUM_UINT8, RING_UINT8, RING_SUM)                                                               \
  X(PROD_UINT8, RING_UINT8, RING_PROD)                                                             \
  X(MIN_UINT8, RING_UINT8, RING_MIN)                                                               \
  X(MAX_UINT8, RING_UINT8, RING_MAX)                                                               \
  X(SUM_UINT16, RING_UINT16, RING_SUM)                                                             \
  X(PROD_UINT16, RING_UINT16, RING_PROD)                                                           \
  X(MIN_UINT16, RING_UINT16, RING_MIN)                                                             \
  X(MAX_UINT16, RING_UINT16, RING_MAX)                                                             \
  X(MIN_UINT32, RING_UINT32, RING_MIN)                                                             \
  X(MAX_UINT32, RING_UINT32, RING_MAX)                                                             \
  X(MIN_UINT64, RING_UINT64, RING_MIN)                                                             \
  X(MAX_UINT64, RING_UINT64, RING_MAX)                                                             \
  X(MIN_FLOAT32, RING_FLOAT32, RING_MIN)                                                           \
  X(MAX_FLOAT32, RING_FLOAT32, RING_MAX)                                                           \
  X(MIN_FLOAT64, RING_FLOAT64, RING_MIN)                                                           \
  X(MAX_FLOAT64, RING_FLOAT64, RING_MAX)

typedef enum ring_mpi_op {
#define RING_MPI_OP_ENUM(name, ...) RING_MPI_##name,
  RING_MPI_OP_MAP(RING_MPI_OP_ENUM) RING_MPI_OWN_OP_MAP(RING_MPI_OP_ENUM)
#undef RING_MPI_OP_ENUM
      RING_MPI_OPS
} ring_mpi_op;

/* One nonblocking collective of MPI. A buffer that this rank does not use is NULL. */
typedef struct ring_mpi_work {
  uint8_t collective; /* ring_collective */
  uint8_t dtype;      /* ring_dtype of the elements that MPI sees */
  uint8_t op;         /* ring_mpi_op, of reductions */
  int root;
  const void *send;
  void *receive;
  bool sends_in_place;    /* the input lies in `receive`, at the place that MPI defines */
  bool receives_in_place; /* scatter on root: this rank's part stays in `send` */
  int count;              /* of a part: what this rank sends; in scatter what it receives */
  /* By rank, of collectives with counts: alltoallv has all, scatterv those of `send`, others those of
   * `receive`. */
  const int *send_counts, *send_offsets, *receive_counts, *receive_offsets;
} ring_mpi_work;

/* The threads that may call MPI: the one that initialized it, any, or several at the same time. */
typedef enum ring_mpi_threads {
  RING_MPI_ONE_THREAD,
  RING_MPI_IN_TURNS,
  RING_MPI_AT_ONCE
} ring_mpi_threads;

typedef struct ring_mpi_driver {
  const char *name; /* of the interface, for errors */

  /* Looks the functions up. NULL, or the name of what the library lacks. */
  const char *(*find)(void *library);

  int (*state)(int *initialized, int *finalized);
  bool (*is_finalized)(void);
  int (*init)(
      void); /* for threads at the same time, where the library can; errors are returned from then on */
  int (*threads)(ring_mpi_threads *threads);
  int (*finalize)(void);
  int (*progress)(void);              /* moves data that is under way */
  int (*world)(int *rank, int *size); /* this process in MPI_COMM_WORLD */
  int (*make_ops)(void);              /* once, after init */

  /* A communicator of these ranks of MPI_COMM_WORLD, in that order, whose errors are returned. Blocks until
   * all of them have called it. Calls of other threads at the same time have another tag, below 32768. */
  int (*form)(const int *ranks, int count, int tag, ring_mpi_handle *comm);
  int (*release)(ring_mpi_handle *comm);

  int (*start)(ring_mpi_handle comm, const ring_mpi_work *work, ring_mpi_handle *request);

  /* Start one message of bytes. Messages of two ranks with one tag, below 32768, keep their order. */
  int (*send)(ring_mpi_handle comm, const void *buffer, int bytes, int peer, int tag,
              ring_mpi_handle *request);
  int (*receive)(ring_mpi_handle comm, void *buffer, int bytes, int peer, int tag,
                 ring_mpi_handle *request);

  int (*test)(ring_mpi_handle *request, int *done);

  bool (*is_truncation)(int code); /* a message was longer than its receiver expects */
  void (*explain)(int code, char text[RING_MPI_TEXT]);
} ring_mpi_driver;

extern const ring_mpi_driver ring_mpi_driver_mpich, ring_mpi_driver_standard,
    ring_mpi_driver_open_mpi;

#endif
