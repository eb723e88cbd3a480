/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans_start.h"

#include <stdbool.h>
#include <string.h>

#include "kmeans.h"

enum { START_ITERATIONS = 30, START_STREAM = 1 << 30 }; /* no rank has this number */

void num_kmeans_first(const num_rows *rows, uint64_t from, const num_random *random,
                      double *first) {
  for (size_t i = 0; i < rows->count; i++) {
    double number = num_random_uniform(random, from + i);
    if (number >= first[0] || num_rows_weight(rows, i) == 0) continue;
    first[0] = number;
    num_rows_read(rows, i, first + 1);
  }
}

void num_kmeans_total(const num_rows *rows, const double *squares, double *total) {
  for (size_t i = 0; i < rows->count; i++) *total += num_rows_weight(rows, i) * squares[i];
}

size_t num_kmeans_draw(const num_rows *rows, const double *squares, double factor, uint64_t from,
                       const num_random *random, int32_t *drawn) {
  size_t count = 0;
  for (size_t i = 0; i < rows->count; i++) {
    double chance = factor * num_rows_weight(rows, i) * squares[i];
    if (num_random_uniform(random, from + i) < chance) drawn[count++] = (int32_t)i;
  }
  return count;
}

/* ---- Choice among candidates ------------------------------------------------------------------------------------ */

/* There are at least as many places as centers: behind the candidates they begin again, with the weight 0. */
typedef struct {
  const num_rows *rows;
  size_t count;
  double *chances, *squares;
} start_places;

static const double *start_row(const start_places *places, size_t place) {
  return places->rows->x + place % places->rows->count * places->rows->width;
}

static double start_square(const double *row, const double *other, size_t width) {
  double sum = 0;
  for (size_t k = 0; k < width; k++) sum += (row[k] - other[k]) * (row[k] - other[k]);
  return sum;
}

/* The place where the sum of chances exceeds `part` of all, `total`. */
static size_t start_pick(const start_places *places, double total, double part) {
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < places->count; i++) {
    if (places->chances[i] <= 0) continue;
    last = i;
    sum += places->chances[i];
    if (sum > part * total) break;
  }
  return last;
}

/* Sets chances, where `chosen` has a place for each of the first `count` centers. Returns their sum. */
static double start_chances(start_places *places, const double *chosen, size_t count) {
  double total = 0;
  for (size_t i = 0; i < places->count; i++) {
    double weight = i < places->rows->count ? num_rows_weight(places->rows, i) : 0;
    places->chances[i] = count == 0 ? weight : weight * places->squares[i];
    total += places->chances[i];
  }
  if (total > 0) return total;
  for (size_t i = 0; i < places->count; i++) places->chances[i] = 1;
  for (size_t i = 0; i < count; i++) places->chances[(size_t)chosen[i]] = 0;
  return (double)(places->count - count);
}

/* K-means++. `chosen` is memory for a number for each center. */
static void start_plus(start_places *places, size_t clusters, uint64_t seed, double *chosen,
                       double *centers) {
  const num_random random = {.seed = seed, .stream = START_STREAM};
  size_t width = places->rows->width;
  for (size_t center = 0; center < clusters; center++) {
    double total = start_chances(places, chosen, center);
    size_t place = start_pick(places, total, num_random_uniform(&random, center));
    const double *row = start_row(places, place);
    chosen[center] = (double)place;
    memcpy(centers + center * width, row, width * sizeof *centers);
    for (size_t i = 0; i < places->count; i++) {
      double square = start_square(start_row(places, i), row, width);
      if (center == 0 || square < places->squares[i]) places->squares[i] = square;
    }
  }
}

static size_t start_count(size_t candidates, size_t clusters) {
  return candidates < clusters ? clusters : candidates;
}

size_t num_kmeans_choose_scratch(size_t candidates, size_t clusters, size_t width) {
  return 3 * start_count(candidates, clusters) + clusters * (2 * width + NUM_KMEANS_COLUMNS + 1) +
         num_kmeans_scratch(clusters, width);
}

void num_kmeans_choose(const num_rows *rows, size_t clusters, uint64_t seed, double *centers,
                       double *scratch) {
  size_t count = start_count(rows->count, clusters), width = rows->width;
  start_places places = {rows, count, scratch, scratch + count};
  int32_t *nearest = (int32_t *)(void *)(scratch + 2 * count);
  double *sums = scratch + 3 * count, *before = sums + clusters * (width + NUM_KMEANS_COLUMNS);
  double *chosen = before + clusters * width, *rest = chosen + clusters;
  start_plus(&places, clusters, seed, chosen, centers);
  for (int step = 0; step < START_ITERATIONS; step++) {
    memcpy(before, centers, clusters * width * sizeof *before);
    memset(sums, 0, clusters * (width + NUM_KMEANS_COLUMNS) * sizeof *sums);
    num_kmeans_nearest(rows, centers, clusters, nearest, places.squares, NULL, rest);
    num_kmeans_sums(rows, nearest, sums, rest);
    num_kmeans_means(sums, clusters, width, centers);
    if (memcmp(before, centers, clusters * width * sizeof *before) == 0) break;
  }
}
