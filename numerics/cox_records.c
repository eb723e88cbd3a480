/* SPDX-License-Identifier: Apache-2.0 */
#include "cox_records.h"

#include <math.h>
#include <string.h>

#include "lanes.h"

/* ---- Making records --------------------------------------------------------------------------------------------- */

size_t num_cox_size(size_t width) {
  return NUM_COX_X + (width + LANES - 1) / LANES * LANES;
}

void num_cox_distances(const num_cox_columns *columns, const double *weights, const double *means,
                       double *sums) {
  memset(sums, 0, columns->width * sizeof *sums);
  for (size_t k = 0; k < columns->width; k++) {
    const double *x = columns->x + k * columns->column_step;
    for (size_t i = 0; i < columns->count; i++)
      sums[k] += (weights ? weights[i] : 1) * fabs(x[i * columns->row_step] - means[k]);
  }
}

void num_cox_pack(double *all, size_t count, const double *fields, const num_cox_columns *columns,
                  const double *means, const double *scales, const int32_t *order) {
  size_t size = num_cox_size(columns->width);
  for (size_t i = 0; i < count; i++) {
    size_t record = (size_t)order[i];
    double *to = all + i * size;
    const double *x = columns->x + record % columns->count * columns->row_step;
    for (size_t k = 0; k < NUM_COX_X; k++) to[k] = fields[k * count + record];
    for (size_t k = 0; k < columns->width; k++)
      to[NUM_COX_X + k] = (x[k * columns->column_step] - means[k]) / scales[k];
    for (size_t k = NUM_COX_X + columns->width; k < size; k++) to[k] = 0;
  }
}

/* ---- Order ------------------------------------------------------------------------------------------------------ */

num_cox_keys num_cox_keys_of(const num_cox_records *records) {
  return (num_cox_keys){.count = records->count,
                        .step = num_cox_size(records->width),
                        .gap = NUM_COX_TIME,
                        .all = records->all};
}

static const double *cox_key(const num_cox_keys *keys, size_t place) {
  return keys->all + place * keys->step;
}

static bool cox_before(const double *key, size_t gap, const double *other, size_t other_gap) {
  return key[0] < other[0] || (key[0] == other[0] && key[gap] < other[other_gap]);
}

static bool cox_turned(const num_cox_keys *keys, int32_t place, int32_t next) {
  return cox_before(cox_key(keys, (size_t)next), keys->gap, cox_key(keys, (size_t)place),
                    keys->gap);
}

/* Merges two sorted parts. Equal keys of the first part come first. */
static void cox_merge(const num_cox_keys *keys, const int32_t *from, size_t middle, size_t end,
                      int32_t *to) {
  if (middle == end || !cox_turned(keys, from[middle - 1], from[middle])) {
    memcpy(to, from, end * sizeof *to);
    return;
  }
  for (size_t i = 0, j = middle, k = 0; k < end; k++) {
    bool second = i == middle || (j < end && cox_turned(keys, from[i], from[j]));
    to[k] = second ? from[j++] : from[i++];
  }
}

void num_cox_order(const num_cox_keys *keys, int32_t *order, int32_t *scratch) {
  for (size_t i = 0; i < keys->count; i++) order[i] = (int32_t)i;
  for (size_t part = 1; part < keys->count; part *= 2) {
    for (size_t from = 0; from < keys->count; from += 2 * part) {
      size_t left = keys->count - from, end = left < 2 * part ? left : 2 * part;
      cox_merge(keys, order + from, part < end ? part : end, end, scratch + from);
    }
    memcpy(order, scratch, keys->count * sizeof *order);
  }
}

void num_cox_sort(const double *rows, size_t size, size_t count, const int32_t *order, double *to) {
  for (size_t i = 0; i < count; i++)
    memcpy(to + i * size, rows + (size_t)order[i] * size, size * sizeof *to);
}

size_t num_cox_propose(const num_cox_keys *keys, double *proposals) {
  size_t last = keys->count - 1;
  size_t found = keys->count < NUM_COX_PROPOSALS ? keys->count : NUM_COX_PROPOSALS;
  for (size_t i = 0; i < found; i++) {
    const double *key = cox_key(keys, found > 1 ? i * last / (found - 1) : 0);
    double *to = proposals + i * NUM_COX_PROPOSAL;
    to[0] = key[0], to[1] = key[keys->gap], to[2] = (double)keys->count / (double)found;
  }
  return found;
}

/* The last key of a rank: with the keys before it, `share` keys. */
static const double *cox_cut(const double *proposals, size_t proposed, double share) {
  double sum = 0;
  for (size_t i = 0; i + 1 < proposed; i++, proposals += NUM_COX_PROPOSAL) {
    sum += proposals[2];
    if (sum >= share) break;
  }
  return proposals;
}

/* The number of keys up to a cut. */
static size_t cox_until(const num_cox_keys *keys, const double *cut) {
  size_t low = 0, high = keys->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (cox_before(cut, 1, cox_key(keys, middle), keys->gap))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void num_cox_divide(const num_cox_keys *keys, const double *proposals, size_t proposed,
                    size_t ranks, double *counts) {
  double total = 0, done = 0;
  for (size_t i = 0; i < proposed; i++) total += proposals[i * NUM_COX_PROPOSAL + 2];
  for (size_t rank = 0; rank < ranks; rank++) {
    double share = (double)(rank + 1) / (double)ranks * total, until = (double)keys->count;
    if (rank + 1 < ranks && proposed > 0)
      until = (double)cox_until(keys, cox_cut(proposals, proposed, share));
    counts[rank] = until - done;
    done = until;
  }
}

/* ---- Sums over ranks -------------------------------------------------------------------------------------------- */

void num_cox_carry(const double *edges, size_t ranks, size_t rank, size_t size, bool back,
                   double *carried) {
  const double *own = edges + rank * (size + 2);
  memset(carried, 0, size * sizeof *carried);
  for (size_t step = 1; back ? rank + step < ranks : step <= rank; step++) {
    const double *edge = edges + (back ? rank + step : rank - step) * (size + 2);
    if (edge[0] < 0) continue;
    if (edge[0] != own[1]) break;
    for (size_t k = 0; k < size; k++) carried[k] += edge[2 + k];
    if (edge[1] != own[1]) break;
  }
}
