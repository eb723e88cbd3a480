/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules: the choice of algorithms by the user, as a string such as
 *
 *   allreduce:ring:64KiB-,broadcast:tree:-1MiB
 *
 * A rule is a collective, an algorithm and optionally a range of bytes: FROM-, -TO or FROM-TO, both
 * ends included. A number may end in KiB, MiB or GiB. The first rule that matches a call counts. A
 * rule whose algorithm cannot serve the call (halving for float16, hierarchical on one host) is
 * skipped: all ranks know dtype and topology alike, and a rule for all sizes should not have to
 * except a dtype.
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

/* Parses the text; NULL and "" are no rules. RING_INVALID names the bad rule and its choices.
 * `source` names the option or variable in the error. */
ring_status ring_rules_parse(ring_rules *rules, const char *source, const char *text,
                             ring_error *error);

/* The first rule for a call of `bytes`, or NULL. Sets *unfit when a rule was skipped. */
const ring_rule *ring_rules_find(const ring_rules *rules, const ring_call *call,
                                 const ring_topology *topology, uint64_t bytes, bool *unfit);

#endif
