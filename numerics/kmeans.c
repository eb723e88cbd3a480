/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lanes.h"

/* Rows are looked at in blocks, eight rows and four centers at once: as many sums as registers can hold. */
enum { KMEANS_BLOCK = 64, KMEANS_TILE = 4 };

/* ---- Centers ---------------------------------------------------------------------------------------------------- */

/* `columns` has a column of the centers after another, each filled up to `stride`, a multiple of KMEANS_TILE. */
typedef struct {
  size_t width, stride;
  const double *columns;
} kmeans_centers;

static size_t kmeans_stride(size_t clusters) {
  return (clusters + KMEANS_TILE - 1) / KMEANS_TILE * KMEANS_TILE;
}

static kmeans_centers kmeans_open_centers(const double *centers, size_t clusters, size_t width,
                                          double *columns) {
  size_t stride = kmeans_stride(clusters);
  for (size_t k = 0; k < width; k++)
    for (size_t i = 0; i < stride; i++)
      columns[k * stride + i] = i < clusters ? centers[i * width + k] : INFINITY;
  return (kmeans_centers){.width = width, .stride = stride, .columns = columns};
}

/* ---- Blocks of rows --------------------------------------------------------------------------------------------- */

/* `rows` are their numbers. `values` has a column after another, whose rest is that of earlier rows. What is found: the
 * squared distances to the nearest and the second nearest center, and the number of the nearest. */
typedef struct {
  size_t count, width, rows[KMEANS_BLOCK];
  double best[KMEANS_BLOCK], second[KMEANS_BLOCK], nearest[KMEANS_BLOCK];
  double *values;
} kmeans_block;

size_t num_kmeans_scratch(size_t clusters, size_t width) {
  return (KMEANS_BLOCK + kmeans_stride(clusters) + 1) * width + 1;
}

static void kmeans_open_block(kmeans_block *block, size_t width, double *values) {
  block->count = 0;
  block->width = width;
  block->values = values;
  memset(values, 0, width * KMEANS_BLOCK * sizeof *values);
}

static void kmeans_put(kmeans_block *block, size_t row, const double *values) {
  for (size_t k = 0; k < block->width; k++)
    block->values[k * KMEANS_BLOCK + block->count] = values[k];
  block->rows[block->count++] = row;
}

#define KMEANS_ADD(a, b, middle)                                                                   \
  gap = x - (middle), a += gap * gap, gap = y - (middle), b += gap * gap

/* The squared distances of eight rows to four centers: of each center from `squares` on, KMEANS_BLOCK apart. */
LANES_INLINE void kmeans_tile(const double *column, const double *center, size_t width,
                              size_t stride, double *squares) {
  lanes a0 = {0}, a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0, gap;
  for (size_t k = 0; k < width; k++, column += KMEANS_BLOCK, center += stride) {
    lanes x = LANES_AT(column), y = LANES_AT(column + LANES);
    KMEANS_ADD(a0, a1, center[0]);
    KMEANS_ADD(b0, b1, center[1]);
    KMEANS_ADD(c0, c1, center[2]);
    KMEANS_ADD(d0, d1, center[3]);
  }
  LANES_PUT(squares, a0), LANES_PUT(squares + LANES, a1), squares += KMEANS_BLOCK;
  LANES_PUT(squares, b0), LANES_PUT(squares + LANES, b1), squares += KMEANS_BLOCK;
  LANES_PUT(squares, c0), LANES_PUT(squares + LANES, c1), squares += KMEANS_BLOCK;
  LANES_PUT(squares, d0), LANES_PUT(squares + LANES, d1);
}

/* Without branches, which processors cannot predict here. */
LANES_INLINE void kmeans_compare(kmeans_block *block, const double *squares, double center) {
  for (int i = 0; i < KMEANS_BLOCK; i++) {
    double square = squares[i], best = block->best[i], second = block->second[i];
    double larger = square > best ? square : best;
    block->second[i] = larger < second ? larger : second;
    block->nearest[i] = square < best ? center : block->nearest[i];
    block->best[i] = square < best ? square : best;
  }
}

