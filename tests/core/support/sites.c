/* SPDX-License-Identifier: Apache-2.0 */
#include "sites.h"

#include <stdlib.h>

#include "check.h"

static void sites_add_one(sites *to, const origin *who, int run) {
  int i = 0;
  while (i < to->count && origin_site(&to->all[i].origin) != origin_site(who)) i++;
  if (i == to->count) {
    to->all = realloc(to->all, (size_t)++to->count * sizeof *to->all);
    CHECK(to->all != NULL);
    to->all[i] = (site){.origin = *who};
  }
  to->all[i].counts[run]++;
}

void sites_add(sites *to, const journal *in, int run) {
  for (int i = 0; i < in->count; i++) sites_add_one(to, &in->asked[i], run);
}

site_news sites_news(const sites *in, int number) {
  const origin *own = &in->all[number].origin;
  site_news found = {true, true, true};
  for (int i = 0; i < number; i++) {
    const origin *other = &in->all[i].origin;
    if (other->line == own->line) found.line = false;
    if ((other->line != 0) != (own->line != 0)) continue;
    if (other->callers == own->callers) found.callers = false;
    if (other->at == own->at) found.call = false;
  }
  return found;
}

int site_turn(const site *of, int run) {
  do run = (run + 1) % SITE_RUNS;
  while (of->counts[run] == 0);
  return run;
}
