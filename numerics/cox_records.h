/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of proportional hazards: rows in the order of stratum and time, of which each rank has an interval. A row
 * with a start time has a second record, of sign -1, at its start: so the rows at risk at a time are the records from
 * that time on. Records of the same stratum and time are on the same rank, and are a group.
 *
 * A record is num_cox_size() numbers: its fields, and from NUM_COX_X on its covariates, with zeros that fill up
 * vectors. So records are sent and sorted without knowing what they have. The first two fields are the key.
 */
#ifndef SPARKRING_NUMERICS_COX_RECORDS_H
#define SPARKRING_NUMERICS_COX_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  NUM_COX_STRATUM,
  NUM_COX_TIME,
  NUM_COX_SIGN,
  NUM_COX_EVENT,
  NUM_COX_WEIGHT,
  NUM_COX_OFFSET,
  NUM_COX_CLUSTER,
  NUM_COX_X
};

typedef struct {
  size_t count, width;
  const double *all;
} num_cox_records;

/* ---- Making records --------------------------------------------------------------------------------------------- */

/* Covariates, of which the number of row i and column k is x[i * row_step + k * column_step]. */
typedef struct {
  size_t count, width, row_step, column_step;
  const double *x;
} num_cox_columns;

size_t num_cox_size(size_t width);

/* The weighted sum of the distances of each column from its mean. `weights` may be NULL for 1. */
void num_cox_distances(const num_cox_columns *columns, const double *weights, const double *means,
                       double *sums);

/* Writes `count` records, in the order of the places `order`. `fields` are NUM_COX_X vectors of `count` numbers, one
 * after another. Covariates are those minus `means`, divided by `scales`. There may be more records than rows of
 * covariates: then these begin again. */
void num_cox_pack(double *all, size_t count, const double *fields, const num_cox_columns *columns,
                  const double *means, const double *scales, const int32_t *order);

/* ---- Order ------------------------------------------------------------------------------------------------------- */

/* Keys of two numbers: key i is all[i * step] and all[i * step + gap]. With the gap 0 it is one number. */
typedef struct {
  size_t count, step, gap;
  const double *all;
} num_cox_keys;

num_cox_keys num_cox_keys_of(const num_cox_records *records);

/* The places of the keys, from 0, in their order. Equal keys stay in theirs. `scratch` has `count` integers. */
void num_cox_order(const num_cox_keys *keys, int32_t *order, int32_t *scratch);

/* Copies rows of `size` numbers in this order. */
void num_cox_sort(const double *rows, size_t size, size_t count, const int32_t *order, double *to);

/* Keys of a rank at equal distances, by which the ranks divide all keys, each with the number of keys for which it
 * stands: NUM_COX_PROPOSAL numbers. Returns how many there are, NUM_COX_PROPOSALS at most. The keys are sorted. */
enum { NUM_COX_PROPOSALS = 256, NUM_COX_PROPOSAL = 3 };
size_t num_cox_propose(const num_cox_keys *keys, double *proposals);

/* How many of the sorted keys belong to each rank: intervals of nearly equal sizes, by the proposals of all ranks, in
 * their order. */
void num_cox_divide(const num_cox_keys *keys, const double *proposals, size_t proposed,
                    size_t ranks, double *counts);

/* ---- Sums over ranks -------------------------------------------------------------------------------------------- */

/* The sums of the ranks beyond this one that belong to its stratum at that side. The edge of each rank is: the stratum
 * at its near side, that at its far side, and `size` sums over the records of the former. A rank without records has
 * the stratum -1. `back`: ranks beyond have later times. */
void num_cox_carry(const double *edges, size_t ranks, size_t rank, size_t size, bool back,
                   double *carried);

#endif