LANES_CLONES static void kmeans_look(kmeans_block *block, const kmeans_centers *centers) {
  double squares[KMEANS_TILE * KMEANS_BLOCK];
  for (int i = 0; i < KMEANS_BLOCK; i++) {
    block->best[i] = block->second[i] = INFINITY;
    block->nearest[i] = 0;
  }
  for (size_t center = 0; center < centers->stride; center += KMEANS_TILE) {
    for (int i = 0; i < KMEANS_BLOCK; i += 2 * LANES)
      kmeans_tile(block->values + i, centers->columns + center, centers->width, centers->stride,
                  squares + i);
    for (int t = 0; t < KMEANS_TILE; t++)
      kmeans_compare(block, squares + t * KMEANS_BLOCK, (double)center + t);
  }
}

void num_kmeans_nearest(const num_rows *rows, const double *centers, size_t clusters,
                        int32_t *nearest, double *best, double *second, double *scratch) {
  double *columns = scratch + KMEANS_BLOCK * rows->width;
  kmeans_centers open = kmeans_open_centers(centers, clusters, rows->width, columns);
  double *values = columns + open.stride * rows->width;
  kmeans_block block;
  kmeans_open_block(&block, rows->width, scratch);
  for (size_t from = 0; from < rows->count; from += block.count) {
    size_t left = rows->count - from, count = left < KMEANS_BLOCK ? left : KMEANS_BLOCK;
    block.count = 0;
    while (block.count < count) {
      num_rows_read(rows, from + block.count, values);
      kmeans_put(&block, from + block.count, values);
    }
    kmeans_look(&block, &open);
    for (size_t i = 0; i < count; i++) nearest[from + i] = (int32_t)block.nearest[i];
    memcpy(best + from, block.best, count * sizeof *best);
    if (second) memcpy(second + from, block.second, count * sizeof *second);
  }
}

/* ---- Single rows ------------------------------------------------------------------------------------------------ */

