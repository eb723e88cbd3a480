/* SPDX-License-Identifier: Apache-2.0 */
#include "origin.h"

#include <unwind.h>

#include "check.h"

enum { ORIGIN_FRAMES = 4 };

typedef struct origin_walk {
  origin *into;
  uintptr_t from; /* 0 until the frames of the allocator's replacement are known */
  int found;
} origin_walk;

extern char __executable_start, etext;

static uint64_t origin_mix(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * UINT64_C(0xbf58476d1ce4e5b9);
  return hash ^ hash >> 31;
}

static _Unwind_Reason_Code origin_see(struct _Unwind_Context *context, void *arg) {
  origin_walk *walk = arg;
  uintptr_t at = (uintptr_t)_Unwind_GetIP(context), start = (uintptr_t)&__executable_start;
  if (at == walk->from) walk->from = 0;
  if (walk->from != 0 || at < start || at >= (uintptr_t)&etext) return _URC_NO_REASON;
  if (walk->found == 0) walk->into->at = at - start - 1;
  walk->into->callers = origin_mix(walk->into->callers, at - start);
  return ++walk->found < ORIGIN_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

origin origin_find(void *from, const char *file, int line) {
  origin found = {0};
  if (file != NULL) found.line = origin_mix(1, (uint64_t)line);
  for (; file != NULL && *file != '\0'; file++) found.line = origin_mix(found.line, (uint8_t)*file);
  _Unwind_Backtrace(origin_see, &(origin_walk){&found, (uintptr_t)from, 0});
  return found;
}

uint64_t origin_site(const origin *of) {
  return origin_mix(of->line, of->callers);
}

void journal_note(journal *in, const origin *from) {
  int number = atomic_fetch_add(&in->count, 1);
  CHECK(number < JOURNAL_MOST);
  in->asked[number] = *from;
}
