/* SPDX-License-Identifier: Apache-2.0
 *
 * Who asks for memory: the innermost calls of this program that led to an allocation and, where it
 * was OpenSSL that asked, the line of its source. Two allocations with the same are of one site. All
 * of it is the same in every process that was forked from this one, and, as hashes of offsets, in
 * every run of the same program.
 */
#ifndef RING_ORIGIN_H
#define RING_ORIGIN_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct origin {
  uint64_t line;    /* of OpenSSL's source, a hash; 0: the program itself asks */
  uint64_t callers; /* the innermost four frames of this program, a hash */
  unsigned long at; /* the innermost, as addr2line wants it */
} origin;

/* Of an allocation: from is the return address of the function that was asked for it, behind which
 * frames count; file and line are OpenSSL's, or NULL and 0. */
origin origin_find(void *from, const char *file, int line);

/* The site of an allocation. */
uint64_t origin_site(const origin *of);

/* All allocations of a process, in memory that may be shared. */
enum { JOURNAL_MOST = 16384 };
typedef struct journal {
  atomic_int count;
  origin asked[JOURNAL_MOST];
} journal;

/* From any thread. */
void journal_note(journal *in, const origin *from);

#endif
