/* SPDX-License-Identifier: Apache-2.0
 *
 * Overrides: the user's own choice of algorithms, as text such as
 *   allreduce:ring:64KiB-,broadcast:tree:-1MiB
 * A rule is a collective, an algorithm and, if it is not for every size, a range of bytes: FROM-,
 * -TO or FROM-TO, both ends included, where a number may end in KiB, MiB or GiB. The first rule
 * that speaks of a call counts. One whose algorithm cannot serve that very call (halving for
 * float16, hierarchical on one host) is passed over: dtype and layout are known to all ranks alike,
 * and a rule for all sizes should not have to except a dtype.
 */
#ifndef RING_OVERRIDE_H
#define RING_OVERRIDE_H

#include "algorithm.h"

typedef struct ring_override {
  uint8_t collective, algorithm;
  uint64_t from, to; /* bytes, both included */
} ring_override;

enum { RING_OVERRIDES_MOST = 32 };

typedef struct ring_overrides {
  ring_override rules[RING_OVERRIDES_MOST];
  int count;
} ring_overrides;

/* Reads the text; NULL and "" are no rules. RING_INVALID names the rule that is bad and what it may
 * be; `source` is where the text came from. */
ring_status ring_overrides_parse(ring_overrides *overrides, const char *source, const char *text,
                                 ring_error *error);

/* The rule for a call of `bytes`, or NULL. *unfit is set where one was passed over. */
const ring_override *ring_overrides_find(const ring_overrides *overrides, const ring_call *call,
                                         const ring_layout *layout, uint64_t bytes, bool *unfit);

#endif
