/* SPDX-License-Identifier: Apache-2.0 */
#include "cox.h"

#include <math.h>
#include <string.h>

#include "exact.h"
#include "lanes.h"
#include "products.h"

/* ---- The state -------------------------------------------------------------------------------------------------- */

/* Numbers, then vectors of covariates, then sums of products. A sum is followed by what was rounded off. */
enum {
  COX_LOG,
  COX_EVENTS = 2,
  COX_RISK = 4,
  COX_DEAD = 6,
  COX_DEATHS = 8,
  COX_DIED,
  COX_ROWS,
  COX_HAZARD,
  COX_TIED,
  COX_NUMBERS
};
enum { COX_AT_RISK, COX_OF_DEAD = 2, COX_SCORE = 4, COX_MEAN = 6, COX_BETA, COX_VECTORS };

typedef struct {
  size_t stride;
  double *numbers, *vectors, *products;
} cox_state;

static size_t cox_stride(size_t width) {
  return num_cox_size(width) - NUM_COX_X;
}

size_t num_cox_state(size_t width) {
  size_t stride = cox_stride(width);
  return COX_NUMBERS + COX_VECTORS * stride + num_products_size(stride);
}

static cox_state cox_open(const num_cox_pass *pass) {
  cox_state s = {.stride = cox_stride(pass->records.width), .numbers = pass->state};
  s.vectors = s.numbers + COX_NUMBERS;
  s.products = s.vectors + COX_VECTORS * s.stride;
  return s;
}

static void cox_zero(double *numbers, size_t count) {
  memset(numbers, 0, count * sizeof *numbers);
}

static void cox_add(double *sum, double x) {
  double added, turn;
  EXACT_ADD(sum[0], sum[1], x);
}

static double cox_sum(const double *sum) {
  return sum[0] + sum[1];
}

/* Adds a multiple of a vector to a vector of sums, which is followed by the rests. */
LANES_INLINE void cox_add_vector(double *sums, const double *x, double factor, size_t stride) {
  for (size_t k = 0; k < stride; k += LANES) {
    lanes sum = LANES_AT(sums + k), rest = LANES_AT(sums + stride + k), added, turn;
    lanes term = LANES_AT(x + k) * factor;
    EXACT_ADD(sum, rest, term);
    LANES_PUT(sums + k, sum), LANES_PUT(sums + stride + k, rest);
  }
}

/* ---- Risks ------------------------------------------------------------------------------------------------------ */

static const double *cox_record(const num_cox_records *records, size_t record) {
  return records->all + record * num_cox_size(records->width);
}

