/* SPDX-License-Identifier: Apache-2.0
 *
 * K-means beside all distances of plain loops, for counts around the sizes of blocks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kmeans.h"
#include "kmeans_start.h"

enum { ROWS_MOST = 200, WIDTH_MOST = 9, CLUSTERS_MOST = 9 };

static double x[ROWS_MOST * WIDTH_MOST], weights[ROWS_MOST], shift[WIDTH_MOST];

/* Rows around whole numbers, of which some have no weight. */
static num_rows draw_rows(size_t count, size_t width) {
  const num_random random = {.seed = count, .stream = width};
  for (size_t i = 0; i < count * width; i++)
    x[i] = floor(4 * num_random_uniform(&random, i)) + num_random_uniform(&random, i + 10000) / 8;
  for (size_t i = 0; i < count; i++) weights[i] = (double)(i % 4) / 2;
  for (size_t k = 0; k < width; k++) shift[k] = 0.25 * (double)k;
  return (num_rows){.count = count, .width = width, .x = x, .weights = weights, .shift = shift};
}

static double plain_square(const num_rows *rows, size_t row, const double *center) {
  double sum = 0;
  for (size_t k = 0; k < rows->width; k++) {
    double gap = rows->x[row * rows->width + k] - shift[k] - center[k];
    sum += gap * gap;
  }
  return sum;
}

static void check_nearest(const num_rows *rows, const double *centers, size_t clusters,
                          const int32_t *nearest) {
  for (size_t i = 0; i < rows->count; i++) {
    double found = plain_square(rows, i, centers + (size_t)nearest[i] * rows->width);
    for (size_t c = 0; c < clusters; c++)
      CHECK(found <= plain_square(rows, i, centers + c * rows->width) * (1 + 1e-12));
  }
}

/* Iterations by bounds have the clusters of all distances, and sums that are kept up to date. */
static void check_iterations(const num_rows *rows, double *centers, size_t clusters,
                             double *scratch) {
  static int32_t nearest[ROWS_MOST];
  static double upper[ROWS_MOST], lower[ROWS_MOST],
      sums[CLUSTERS_MOST * (WIDTH_MOST + NUM_KMEANS_COLUMNS)];
  static double again[CLUSTERS_MOST * (WIDTH_MOST + NUM_KMEANS_COLUMNS)];
  double before[CLUSTERS_MOST * WIDTH_MOST], moves[CLUSTERS_MOST], half[CLUSTERS_MOST];
  num_kmeans_bounds bounds = {nearest, upper, lower};
  size_t used = clusters * (rows->width + NUM_KMEANS_COLUMNS) * sizeof *sums, changed = 1;
  memset(sums, 0, used);
  num_kmeans_nearest(rows, centers, clusters, nearest, upper, lower, scratch);
  check_nearest(rows, centers, clusters, nearest);
  for (size_t i = 0; i < rows->count; i++) upper[i] = sqrt(upper[i]), lower[i] = sqrt(lower[i]);
  num_kmeans_sums(rows, nearest, sums, scratch);
  for (int step = 0; step < 20 && changed > 0; step++) {
    memcpy(before, centers, clusters * rows->width * sizeof *before);
    num_kmeans_means(sums, clusters, rows->width, centers);
    num_kmeans_moves(before, centers, clusters, rows->width, moves);
    num_kmeans_half(centers, clusters, rows->width, half);
    changed = num_kmeans_assign(rows, centers, clusters, moves, half, &bounds, sums, scratch);
    check_nearest(rows, centers, clusters, nearest);
  }
  memset(again, 0, used);
  num_kmeans_sums(rows, nearest, again, scratch);
  for (size_t i = 0; i < used / sizeof *sums; i++) CHECK(fabs(sums[i] - again[i]) < 1e-9);
}

static void test_bounds_change_no_cluster(void) {
  for (size_t width = 1; width <= WIDTH_MOST; width++)
    for (size_t clusters = 1; clusters <= CLUSTERS_MOST; clusters += 3)
      for (size_t count = 0; count <= ROWS_MOST; count = 2 * count + 7) {
        num_rows rows = draw_rows(count, width);
        double centers[CLUSTERS_MOST * WIDTH_MOST];
        for (size_t i = 0; i < clusters * width; i++) centers[i] = (double)(i % 5);
        double *scratch = malloc(num_kmeans_scratch(clusters, width) * sizeof *scratch);
        check_iterations(&rows, centers, clusters, scratch);
        free(scratch);
      }
}

/* Each center is a row, as candidates that lie apart are all chosen; and there may be fewer candidates than centers. */
static void test_choice_takes_rows_apart(void) {
  for (size_t count = 1; count <= CLUSTERS_MOST; count++) {
    double candidates[CLUSTERS_MOST], ones[CLUSTERS_MOST], centers[CLUSTERS_MOST];
    bool found[CLUSTERS_MOST] = {false};
    for (size_t i = 0; i < count; i++) candidates[i] = 10 * (double)i, ones[i] = 1;
    num_rows rows = {.count = count, .width = 1, .x = candidates, .weights = ones};
    double *scratch = malloc(num_kmeans_choose_scratch(count, CLUSTERS_MOST, 1) * sizeof *scratch);
    num_kmeans_choose(&rows, CLUSTERS_MOST, count, centers, scratch);
    for (size_t c = 0; c < CLUSTERS_MOST; c++) found[(size_t)(centers[c] / 10)] = true;
    for (size_t i = 0; i < count; i++) CHECK(found[i]);
    free(scratch);
  }
}

static void test_random_numbers_are_uniform(void) {
  const num_random random = {.seed = 1}, other = {.seed = 1, .round = 1};
  double sum = 0, product = 0;
  for (uint64_t i = 0; i < 100000; i++) {
    double number = num_random_uniform(&random, i);
    CHECK(number >= 0 && number < 1);
    sum += number;
    product += (number - 0.5) * (num_random_uniform(&other, i) - 0.5);
  }
  CHECK(fabs(sum / 100000 - 0.5) < 0.005 && fabs(product / 100000) < 0.002);
}

int main(void) {
  RUN(test_bounds_change_no_cluster);
  RUN(test_choice_takes_rows_apart);
  RUN(test_random_numbers_are_uniform);
  return 0;
}
