/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way in which one rank, the odd one, can call something else than all others, who agree: two
 * programs of up to two calls and an end, one for the odd rank and one for the rest, for each number
 * of ranks, each place of the odd one among them, and each length of calls (which run in slots, in
 * stages, in chunks, and on buffers in the arena).
 *
 * A message is one between the odd rank and the next, its partner; the others leave it out.
 */
#ifndef RING_DISAGREEMENTS_H
#define RING_DISAGREEMENTS_H

#include "calls.h"

enum { DISAGREEMENT_CALLS = 2 };

/* How a program ends: by close; the process ends without it; or it frees what is still open. */
typedef enum disagreement_end {
  DISAGREEMENT_CLOSES,
  DISAGREEMENT_EXITS,
  DISAGREEMENT_FREES
} disagreement_end;

typedef struct program {
  int count;
  call calls[DISAGREEMENT_CALLS];
  disagreement_end end;
} program;

typedef struct disagreement {
  int size, odd;
  program rest, other; /* other: of the odd rank */
} disagreement;

/* All of them, in an order that stays; free them with free. */
disagreement *disagreements_make(size_t *count);

/* The program of a rank. */
const program *disagreement_of(const disagreement *of, int rank);

/* What disagrees with what: the kind that the others call first, and that of the odd rank, or nothing
 * where that ends before. A number below DISAGREEMENT_PAIRS, all of which occur. */
enum { DISAGREEMENT_PAIRS = CALL_KINDS * (CALL_KINDS + 1) };
int disagreement_pair(const disagreement *of);

/* Whether a rank's call may succeed: where all ranks have made the same one, or it needs none of
 * those that have not. */
bool disagreement_may_succeed(const disagreement *of, int rank, int call);

/* "3 ranks: rank 1 calls barrier(), close where the others call split(), close" */
void disagreement_print(const disagreement *of, char *text, size_t size);

#endif