LANES_INLINE double cox_predictor(const double *record, const double *beta, size_t stride) {
  lanes sum = {0};
  for (size_t k = 0; k < stride; k += LANES)
    sum += LANES_AT(record + NUM_COX_X + k) * LANES_AT(beta + k);
  return record[NUM_COX_OFFSET] + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

LANES_CLONES static void cox_risks(const num_cox_pass *pass, const cox_state *s, size_t from,
                                   size_t until) {
  for (size_t i = from; i < until; i++) {
    const double *record = cox_record(&pass->records, i);
    double predictor = cox_predictor(record, s->vectors + COX_BETA * s->stride, s->stride);
    pass->risks[i] = exp(predictor);
    if (record[NUM_COX_EVENT] > 0)
      cox_add(s->numbers + COX_LOG, record[NUM_COX_WEIGHT] * predictor);
  }
}

void num_cox_risks(const num_cox_pass *pass, size_t from, size_t until,
                   const double *coefficients) {
  cox_state s = cox_open(pass);
  double *beta = s.vectors + COX_BETA * s.stride;
  memset(beta, 0, s.stride * sizeof *beta);
  memcpy(beta, coefficients, pass->records.width * sizeof *beta);
  cox_risks(pass, &s, from, until);
}

static bool cox_same_stratum(const double *record, const double *other) {
  return record[NUM_COX_STRATUM] == other[NUM_COX_STRATUM];
}

static bool cox_same(const double *record, const double *other) {
  return record[NUM_COX_TIME] == other[NUM_COX_TIME] && cox_same_stratum(record, other);
}

static bool cox_begins(const num_cox_records *records, size_t i) {
  return i == 0 || !cox_same(cox_record(records, i), cox_record(records, i - 1));
}

/* Adds the records of the stratum of the first one to the sums at risk. */
LANES_CLONES static void cox_first_stratum(const num_cox_pass *pass, const cox_state *s) {
  const num_cox_records *records = &pass->records;
  for (size_t i = 0; i < records->count; i++) {
    const double *record = cox_record(records, i);
    if (!cox_same_stratum(record, records->all)) break;
    double risk = record[NUM_COX_SIGN] * (record[NUM_COX_WEIGHT] * pass->risks[i]);
    cox_add(s->numbers + COX_RISK, risk);
    cox_add_vector(s->vectors + COX_AT_RISK * s->stride, record + NUM_COX_X, risk, s->stride);
  }
}

/* The strata of the first and the last record. */
static void cox_strata(const num_cox_records *records, double *first, double *last) {
  *first = *last = -1;
  if (records->count == 0) return;
  *first = records->all[NUM_COX_STRATUM];
  *last = cox_record(records, records->count - 1)[NUM_COX_STRATUM];
}

void num_cox_edge_back(const num_cox_pass *pass, double *edge) {
  cox_state s = cox_open(pass);
  double *sums = s.vectors + COX_AT_RISK * s.stride, *risk = s.numbers + COX_RISK;
  cox_strata(&pass->records, edge, edge + 1);
  cox_first_stratum(pass, &s);
  edge[2] = cox_sum(risk);
  for (size_t k = 0; k < pass->records.width; k++) edge[3 + k] = sums[k] + sums[s.stride + k];
  cox_zero(risk, 2);
  cox_zero(sums, 2 * s.stride);
}

/* ---- Back in time ----------------------------------------------------------------------------------------------- */

size_t num_cox_row(size_t width, bool details) {
  return details ? NUM_COX_MOVED + 3 * width : NUM_COX_MOVED;
}

size_t num_cox_groups(const num_cox_records *records) {
  size_t groups = 0;
  bool known = false;
  for (size_t i = 0; i < records->count; i++) {
    known = known && !cox_begins(records, i);
    if (known || !(cox_record(records, i)[NUM_COX_EVENT] > 0)) continue;
    known = true;
    groups++;
  }
  return groups;
}

static void cox_add_details(const num_cox_pass *pass, const double *mean, double weight,
                            double hazard, double fraction, double *row) {
  size_t width = pass->records.width;
  double *moved = row + NUM_COX_MOVED, *shared = moved + width, *expected = shared + width;
  for (size_t k = 0; k < width; k++) {
    moved[k] += hazard * mean[k];
    shared[k] += fraction * hazard * mean[k];
    expected[k] += weight * mean[k];
  }
}

/* One step, with the weight of its events. */
LANES_INLINE void cox_step(const num_cox_pass *pass, const cox_state *s, double weight,
                           double fraction, double *row) {
  const double *at_risk = s->vectors + COX_AT_RISK * s->stride;
  const double *dead = s->vectors + COX_OF_DEAD * s->stride;
  double *mean = s->vectors + COX_MEAN * s->stride;
  double risk = cox_sum(s->numbers + COX_RISK) - fraction * cox_sum(s->numbers + COX_DEAD);
  double hazard = weight / risk;
  for (size_t k = 0; k < s->stride; k += LANES) {
    lanes sum = LANES_AT(at_risk + k) + LANES_AT(at_risk + s->stride + k);
    lanes less = LANES_AT(dead + k) + LANES_AT(dead + s->stride + k);
    LANES_PUT(mean + k, (sum - fraction * less) / risk);
  }
  cox_add(s->numbers + COX_LOG, -weight * log(risk));
  cox_add_vector(s->vectors + COX_SCORE * s->stride, mean, -weight, s->stride);
  num_products_add(s->products, s->stride, mean, -weight);
  row[NUM_COX_HAZARD] += hazard;
  row[NUM_COX_TIED] += fraction * hazard;
  row[NUM_COX_SQUARED] += hazard / risk;
  if (pass->details) cox_add_details(pass, mean, weight, hazard, fraction, row);
}

/* The steps of the group that begins with a record. */
LANES_INLINE void cox_steps(const num_cox_pass *pass, const cox_state *s, size_t record) {
  double deaths = s->numbers[COX_DEATHS], died = s->numbers[COX_DIED];
  if (deaths == 0) return;
  size_t size = num_cox_row(pass->records.width, pass->details);
  double *row = pass->rows + (pass->groups - (size_t)++s->numbers[COX_ROWS]) * size;
  memset(row, 0, size * sizeof *row);
  row[NUM_COX_FIRST] = (double)record;
  row[NUM_COX_OF] = cox_record(&pass->records, record)[NUM_COX_STRATUM];
  row[NUM_COX_DIED] = died;
  size_t steps = pass->efron ? (size_t)deaths : 1;
  for (size_t step = 0; step < steps; step++)
    cox_step(pass, s, died / (double)steps, (double)step / (double)steps, row);
  cox_add(s->numbers + COX_EVENTS, died);
}

/* Makes the sums those of the ranks with later times, at the last record, and 0 at the ends of strata and groups. */
static void cox_renew(const num_cox_pass *pass, const cox_state *s, size_t record,
                      const double *carried) {
  const num_cox_records *records = &pass->records;
  const double *now = cox_record(records, record), *last = now + num_cox_size(records->width);
  double *at_risk = s->vectors + COX_AT_RISK * s->stride;
  bool is_last = record + 1 == records->count;
  if (!is_last && cox_same(now, last)) return;
  cox_zero(s->numbers + COX_DEAD, COX_ROWS - COX_DEAD);
  cox_zero(s->vectors + COX_OF_DEAD * s->stride, 2 * s->stride);
  if (!is_last && cox_same_stratum(now, last)) return;
  cox_zero(s->numbers + COX_RISK, 2);
  cox_zero(at_risk, 2 * s->stride);
  if (!is_last) return;
  s->numbers[COX_RISK] = carried[0];
  memcpy(at_risk, carried + 1, records->width * sizeof *at_risk);
}

LANES_CLONES static void cox_back(const num_cox_pass *pass, const cox_state *s, size_t from,
                                  size_t until, const double *carried) {
  for (size_t i = until; i-- > from;) {
    const double *record = cox_record(&pass->records, i);
    double risk = record[NUM_COX_WEIGHT] * pass->risks[i], sign = record[NUM_COX_SIGN];
    cox_renew(pass, s, i, carried);
    cox_add(s->numbers + COX_RISK, sign * risk);
    cox_add_vector(s->vectors + COX_AT_RISK * s->stride, record + NUM_COX_X, sign * risk,
                   s->stride);
    if (record[NUM_COX_EVENT] > 0) {
      s->numbers[COX_DEATHS]++;
      s->numbers[COX_DIED] += record[NUM_COX_WEIGHT];
      cox_add(s->numbers + COX_DEAD, risk);
      cox_add_vector(s->vectors + COX_OF_DEAD * s->stride, record + NUM_COX_X, risk, s->stride);
    }
    if (cox_begins(&pass->records, i)) cox_steps(pass, s, i);
  }
}

void num_cox_back(const num_cox_pass *pass, size_t from, size_t until, const double *carried) {
  cox_state s = cox_open(pass);
  cox_back(pass, &s, from, until, carried);
  if (from == 0) s.numbers[COX_ROWS] = 0; /* from now on the number of the next row forward */
}

/* ---- Forward in time -------------------------------------------------------------------------------------------- */

void num_cox_edge_forward(const num_cox_pass *pass, double *edge) {
  const num_cox_records *records = &pass->records;
  size_t sums = pass->details ? 1 + records->width : 1;
  size_t size = num_cox_row(records->width, pass->details);
  cox_zero(edge + 2, sums);
  cox_strata(records, edge + 1, edge);
  for (size_t g = 0; g < pass->groups; g++) {
    const double *row = pass->rows + g * size;
    for (size_t k = 0; k < sums && row[NUM_COX_OF] == edge[0]; k++)
      edge[2 + k] += row[NUM_COX_HAZARD + k];
  }
}

/* The row of a group that begins with a record; NULL without one. */
static const double *cox_row_of(const num_cox_pass *pass, size_t number, size_t record) {
  const double *row = pass->rows + number * num_cox_row(pass->records.width, pass->details);
  return number < pass->groups && row[NUM_COX_FIRST] == (double)record ? row : NULL;
}

/* The hazard so far, and the tied one of the group, at a record. */
static void cox_advance(const num_cox_pass *pass, const cox_state *s, size_t record,
                        double carried) {
  const double *now = cox_record(&pass->records, record), *row;
  if (!cox_begins(&pass->records, record)) return;
  if (record == 0)
    s->numbers[COX_HAZARD] = carried;
  else if (!cox_same_stratum(now, cox_record(&pass->records, record - 1)))
    s->numbers[COX_HAZARD] = 0;
  s->numbers[COX_TIED] = 0;
  row = cox_row_of(pass, (size_t)s->numbers[COX_ROWS], record);
  if (!row) return;
  s->numbers[COX_ROWS]++;
  s->numbers[COX_HAZARD] += row[NUM_COX_HAZARD];
  s->numbers[COX_TIED] = row[NUM_COX_TIED];
}

LANES_CLONES static void cox_forward(const num_cox_pass *pass, const cox_state *s, size_t from,
                                     size_t until, double carried) {
  for (size_t i = from; i < until; i++) {
    const double *record = cox_record(&pass->records, i), *x = record + NUM_COX_X;
    double weight = record[NUM_COX_WEIGHT], risk = weight * pass->risks[i];
    cox_advance(pass, s, i, carried);
    double curvature = record[NUM_COX_SIGN] * risk * s->numbers[COX_HAZARD];
    if (record[NUM_COX_EVENT] > 0) {
      curvature -= risk * s->numbers[COX_TIED];
      cox_add_vector(s->vectors + COX_SCORE * s->stride, x, weight, s->stride);
    }
    num_products_add(s->products, s->stride, x, curvature);
  }
}

void num_cox_forward(const num_cox_pass *pass, size_t from, size_t until, const double *carried) {
  cox_state s = cox_open(pass);
  cox_forward(pass, &s, from, until, carried[0]);
}

size_t num_cox_sums(size_t width) {
  return NUM_COX_SCORE + width + width * width;
}

void num_cox_end(const num_cox_pass *pass, double *sums) {
  cox_state s = cox_open(pass);
  size_t width = pass->records.width;
  const double *score = s.vectors + COX_SCORE * s.stride;
  sums[NUM_COX_LOG] = cox_sum(s.numbers + COX_LOG);
  sums[NUM_COX_EVENTS] = cox_sum(s.numbers + COX_EVENTS);
  for (size_t k = 0; k < width; k++) sums[NUM_COX_SCORE + k] = score[k] + score[s.stride + k];
  num_products_get(s.products, s.stride, width, sums + NUM_COX_SCORE + width);
}

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

/* The residual of a record, with the sums so far, and the row of its group, if that has events. */
static void cox_residual(const num_cox_pass *pass, size_t record, const double *sums,
                         const double *row, double *to) {
  size_t width = pass->records.width;
  const double *fields = cox_record(&pass->records, record), *x = fields + NUM_COX_X;
  const double *shared = row + NUM_COX_MOVED + width, *expected = shared + width;
  double risk = pass->risks[record], weight = fields[NUM_COX_WEIGHT];
  for (size_t k = 0; k < width; k++) {
    double found = -fields[NUM_COX_SIGN] * risk * (x[k] * sums[0] - sums[1 + k]);
    if (fields[NUM_COX_EVENT] > 0)
      found +=
          x[k] - expected[k] / row[NUM_COX_DIED] + risk * (x[k] * row[NUM_COX_TIED] - shared[k]);
    to[k] = weight * found;
  }
}

void num_cox_residuals(const num_cox_pass *pass, double *carried, double *residuals) {
  const num_cox_records *records = &pass->records;
  size_t width = records->width, rows = 0;
  const double *row = pass->rows;
  for (size_t i = 0; i < records->count; i++) {
    const double *record = cox_record(records, i);
    bool begins = cox_begins(records, i);
    if (begins && i > 0 && !cox_same_stratum(record, cox_record(records, i - 1)))
      cox_zero(carried, 1 + width);
    const double *next = begins ? cox_row_of(pass, rows, i) : NULL;
    for (size_t k = 0; k <= width && next; k++) carried[k] += next[NUM_COX_HAZARD + k];
    if (next) row = next, rows++;
    residuals[i * (1 + width)] = record[NUM_COX_CLUSTER];
    cox_residual(pass, i, carried, row, residuals + i * (1 + width) + 1);
  }
}
