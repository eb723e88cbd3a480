/* SPDX-License-Identifier: Apache-2.0
 *
 * Forked ranks: run one function as n processes that open a communicator together, and collect what
 * each of them left in memory that all share. A rank that fails a check, crashes or outlives the
 * limit fails the test.
 */
#ifndef RING_RANKS_H
#define RING_RANKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "sparkring.h"

#define RANKS_MAX 33

/* What a rank runs. `shared` is memory of all ranks and the parent. */
typedef void (*rank_function)(int rank, int size, void *shared);

/* Forks `size` processes that run `function` and waits for all of them. */
void run_ranks(int size, rank_function function, void *shared);

/* The same with a communicator that is opened before and closed after. */
typedef void (*comm_function)(ring_comm *comm, void *shared);
void run_comms(int size, comm_function function, void *shared);

/* The same, where `shared` is memory that begins as a copy of a value:
 * RUN_RANKS(3, function, (int[16]){0}). */
void run_ranks_with(int size, rank_function function, const void *value, size_t length);
void run_comms_with(int size, comm_function function, const void *value, size_t length);
#define RUN_RANKS(size, function, ...)                                                             \
  run_ranks_with(size, function, &(__VA_ARGS__), sizeof(__VA_ARGS__))
#define RUN_COMMS(size, function, ...)                                                             \
  run_comms_with(size, function, &(__VA_ARGS__), sizeof(__VA_ARGS__))

/* Counts the ranks that have arrived, in shared memory, and waits for all. After an open, it makes certain
 * that no rank is still opening, which a failure that is to come could reach. */
void ranks_barrier(int *arrived, int size);

/* Waits until ranks have counted up to `least` in shared memory; the time limit of a rank ends an endless wait. */
void await_count(const int *count, int least);

/* The time by a clock that only goes forward. */
double seconds(void);

/* Forks; a child that lives for longer than so many seconds is killed. */
pid_t fork_for(unsigned seconds);

/* Zeroed memory that forked processes share; free it with shared_free. */
void *shared_alloc(size_t length);
void shared_free(void *memory, size_t length);

/* Whether ranks share memory: true unless SPARKRING_SHARED_MEMORY is 0, with which every test of ranks
 * runs a second time, and some again with connections and with encryption. ranks_link is the name of their
 * links, ranks_network that of links which are not in memory. */
extern bool ranks_share;
const char *ranks_link(void);
const char *ranks_network(void);

/* Options for rank of size on 127.0.0.1, with a token of this test program's own. */
ring_options rank_options(int rank, int size);

/* Checks how a call has failed, the rank that it blames, and what the text has; prints the error if it
 * is another one. */
void ranks_expect(ring_comm *comm, ring_status status, ring_status expected, int fault,
                  const char *text);

/* Opens with these options, or with rank_options, and checks that it worked. */
ring_comm *open_with(const ring_options *options);
ring_comm *open_rank(int rank, int size);

/* Closes, checks that it worked, and frees. */
void close_rank(ring_comm *comm);

#endif
