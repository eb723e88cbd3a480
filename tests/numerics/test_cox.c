/* SPDX-License-Identifier: Apache-2.0
 *
 * The partial likelihood against sums over all pairs of rows; records in order and divided; the matrix of a step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cox.h"
#include "cox_newton.h"
#include "cox_times.h"
#include "positive.h"

enum { ROWS = 150, WIDTH = 3, RECORDS = 2 * ROWS, RANKS = 3, SUMS = 2 + WIDTH + WIDTH * WIDTH };

static const double coefficients[WIDTH] = {0.3, -0.5, 0.2};

typedef struct {
  double stratum, start, stop, event, weight, x[WIDTH];
} row;

static row rows[ROWS];

/* Rows with ties, of two strata. */
static void make_rows(void) {
  for (int i = 0; i < ROWS; i++) {
    rows[i] = (row){.stratum = i % 2, .stop = 1 + i * 7 % 31, .event = i % 3 != 0};
    rows[i].start = rows[i].stop - 1 - i % 5;
    rows[i].weight = 1 + i % 4 / 2.0;
    for (int k = 0; k < WIDTH; k++) rows[i].x[k] = sin(i * (k + 1.7));
  }
}

static num_cox_records make_records(double *all) {
  double fields[NUM_COX_X][RECORDS];
  const double zeros[WIDTH] = {0}, ones[WIDTH] = {1, 1, 1};
  int32_t order[RECORDS], scratch[RECORDS];
  for (int i = 0; i < RECORDS; i++) {
    const row *of = &rows[i % ROWS];
    bool stops = i < ROWS;
    const double record[NUM_COX_X] = {of->stratum,       stops ? of->stop : of->start,
                                      stops ? 1 : -1,    stops ? of->event : 0,
                                      of->weight,        0,
                                      (double)(i % ROWS)};
    for (int k = 0; k < NUM_COX_X; k++) fields[k][i] = record[k];
  }
  const num_cox_columns columns = {ROWS, WIDTH, sizeof(row) / sizeof(double), 1, rows[0].x};
  const num_cox_keys keys = {RECORDS, 1, RECORDS, fields[0]};
  num_cox_order(&keys, order, scratch);
  num_cox_pack(all, RECORDS, fields[0], &columns, zeros, ones, order);
  return (num_cox_records){RECORDS, WIDTH, all};
}

/* ---- All pairs -------------------------------------------------------------------------------------------------- */

static double risk_of(const row *of) {
  double sum = 0;
  for (int k = 0; k < WIDTH; k++) sum += of->x[k] * coefficients[k];
  return of->weight * exp(sum);
}

/* Sums over the rows at risk at the time of a row, less a part of the events at that time: of the risk, and of the risk
 * times covariates and their products. */
static void at_risk(const row *now, double part, double *sums) {
  memset(sums, 0, SUMS * sizeof *sums);
  for (int i = 0; i < ROWS; i++) {
    const row *of = &rows[i];
    if (of->stratum != now->stratum || of->start >= now->stop || of->stop < now->stop) continue;
    double risk = risk_of(of) * (of->event > 0 && of->stop == now->stop ? 1 - part : 1);
    sums[0] += risk;
    for (int j = 0; j < WIDTH; j++) {
      sums[2 + j] += risk * of->x[j];
      for (int k = 0; k < WIDTH; k++) sums[2 + WIDTH + j * WIDTH + k] += risk * of->x[j] * of->x[k];
    }
  }
}

static void add_step(const row *now, double weight, double part, double *found) {
  double sums[SUMS], *mean = sums + 2, *products = mean + WIDTH;
  at_risk(now, part, sums);
  for (int k = 0; k < WIDTH; k++) mean[k] /= sums[0];
  found[NUM_COX_LOG] -= weight * log(sums[0]);
  for (int j = 0; j < WIDTH; j++) {
    found[NUM_COX_SCORE + j] -= weight * mean[j];
    for (int k = 0; k < WIDTH; k++)
      found[2 + WIDTH + j * WIDTH + k] +=
          weight * (products[j * WIDTH + k] / sums[0] - mean[j] * mean[k]);
  }
}

