/* SPDX-License-Identifier: Apache-2.0
 *
 * The partial likelihood of proportional hazards, its derivatives and its residuals, in three visits of the records:
 * their risks; then back in time, with sums over the rows at risk; then forward, with the hazard so far. Between two
 * visits the ranks add what they need of each other, by num_cox_carry(). A visit may be made in parts.
 *
 * Sums over the rows at risk are compensated (see moments.h), because rows that have not started are subtracted.
 */
#ifndef SPARKRING_NUMERICS_COX_H
#define SPARKRING_NUMERICS_COX_H

#include "cox_records.h"

/* A row for each group with events, in the order of time. Efron's treatment of d events at one time has d steps, which
 * take a growing fraction of the events from the rows at risk (B. Efron, 1977); Breslow's has one (N. Breslow, 1974).
 * Over the steps of a group, with the hazard h, the mean m of the covariates at risk, and the fraction f: the number of
 * the first record, the stratum, the weight of the events, and the sums of f h, of h per risk, and of h. With details,
 * `width` numbers follow for each of the sums of h m, of f h m and of m times the weight of a step. */
enum {
  NUM_COX_FIRST,
  NUM_COX_OF,
  NUM_COX_DIED,
  NUM_COX_TIED,
  NUM_COX_SQUARED,
  NUM_COX_HAZARD,
  NUM_COX_MOVED
};

/* The numbers of a row. */
size_t num_cox_row(size_t width, bool details);

/* The number of groups with events. */
size_t num_cox_groups(const num_cox_records *records);

/* `risks` has a number for each record: exp() of the linear predictor, without its weight. `state` are
 * num_cox_state() numbers, 0 at first. */
typedef struct {
  num_cox_records records;
  size_t groups;
  bool efron, details;
  double *risks, *rows, *state;
} num_cox_pass;

size_t num_cox_state(size_t width);

/* The risks of records, at some coefficients. */
void num_cox_risks(const num_cox_pass *pass, size_t from, size_t until, const double *coefficients);

/* The edge of this rank for num_cox_carry(): 2 + 1 + width numbers. */
void num_cox_edge_back(const num_cox_pass *pass, double *edge);

/* Visits records from the last one on, each from `until` to `from`. `carried` are the 1 + width sums at risk of other
 * ranks, at the last record. */
void num_cox_back(const num_cox_pass *pass, size_t from, size_t until, const double *carried);

/* The edge of this rank: 2 + 1 numbers, and with details 2 + 1 + width. */
void num_cox_edge_forward(const num_cox_pass *pass, double *edge);

/* Visits records from the first one on. `carried` is the hazard of other ranks, at the first record. */
void num_cox_forward(const num_cox_pass *pass, size_t from, size_t until, const double *carried);

/* The parts that ranks add up: the log likelihood, the weight of the events, the score, and the information. */
enum { NUM_COX_LOG, NUM_COX_EVENTS, NUM_COX_SCORE };
size_t num_cox_sums(size_t width);
void num_cox_end(const num_cox_pass *pass, double *sums);

/* The score residuals of the records: the cluster, and `width` numbers times the weight. The pass has details.
 * `carried` are the 1 + width sums of other ranks that num_cox_forward() begins with, and become those at the last
 * record. */
void num_cox_residuals(const num_cox_pass *pass, double *carried, double *residuals);

#endif
