/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables, read in two steps. The first step finds the rank, the size and the host of
 * rank 0. Its source is the first program that has set its variables: sparkring-run, Open MPI, MPICH,
 * torchrun, Slurm. Slurm is last, because torchrun and MPI may run inside a Slurm job. Without a source
 * the world has one rank. SPARKRING_ADDRESSES, _ROOT_ADDRESS, _TOKEN (token.h), _JOB, _PORTS and _TIMEOUT
 * count with every source.
 *
 * The second step reads SPARKRING_ALGORITHM, _SHARED_MEMORY, _CONNECTIONS, _ENCRYPTION, _BACKEND and
 * _WARN_AFTER, also where a caller passes the ranks itself.
 */
#ifndef RING_API_ENVIRONMENT_H
#define RING_API_ENVIRONMENT_H

#include <stdbool.h>

#include "sparkring.h"

#define RING_ENVIRONMENT_ALGORITHMS "SPARKRING_ALGORITHM"
#define RING_ENVIRONMENT_BACKEND "SPARKRING_BACKEND"
#define RING_ENVIRONMENT_PROGRAM "SPARKRING_PROGRAM" /* 1 in MPI programs that ranks have started */

typedef struct ring_environment {
  const char *source; /* "sparkring-run", "Open MPI", "MPICH", "torchrun", "Slurm"; NULL: none */
  int rank;           /* 0 and 1 without a source */
  int size;
  char **addresses; /* one a rank, checked by ring_address_parse, or NULL */
  int address_count;
  char root_address[256]; /* rank 0's host without a port; "" only where addresses are known */
  char *token;            /* see token.h */
  size_t token_length;
  char job[128]; /* distinguishes this job from other jobs; "" where nothing does */
  int port_first, port_last;
  double timeout; /* seconds; this and the ports are 0 where unset */
} ring_environment;

/* Reads the environment. A malformed variable is RING_INVALID with an *error (which may be NULL)
 * that names it, its value (never the token's) and what to do; *environment is then empty and needs
 * no free. */
ring_status ring_environment_read(ring_environment *environment, ring_error *error);

/* Frees what read allocated, and wipes the token. May be called twice. */
void ring_environment_free(ring_environment *environment);

/* RING_OFF where SPARKRING_SHARED_MEMORY is 0, else RING_DEFAULT. */
ring_choice ring_environment_shared_memory(void);

/* The number in SPARKRING_CONNECTIONS; 0 where it is unset. RING_INVALID for what is no whole number. */
ring_status ring_environment_connections(int *connections, ring_error *error);

/* RING_ON or RING_OFF where SPARKRING_ENCRYPTION is 1 or 0, RING_DEFAULT where it is unset. RING_INVALID
 * for any other value. */
ring_status ring_environment_encryption(ring_choice *encryption, ring_error *error);

/* The seconds in SPARKRING_WARN_AFTER; RING_NEVER where they are 0, and 0 where it is unset. */
ring_status ring_environment_warn_after(double *seconds, ring_error *error);

#endif