/* The sums of a pass. */
static void all_pairs(bool efron, double *found) {
  memset(found, 0, SUMS * sizeof *found);
  for (int i = 0; i < ROWS; i++) {
    double deaths = 0, died = 0, before = 0;
    for (int j = 0; j < ROWS; j++) {
      bool tied = rows[j].stratum == rows[i].stratum && rows[j].stop == rows[i].stop;
      if (!tied || rows[j].event == 0) continue;
      deaths++, died += rows[j].weight, before += j < i;
    }
    if (rows[i].event == 0) continue;
    found[NUM_COX_LOG] += rows[i].weight * log(risk_of(&rows[i]) / rows[i].weight);
    found[NUM_COX_EVENTS] += rows[i].weight;
    for (int k = 0; k < WIDTH; k++) found[NUM_COX_SCORE + k] += rows[i].weight * rows[i].x[k];
    add_step(&rows[i], died / deaths, efron ? before / deaths : 0, found);
  }
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

typedef struct {
  num_cox_pass pass;
  double risks[RECORDS], rows[RECORDS * 16], state[4096], edges[2][3 + WIDTH], sums[SUMS];
} visit;

static void begin(visit *v, const double *all, size_t count, bool efron) {
  memset(v, 0, sizeof *v);
  v->pass = (num_cox_pass){.records = {count, WIDTH, all},
                           .efron = efron,
                           .details = true,
                           .risks = v->risks,
                           .rows = v->rows,
                           .state = v->state};
  v->pass.groups = num_cox_groups(&v->pass.records);
  num_cox_risks(&v->pass, 0, count, coefficients);
  num_cox_edge_back(&v->pass, v->edges[0]);
}

/* Visits in parts of `part` records. */
static void back(visit *v, const double *carried, size_t part) {
  for (size_t until = v->pass.records.count; until > 0; until -= until < part ? until : part)
    num_cox_back(&v->pass, until < part ? 0 : until - part, until, carried);
  num_cox_edge_forward(&v->pass, v->edges[1]);
}

static void forward(visit *v, const double *carried, size_t part) {
  size_t count = v->pass.records.count;
  for (size_t from = 0; from < count; from += part)
    num_cox_forward(&v->pass, from, from + part < count ? from + part : count, carried);
  num_cox_end(&v->pass, v->sums);
}

static void pass_of_rank(visit *v, const double *all, size_t part, bool efron) {
  const double none[1 + WIDTH] = {0};
  begin(v, all, RECORDS, efron);
  back(v, none, part);
  forward(v, none, part);
}

/* The same of ranks, which are divided by the records' own proposals. Returns their score residuals, added up. */
static void pass_of_ranks(const num_cox_records *records, bool efron, double *sums,
                          double *residuals) {
  static visit v[RANKS];
  double counts[RANKS], proposals[NUM_COX_PROPOSALS * NUM_COX_PROPOSAL], carried[1 + WIDTH];
  double edges[2][RANKS][3 + WIDTH], found[RECORDS * (1 + WIDTH)];
  num_cox_keys keys = num_cox_keys_of(records);
  size_t size = num_cox_size(WIDTH), from = 0;
  num_cox_divide(&keys, proposals, num_cox_propose(&keys, proposals), RANKS, counts);
  memset(sums, 0, SUMS * sizeof *sums);
  memset(residuals, 0, WIDTH * sizeof *residuals);
  for (int r = 0; r < RANKS; from += (size_t)counts[r++]) {
    CHECK(fabs(counts[r] - RECORDS / RANKS) < 30);
    begin(&v[r], records->all + from * size, (size_t)counts[r], efron);
    memcpy(edges[0][r], v[r].edges[0], sizeof edges[0][r]);
  }
  CHECK(from == RECORDS);
  for (size_t r = 0; r < RANKS; r++) {
    num_cox_carry(edges[0][0], RANKS, r, 1 + WIDTH, true, carried);
    back(&v[r], carried, RECORDS);
    memcpy(edges[1][r], v[r].edges[1], sizeof edges[1][r]);
  }
  for (size_t r = 0; r < RANKS; r++) {
    num_cox_carry(edges[1][0], RANKS, r, 1 + WIDTH, false, carried);
    forward(&v[r], carried, RECORDS);
    for (int k = 0; k < SUMS; k++) sums[k] += v[r].sums[k];
    num_cox_residuals(&v[r].pass, carried, found);
    for (size_t i = 0; i < v[r].pass.records.count * (1 + WIDTH); i++)
      if (i % (1 + WIDTH) > 0) residuals[i % (1 + WIDTH) - 1] += found[i];
  }
}

static bool are_near(const double *found, const double *wanted, int count) {
  bool same = true;
  for (int i = 0; i < count; i++)
    same &= fabs(found[i] - wanted[i]) < 1e-10 * (1 + fabs(wanted[i]));
  return same;
}

static void test_passes(void) {
  static double all[RECORDS * (NUM_COX_X + 4)], wanted[SUMS], sums[SUMS], residuals[WIDTH];
  static visit whole, parts;
  make_rows();
  num_cox_records records = make_records(all);
  for (int efron = 0; efron < 2; efron++) {
    all_pairs(efron, wanted);
    pass_of_rank(&whole, all, RECORDS, efron);
    pass_of_rank(&parts, all, 7, efron);
    CHECK(are_near(whole.sums, wanted, SUMS));
    CHECK(memcmp(whole.sums, parts.sums, sizeof whole.sums) == 0);
    pass_of_ranks(&records, efron, sums, residuals);
    CHECK(are_near(sums, wanted, SUMS));
    CHECK(are_near(residuals, wanted + NUM_COX_SCORE, WIDTH));
  }
}

/* ---- The rest --------------------------------------------------------------------------------------------------- */

/* The third column is the sum of the first two, and the last has no information. */
static void test_steps(void) {
  enum { COLUMNS = 4 };
  const double information[COLUMNS * COLUMNS] = {4, 1, 5, 0, 1, 3, 4, 0, 5, 4, 9, 0, 0, 0, 0, 0};
  double sums[2 + COLUMNS + COLUMNS * COLUMNS] = {-10, 1, 1, 2, 3, 0}, step[COLUMNS];
  double variance[COLUMNS * COLUMNS], scratch[128];
  int32_t kept[COLUMNS] = {1, 1, 1, 1};
  CHECK(num_positive_scratch(COLUMNS) <= 128);
  memcpy(sums + 2 + COLUMNS, information, sizeof information);
  double test = num_cox_step(sums, COLUMNS, 1, 1e-12, kept, step, variance, scratch);
  CHECK(kept[0] && kept[1] && !kept[2] && !kept[3]);
  CHECK(fabs(step[0] - 1 / 11.0) < 1e-15 && fabs(step[1] - 7 / 11.0) < 1e-15);
  CHECK(step[2] == 0 && step[3] == 0 && variance[10] == 0);
  CHECK(fabs(variance[0] - 3 / 11.0) < 1e-15 && variance[1] == variance[4]);
  CHECK(fabs(test - 15 / 11.0) < 1e-14);
  double wald = num_positive_wald(information, COLUMNS, sums + 2, 1e-9, kept, scratch);
  CHECK(fabs(wald - 15 / 11.0) < 1e-14);
  CHECK(num_cox_change(-10, -10) == 0 && fabs(num_cox_change(-10, -8) - 0.25) < 1e-15);
}

static void test_times(void) {
  const double times[] = {0.3, 0.1 + 0.2, 1, 1 + 1e-9, 1 + 2e-9, 2};
  const double edges[][NUM_COX_EDGE] = {{1, 0.1, 1 - 1e-9, 1 - 2e-9}, {0}, {1, 1, 1, 1}};
  double firsts[6];
  CHECK(num_cox_times_sum(times, 2) == 0.3 + (0.1 + 0.2));
  num_cox_chains(times, 6, 1, firsts);
  CHECK(firsts[1] == 0.3 && firsts[2] == 1 && firsts[3] == 1 && firsts[4] == 1 && firsts[5] == 2);
  CHECK(num_cox_chain_before(edges[0], 3, 1) == 1 - 2e-9);
  CHECK(num_cox_chain_before(edges[2], 1, 1) == 1);
}

int main(void) {
  RUN(test_passes);
  RUN(test_steps);
  RUN(test_times);
  return 0;
}
