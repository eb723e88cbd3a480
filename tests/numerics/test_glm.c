/* SPDX-License-Identifier: Apache-2.0
 *
 * Links undo their inverses, slopes are those of differences, and what is not a number stays so.
 */
#include "glm.h"

#include <float.h>
#include <math.h>

#include "check.h"

enum { COUNT = 41 };

/* Linear predictors that are possible for all links. */
static double eta_of(num_link link, int i) {
  double eta = (i - COUNT / 2) / 8.0;
  bool positive = link >= NUM_LINK_INVERSE;
  return positive ? 0.1 + fabs(eta) : eta;
}

static void test_links_undo_their_inverses(void) {
  for (num_link link = 0; link < NUM_LINKS; link++) {
    double eta[COUNT], mu[COUNT], back[COUNT], slope[COUNT], above[COUNT], below[COUNT];
    double more[COUNT], less[COUNT];
    for (int i = 0; i < COUNT; i++) {
      eta[i] = eta_of(link, i);
      more[i] = eta[i] + 1e-5, less[i] = eta[i] - 1e-5;
    }
    num_link_mean(link, COUNT, eta, mu);
    num_link_eta(link, COUNT, mu, back);
    num_link_slope(link, COUNT, eta, slope);
    num_link_mean(link, COUNT, more, above);
    num_link_mean(link, COUNT, less, below);
    for (int i = 0; i < COUNT; i++) {
      CHECK(fabs(back[i] - eta[i]) < 1e-12 * (1 + fabs(eta[i])));
      CHECK(fabs((above[i] - below[i]) / 2e-5 - slope[i]) < 1e-6 * (1 + fabs(slope[i])));
    }
  }
}

static void test_limits_of_means(void) {
  double eta[] = {-1000, 1000, NAN}, mu[3], slope[3], far[] = {1e-300, 0.5, 0, 1}, back[4];
  num_link inside[] = {NUM_LINK_LOGIT, NUM_LINK_PROBIT, NUM_LINK_CLOGLOG};
  for (int k = 0; k < 3; k++) {
    num_link_mean(inside[k], 3, eta, mu);
    num_link_slope(inside[k], 3, eta, slope);
    CHECK(mu[0] > 0 && mu[0] <= 2 * DBL_EPSILON && mu[1] < 1 && mu[1] > 0.999 && isnan(mu[2]));
    CHECK(slope[0] == DBL_EPSILON && slope[1] == DBL_EPSILON && isnan(slope[2]));
  }
  num_link_mean(NUM_LINK_LOG, 3, eta, mu);
  CHECK(mu[0] == DBL_EPSILON && isnan(mu[2]));
  num_link_eta(NUM_LINK_PROBIT, 4, far, back);
  CHECK(fabs(back[0] + 37.047096299361201) < 1e-11 && back[1] == 0);
  CHECK(back[2] == -INFINITY && back[3] == INFINITY);
}

static void test_deviances_of_0_and_of_the_mean(void) {
  double y[] = {0, 1, 0.5}, mu[] = {0.25, 0.25, 0.5}, weights[] = {2, 2, 2}, found[3];
  num_family_deviance(NUM_FAMILY_BINOMIAL, 3, y, mu, weights, found);
  CHECK(fabs(found[0] + 4 * log(0.75)) < 1e-15 && fabs(found[1] + 4 * log(0.25)) < 1e-15);
  for (num_family family = 0; family < NUM_FAMILIES; family++) {
    num_family_deviance(family, 1, mu + 2, mu + 2, weights, found);
    CHECK(found[0] == 0);
    num_family_variance(family, 1, mu + 2, found);
    CHECK(found[0] > 0 && found[0] <= 1);
  }
}

static void test_sums_keep_what_is_rounded_off(void) {
  double x[] = {1, 1e100, 1, -1e100, INFINITY}, state[2] = {0}, two[] = {3, 5, 7, 11}, eta[2];
  num_glm_add(state, 1, x);
  num_glm_add(state, 3, x + 1);
  CHECK(num_glm_total(state) == 2);
  num_glm_add(state, 1, x + 4);
  CHECK(num_glm_total(state) == INFINITY);
  num_glm_predict(2, 2, two, 2, 1, 0, (double[]){10, 1}, (double[]){0.5, 0}, eta);
  CHECK(eta[0] == 35.5 && eta[1] == 81);
  num_glm_predict(2, 2, two, 1, 2, 1, (double[]){10, 1}, NULL, eta);
  CHECK(eta[0] == 38 && eta[1] == 62);
}

int main(void) {
  RUN(test_links_undo_their_inverses);
  RUN(test_limits_of_means);
  RUN(test_deviances_of_0_and_of_the_mean);
  RUN(test_sums_keep_what_is_rounded_off);
  return 0;
}
