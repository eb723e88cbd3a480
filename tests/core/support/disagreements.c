/* SPDX-License-Identifier: Apache-2.0 */
#include "disagreements.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

/* What a program may call: each kind, a message to the odd rank, and one from it. */
enum { SUBJECT_TO_ODD = CALL_message, SUBJECT_FROM_ODD, SUBJECTS };

typedef struct disagreements {
  disagreement *all;
  size_t count, capacity;
} disagreements;

/* One place and length, for which all are made. */
typedef struct disagreement_frame {
  disagreements *into;
  int size, odd;
  size_t count;
  bool arena;
} disagreement_frame;

static bool call_equals(const call *one, const call *other) {
  return one->kind == other->kind && one->dtype == other->dtype && one->op == other->op &&
         one->count == other->count && one->root == other->root && one->peer == other->peer &&
         one->buffers == other->buffers && one->skewed == other->skewed &&
         one->sends == other->sends;
}

const program *disagreement_of(const disagreement *of, int rank) {
  return rank == of->odd ? &of->other : &of->rest;
}

int disagreement_pair(const disagreement *of) {
  int odd = of->other.count > 0 ? (int)of->other.calls[0].kind : CALL_KINDS;
  return (int)of->rest.calls[0].kind * (CALL_KINDS + 1) + odd;
}

bool disagreement_may_succeed(const disagreement *of, int rank, int call) {
  const program *mine = disagreement_of(of, rank);
  const program *theirs = rank == of->odd ? &of->rest : &of->other;
  const struct call *made = &mine->calls[call];
  if (call < theirs->count && call_equals(made, &theirs->calls[call])) return true;
  if (made->sends) return true; /* what it receives is as it expects */
  for (int other = 0; other < of->size; other++)
    if ((other == of->odd) != (rank == of->odd) && call_needs(made, rank, other)) return false;
  return true;
}

/* ---- Making ------------------------------------------------------------------------------- */

static void disagreements_add(const disagreement_frame *frame, program rest, program other) {
  disagreements *into = frame->into;
  if (into->count == into->capacity) {
    into->capacity = into->capacity == 0 ? 1024 : 2 * into->capacity;
    into->all = realloc(into->all, into->capacity * sizeof *into->all);
    CHECK(into->all != NULL);
  }
  into->all[into->count++] =
      (disagreement){.size = frame->size, .odd = frame->odd, .rest = rest, .other = other};
}

static call frame_call(const disagreement_frame *frame, int subject) {
  int partner = (frame->odd + 1) % frame->size;
  bool message = subject >= SUBJECT_TO_ODD;
  return (call){.kind = message ? CALL_message : (call_kind)subject,
                .dtype = RING_FLOAT32,
                .count = frame->count,
                .root = !message                    ? 0
                        : subject == SUBJECT_TO_ODD ? partner
                                                    : frame->odd,
                .peer = subject == SUBJECT_TO_ODD ? frame->odd : partner,
                .buffers = 2,
                .arena = frame->arena};
}

static program program_one(call one) {
  return (program){.count = 1, .calls = {one}};
}

static program program_two(call one, call other) {
  return (program){.count = 2, .calls = {one, other}};
}

/* The same kind with another argument. */
static void frame_vary(const disagreement_frame *frame, int subject) {
  call one = frame_call(frame, subject), other = one;
  bool data = one.kind != CALL_barrier && one.kind != CALL_split;
  if (data) other.dtype = RING_INT32;
  if (data) disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.count++;
  if (data) disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.op = RING_MAX;
  if (call_reduces(one.kind)) disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.root = 1;
  if (call_has_root(one.kind)) disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.skewed = true;
  if (call_has_counts(one.kind) && one.kind != CALL_alltoallv)
    disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.sends = true;
  if (one.kind == CALL_alltoallv) disagreements_add(frame, program_one(one), program_one(other));
  other = one;
  other.buffers++;
  if (one.kind == CALL_allreduce_group)
    disagreements_add(frame, program_one(one), program_one(other));
}

/* The odd rank calls once more, or not at all and ends in one way or another. */
static void frame_lengthen(const disagreement_frame *frame, int subject) {
  call one = frame_call(frame, subject);
  disagreements_add(frame, program_one(one), program_two(one, one));
  for (int end = DISAGREEMENT_CLOSES; end <= DISAGREEMENT_FREES; end++)
    disagreements_add(frame, program_one(one), (program){.end = (disagreement_end)end});
}

/* Two calls in one order or the other. A message that is sent early waits until it is wanted, so its
 * receiver has to be the one that wants it first, and the other call has to keep its sender. */
static void frame_swap(const disagreement_frame *frame, int one, int other) {
  call first = frame_call(frame, one), second = frame_call(frame, other);
  bool message = second.kind == CALL_message;
  if (first.kind == CALL_message || (message && call_has_root(first.kind))) return;
  if (other == SUBJECT_FROM_ODD)
    disagreements_add(frame, program_two(second, first), program_two(first, second));
  else
    disagreements_add(frame, program_two(first, second), program_two(second, first));
}

static void frame_fill(const disagreement_frame *frame) {
  for (int one = 0; one < SUBJECTS; one++) {
    frame_vary(frame, one);
    frame_lengthen(frame, one);
    for (int other = 0; other < SUBJECTS; other++) {
      if (one == other) continue;
      disagreements_add(frame, program_one(frame_call(frame, one)),
                        program_one(frame_call(frame, other)));
      if (one < other) frame_swap(frame, one, other);
    }
  }
}

disagreement *disagreements_make(size_t *count) {
  static const int sizes[] = {2, 3, 5};
  static const size_t counts[] = {8, 5000, 300000, 300000};
  disagreements made = {0};
  for (size_t length = 0; length < 4; length++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int odd = 0; odd < sizes[i]; odd++) {
        disagreement_frame frame = {&made, sizes[i], odd, counts[length], length == 3};
        if (odd == 0 || odd == sizes[i] / 2 || odd == sizes[i] - 1) frame_fill(&frame);
      }
  *count = made.count;
  return made.all;
}

/* ---- Words -------------------------------------------------------------------------------- */

static void program_print(const program *of, char *text, size_t size) {
  static const char *const ends[] = {"close", "exit", "free"};
  size_t length = 0;
  for (int i = 0; i < of->count && length < size; i++) {
    char one[128];
    call_print(&of->calls[i], one, sizeof one);
    length += (size_t)snprintf(text + length, size - length, "%s, ", one);
  }
  if (length < size) snprintf(text + length, size - length, "%s", ends[of->end]);
}

void disagreement_print(const disagreement *of, char *text, size_t size) {
  char rest[320], other[320];
  program_print(&of->rest, rest, sizeof rest);
  program_print(&of->other, other, sizeof other);
  snprintf(text, size, "%d ranks: rank %d calls %s where the others call %s%s", of->size, of->odd,
           other, rest, of->rest.calls[0].arena ? ", in the arena" : "");
}
