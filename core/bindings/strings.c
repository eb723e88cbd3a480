/* SPDX-License-Identifier: Apache-2.0
 *
 * Three collectives: how many strings and bytes each rank has, the lengths of the strings, the bytes. The numbers of
 * each collective are checked before memory or a further collective depends on them.
 */
#include "bindings/strings.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"

/* The most strings of a rank, and the most bytes of them. */
#define STRINGS_MOST (INT64_C(16) << 20)
#define STRINGS_BYTES_MOST (INT64_C(256) << 20)

typedef struct strings_totals {
  int64_t count, bytes;
} strings_totals;

/* Memory of one gathering. */
typedef struct strings_work {
  strings_totals *totals; /* of each rank */
  size_t *bytes;          /* of each rank */
  int64_t *lengths;       /* of the strings of all ranks */
} strings_work;

static size_t strings_at_least_one(size_t count) {
  return count > 0 ? count : 1;
}

static ring_status strings_no_memory(ring_comm *comm) {
  ring_comm_abort(comm, "out of memory for the strings of all ranks");
  return RING_NO_MEMORY;
}

/* Checks the totals of all ranks: none is negative or beyond the limits, and those of this rank are its own. */
static ring_status strings_check_totals(ring_comm *comm, const strings_totals *totals,
                                        const strings_totals *own) {
  static const char what[] = "an impossible number of strings";
  for (int rank = 0; rank < ring_comm_size(comm); rank++) {
    const strings_totals *its = &totals[rank];
    if (its->count < 0 || its->bytes < 0 || its->count > STRINGS_MOST ||
        its->bytes > STRINGS_BYTES_MOST)
      return ring_comm_accuse(comm, rank, what);
  }
  bool mine = memcmp(&totals[ring_comm_rank(comm)], own, sizeof *own) == 0;
  return mine ? RING_OK : ring_comm_accuse(comm, -1, what);
}

static ring_status strings_gather_totals(ring_comm *comm, const ring_string *mine, size_t count,
                                         strings_work *work, ring_strings *all) {
  size_t size = (size_t)ring_comm_size(comm);
  work->totals = calloc(strings_at_least_one(size), sizeof *work->totals);
  work->bytes = calloc(strings_at_least_one(size), sizeof *work->bytes);
  all->counts = calloc(strings_at_least_one(size), sizeof *all->counts);
  if (work->totals == NULL || work->bytes == NULL || all->counts == NULL)
    return strings_no_memory(comm);
  strings_totals own = {.count = (int64_t)count};
  for (size_t i = 0; i < count; i++) own.bytes += (int64_t)mine[i].length;
  ring_status status = ring_allgather(comm, &own, work->totals, 2, RING_INT64);
  if (status == RING_OK) status = strings_check_totals(comm, work->totals, &own);
  for (size_t rank = 0; status == RING_OK && rank < size; rank++) {
    all->counts[rank] = (size_t)work->totals[rank].count;
    work->bytes[rank] = (size_t)work->totals[rank].bytes;
  }
  return status;
}

static size_t strings_sum(const size_t *counts, int size) {
  size_t sum = 0;
  for (int rank = 0; rank < size; rank++) sum += counts[rank];
  return sum;
}

/* The lengths of a rank's strings add up to its bytes. */
static bool strings_add_up(const int64_t *lengths, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; bytes -= (size_t)lengths[i++])
    if (lengths[i] < 0 || (size_t)lengths[i] > bytes) return false;
  return bytes == 0;
}

static ring_status strings_check_lengths(ring_comm *comm, const strings_work *work,
                                         const size_t *counts) {
  const int64_t *lengths = work->lengths;
  for (int rank = 0; rank < ring_comm_size(comm); lengths += counts[rank++])
    if (!strings_add_up(lengths, counts[rank], work->bytes[rank]))
      return ring_comm_accuse(comm, rank, "strings whose lengths do not add up");
  return RING_OK;
}

/* Gathers in place: this rank's part of the result is its input. */
static ring_status strings_gather_lengths(ring_comm *comm, const ring_string *mine, size_t count,
                                          strings_work *work, ring_strings *all) {
  size_t total = strings_sum(all->counts, ring_comm_size(comm));
  work->lengths = calloc(strings_at_least_one(total), sizeof *work->lengths);
  all->strings = calloc(strings_at_least_one(total), sizeof *all->strings);
  if (work->lengths == NULL || all->strings == NULL) return strings_no_memory(comm);
  int64_t *own = work->lengths + strings_sum(all->counts, ring_comm_rank(comm));
  for (size_t i = 0; i < count; i++) own[i] = (int64_t)mine[i].length;
  ring_status status = ring_allgatherv(comm, own, work->lengths, all->counts, RING_INT64);
  return status == RING_OK ? strings_check_lengths(comm, work, all->counts) : status;
}

static ring_status strings_gather_bytes(ring_comm *comm, const ring_string *mine, size_t count,
                                        strings_work *work, ring_strings *all) {
  size_t total = strings_sum(work->bytes, ring_comm_size(comm));
  all->memory = malloc(strings_at_least_one(total));
  if (all->memory == NULL) return strings_no_memory(comm);
  char *own = all->memory + strings_sum(work->bytes, ring_comm_rank(comm)), *to = own;
  for (size_t i = 0; i < count; to += mine[i++].length)
    if (mine[i].length > 0) memcpy(to, mine[i].bytes, mine[i].length);
  return ring_allgatherv(comm, own, all->memory, work->bytes, RING_UINT8);
}

static void strings_cut(const strings_work *work, size_t total, ring_strings *all) {
  const char *at = all->memory;
  for (size_t i = 0; i < total; i++) {
    all->strings[i] = (ring_string){at, (size_t)work->lengths[i]};
    at += work->lengths[i];
  }
}

ring_status ring_strings_allgather(ring_comm *comm, const ring_string *mine, size_t count,
                                   ring_strings *all) {
  strings_work work = {0};
  *all = (ring_strings){0};
  ring_status status = strings_gather_totals(comm, mine, count, &work, all);
  if (status == RING_OK) status = strings_gather_lengths(comm, mine, count, &work, all);
  if (status == RING_OK) status = strings_gather_bytes(comm, mine, count, &work, all);
  if (status == RING_OK) strings_cut(&work, strings_sum(all->counts, ring_comm_size(comm)), all);
  free(work.totals);
  free(work.bytes);
  free(work.lengths);
  return status;
}

void ring_strings_free(ring_strings *all) {
  free(all->strings);
  free(all->counts);
  free(all->memory);
  *all = (ring_strings){0};
}
