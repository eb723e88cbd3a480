/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules: the user's own choice of algorithms, as text such as
 *   allreduce:ring:64KiB-,broadcast:tree:-1MiB
 * A rule is a collective, an algorithm and, if it is not for every size, a range of bytes: FROM-,
 * -TO or FROM-TO, both ends included, where a number may end in KiB, MiB or GiB. The first rule
 * that speaks of a call counts. One whose algorithm cannot serve that very call (halving for
 * float16, hierarchical on one host) is passed over: dtype and topology are known to all ranks alike,
 * and a rule for all sizes should not have to except a dtype.
 */
#ifndef RING_TUNER_RULES_H
#define RING_TUNER_RULES_H

#include "schedule/algorithm.h"

typedef struct ring_rule {
  uint8_t collective, algorithm;
  uint64_t from, to; /* bytes, both included */
} ring_rule;

enum { RING_RULES_MOST = 32 };

typedef struct ring_rules {
  ring_rule rules[RING_RULES_MOST];
  int count;
} ring_rules;

/* Reads the text; NULL and "" are no rules. RING_INVALID names the rule that is bad and what it may
 * be; `source` is where the text came from. */
ring_status ring_rules_parse(ring_rules *rules, const char *source, const char *text,
                             ring_error *error);

/* The rule for a call of `bytes`, or NULL. *unfit is set where one was passed over. */
const ring_rule *ring_rules_find(const ring_rules *rules, const ring_call *call,
                                 const ring_topology *topology, uint64_t bytes, bool *unfit);

#endif
