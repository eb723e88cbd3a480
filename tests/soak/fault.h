/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong in a world: how the victim does it, and the errors that the others must get. A fault on
 * a communicator breaks that one only, a death breaks all that the victim belongs to. Every rank of
 * it has to get an error that names the victim, in time; nobody may get one before it has happened,
 * or on a communicator that it does not concern.
 *
 * Three things are only found when time is over: a death before the others are connected to the victim, a
 * victim that is stopped, and calls that differ where nobody has sent anything to a rank that could compare
 * it. A rank that waits in the latter two until then can make ranks that wait for it on the other
 * communicator wait too long.
 */
#ifndef SOAK_FAULT_H
#define SOAK_FAULT_H

#include "state.h"

/* Why a call failed, as far as the judgement depends on it. */
typedef enum fault_phase { FAULT_OPENING, FAULT_SPLITTING, FAULT_CALLING } fault_phase;

typedef struct fault_case {
  const plan_world *world;
  state *state;
  fault_phase phase;
  bool doomed;    /* the fault breaks this communicator */
  int victim;     /* the victim's rank in it */
  bool own;       /* this rank is the victim */
  uint64_t begun; /* when this rank began to wait */
  double patience;
} fault_case;

/* Whether the fault of the world breaks the communicator of that many ranks, in which the victim
 * has rank `victim`, or -1. */
bool fault_dooms(const plan_world *world, bool child, int victim, int size);

/* Whether ranks of a communicator that the fault does not break may wait too long, too (see above). */
bool fault_drags(const plan_world *world);

/* Marks the fault as happened, from now on or at the moment that a timer goes off. */
void fault_mark(state *state, int delay_us);

/* The victim dies now, or is killed or stopped after its delay, whatever it is doing then. */
void fault_die(state *state);
void fault_strike_later(const plan_fault *fault, state *state);

/* Returns when the victim was stopped and goes on, and never if it is to be killed: what is to come
 * at any moment must not come in another world. */
void fault_await(const plan_fault *fault);

/* How a fault was found: at once, after so many nanoseconds; or only when the time was over that
 * the ranks have for opening or for a call. */
typedef struct fault_finding {
  bool by_timeout;
  bool named; /* the victim: its rank, its host if it was lost, and the call, but for opening */
  uint64_t ns, late_ns; /* late: after it was due, which is at once or at the deadline */
} fault_finding;

/* Whether `error` is what this rank must get. If not, why. */
bool fault_judge(const fault_case *of, const ring_error *error, fault_finding *finding, char *why,
                 size_t size);

/* Makes the deadlines of this process and its children suit the load of the machine. */
void fault_expect_load(void);

/* Seconds that opening and calls may take in this world. */
double fault_open_timeout(const plan_world *world);
double fault_call_timeout(const plan_world *world);

#endif
