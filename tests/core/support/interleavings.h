/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleavings: runs a scenario of several threads of the real code in every order, within a bound.
 *
 * Each thread of the scenario is a context on one thread of the system. The test is linked with --wrap for the
 * functions by which threads synchronize: mutexes, conditions, poll(), the start and the end of threads, the clock. At each
 * lock and each wait the explorer chooses the thread that goes on. It records the choices of a run, and the next
 * run takes the next alternative of the last choice that has one, until there is none.
 *
 * The bound is the number of preemptions in a run: a thread stops although it could go on, or a pause ends although
 * a thread could run. All orders with fewer preemptions are run. Reads and writes of atomics without a mutex are no
 * points of choice; the sanitizer of threads checks those.
 *
 * Waits of 50 ms or more never time out. They are slices for hooks, and hide a lost wake-up. Shorter waits are pauses
 * and time out. A run in which no thread can go on, or in which pauses end again and again while nothing else
 * happens, has lost a wake-up: the explorer prints the last steps, and the test fails.
 */
#ifndef RING_INTERLEAVINGS_H
#define RING_INTERLEAVINGS_H

#include <stdbool.h>

/* Reads the argument of a test: the number of preemptions to add to each bound, for a long run. */
void interleavings_configure(int argc, char **argv);

/* Runs a scenario in every order, and prints the number of runs. The scenario ends all its threads. */
void interleavings_explore(const char *name, void (*scenario)(void *arg), void *arg,
                           int preemptions);

/* The same for a scenario without an argument. */
#define EXPLORE(scenario, preemptions) interleavings_explore(#scenario, scenario, NULL, preemptions)

/* Between both calls there are choices. Before the first, a thread goes on as long as it can. */
void interleavings_begin(void);
void interleavings_end(void);

/* Starts a thread of the scenario; waits for all that were started so. */
void interleavings_start(void (*function)(void *arg), void *arg);
void interleavings_join(void);

/* Lets another thread go on: for what the test puts in place of code that takes time. */
void interleavings_yield(void);

/* From now on no thread of the code can be started, or can again. */
void interleavings_refuse_threads(bool refuses);

/* Chooses a number below `count`; each is tried. */
int interleavings_choose(int count);

#endif