/* The squared distance, of four sums, none of which waits for another. */
static double kmeans_square(const double *row, const double *center, size_t width) {
  double sums[4] = {0};
  size_t k = 0;
  for (; k + 4 <= width; k += 4)
    for (size_t i = 0; i < 4; i++)
      sums[i] += (row[k + i] - center[k + i]) * (row[k + i] - center[k + i]);
  for (; k < width; k++) sums[0] += (row[k] - center[k]) * (row[k] - center[k]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Adds a row to the sums of a cluster, or subtracts it, by `sign`. The numbers of the row are `step` apart. */
static void kmeans_add(double *sums, size_t width, int32_t cluster, const double *row, size_t step,
                       double weight, double sign) {
  if (weight == 0) return;
  sums += (size_t)cluster * (width + NUM_KMEANS_COLUMNS);
  sums[NUM_KMEANS_ROWS] += sign;
  sums[NUM_KMEANS_WEIGHT] += sign * weight;
  sums += NUM_KMEANS_COLUMNS;
  for (size_t k = 0; k < width; k++) sums[k] += sign * weight * row[k * step];
}

void num_kmeans_sums(const num_rows *rows, const int32_t *nearest, double *sums, double *scratch) {
  for (size_t i = 0; i < rows->count; i++) {
    num_rows_read(rows, i, scratch);
    kmeans_add(sums, rows->width, nearest[i], scratch, 1, num_rows_weight(rows, i), 1);
  }
}

void num_kmeans_distance(const num_rows *rows, const int32_t *nearest, const double *centers,
                         double *squares, double *scratch) {
  for (size_t i = 0; i < rows->count; i++) {
    num_rows_read(rows, i, scratch);
    squares[i] = kmeans_square(scratch, centers + (size_t)nearest[i] * rows->width, rows->width);
  }
}

/* ---- Lloyd's iterations ----------------------------------------------------------------------------------------- */

size_t num_kmeans_means(const double *sums, size_t clusters, size_t width, double *centers) {
  size_t empty = 0;
  for (size_t i = 0; i < clusters; i++, sums += width + NUM_KMEANS_COLUMNS, centers += width) {
    bool known = sums[NUM_KMEANS_ROWS] > 0;
    empty += !known;
    for (size_t k = 0; k < width && known; k++)
      centers[k] = sums[NUM_KMEANS_COLUMNS + k] / sums[NUM_KMEANS_WEIGHT];
  }
  return empty;
}

void num_kmeans_refill(const double *sums, size_t clusters, size_t width, const double *far,
                       size_t count, double *centers) {
  for (size_t i = 0, taken = 0; i < clusters && count > 0; i++) {
    if (sums[i * (width + NUM_KMEANS_COLUMNS) + NUM_KMEANS_ROWS] > 0) continue;
    memcpy(centers + i * width, far + taken++ % count * width, width * sizeof *centers);
  }
}

double num_kmeans_moves(const double *before, const double *centers, size_t clusters, size_t width,
                        double *moves) {
  double total = 0;
  for (size_t i = 0; i < clusters; i++) {
    double square = kmeans_square(before + i * width, centers + i * width, width);
    moves[i] = sqrt(square);
    total += square;
  }
  return total;
}

void num_kmeans_half(const double *centers, size_t clusters, size_t width, double *half) {
  for (size_t i = 0; i < clusters; i++) half[i] = INFINITY;
  for (size_t i = 0; i < clusters; i++) {
    for (size_t j = 0; j < i; j++) {
      double gap = sqrt(kmeans_square(centers + i * width, centers + j * width, width)) / 2;
      half[i] = gap < half[i] ? gap : half[i];
      half[j] = gap < half[j] ? gap : half[j];
    }
  }
}

/* Gives the rows of the block their nearest centers. Returns the number of rows with another one. */
static size_t kmeans_turn(kmeans_block *block, const num_rows *rows, const kmeans_centers *centers,
                          const num_kmeans_bounds *bounds, double *delta) {
  size_t changed = 0;
  kmeans_look(block, centers);
  for (size_t i = 0; i < block->count; i++) {
    size_t row = block->rows[i];
    double weight = num_rows_weight(rows, row);
    int32_t old = bounds->nearest[row], new = (int32_t)block->nearest[i];
    bounds->upper[row] = sqrt(block->best[i]);
    bounds->lower[row] = sqrt(block->second[i]);
    if (new == old) continue;
    bounds->nearest[row] = new;
    changed += weight != 0;
    kmeans_add(delta, block->width, old, block->values + i, KMEANS_BLOCK, weight, -1);
    kmeans_add(delta, block->width, new, block->values + i, KMEANS_BLOCK, weight, 1);
  }
  block->count = 0;
  return changed;
}

/* Whether a row stays where it is, by its bounds, which this makes true for the centers now. Copies a row that may not
 * to `values`. */
static bool kmeans_stays(const num_rows *rows, size_t row, const double *centers, double move,
                         double most, double half, const num_kmeans_bounds *bounds,
                         double *values) {
  bounds->upper[row] += move;
  bounds->lower[row] -= most;
  double bound = bounds->lower[row] > half ? bounds->lower[row] : half;
  if (bounds->upper[row] <= bound) return true;
  num_rows_read(rows, row, values);
  const double *center = centers + (size_t)bounds->nearest[row] * rows->width;
  bounds->upper[row] = sqrt(kmeans_square(values, center, rows->width));
  return bounds->upper[row] <= bound;
}

size_t num_kmeans_assign(const num_rows *rows, const double *centers, size_t clusters,
                         const double *moves, const double *half, const num_kmeans_bounds *bounds,
                         double *delta, double *scratch) {
  double *columns = scratch + KMEANS_BLOCK * rows->width, most = 0;
  kmeans_centers open = kmeans_open_centers(centers, clusters, rows->width, columns);
  double *values = columns + open.stride * rows->width;
  for (size_t i = 0; i < clusters; i++) most = moves[i] > most ? moves[i] : most;
  kmeans_block block;
  kmeans_open_block(&block, rows->width, scratch);
  size_t changed = 0;
  for (size_t i = 0; i < rows->count; i++) {
    int32_t own = bounds->nearest[i];
    if (kmeans_stays(rows, i, centers, moves[own], most, half[own], bounds, values)) continue;
    kmeans_put(&block, i, values);
    if (block.count == KMEANS_BLOCK) changed += kmeans_turn(&block, rows, &open, bounds, delta);
  }
  return changed + kmeans_turn(&block, rows, &open, bounds, delta);
}
