/* SPDX-License-Identifier: Apache-2.0
 *
 * The sites that ask for memory (origin.h), in the order in which they first did, and how often each
 * asked in each of several runs.
 */
#ifndef RING_SITES_H
#define RING_SITES_H

#include <stdbool.h>

#include "origin.h"

enum { SITE_RUNS = 10 };

typedef struct site {
  origin origin;
  long counts[SITE_RUNS];
} site;

typedef struct sites {
  site *all; /* free it with free */
  int count;
} sites;

/* All that asked in the run of that number. */
void sites_add(sites *to, const journal *in, int run);

/* What of a site no site before it has: the line of OpenSSL; the callers; the call of an allocator. */
typedef struct site_news {
  bool line, callers, call;
} site_news;
site_news sites_news(const sites *in, int number);

/* The next run after `run` in which the site asked. */
int site_turn(const site *of, int run);

#endif
