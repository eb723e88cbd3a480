/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lanes.h"

/* Rows are looked at in blocks, eight rows and four centers at once: as many sums as registers can hold. */
enum { BLOCK = 64, TILE = 4, ROWS_UNTIL_PAUSE = 1 << 16 };

/* Lets the user interrupt R between rows. */
static void kmeans_pause(R_xlen_t row) {
  if (row % ROWS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
}

/* ---- Centers ---------------------------------------------------------------------------------------------------- */

/* `columns` has a column of the centers after another, each filled up to `stride`, a multiple of TILE. */
typedef struct {
  R_xlen_t count, width, stride;
  const double *columns;
} kmeans_centers;

static kmeans_centers kmeans_open_centers(SEXP centers) {
  kmeans_centers open = {.count = Rf_nrows(centers), .width = Rf_ncols(centers)};
  open.stride = (open.count + TILE - 1) / TILE * TILE;
  double *columns = (double *)R_alloc((size_t)(open.stride * open.width) + 1, sizeof *columns);
  for (R_xlen_t k = 0; k < open.width; k++)
    for (R_xlen_t i = 0; i < open.stride; i++)
      columns[k * open.stride + i] =
          i < open.count ? REAL_RO(centers)[k * open.count + i] : INFINITY;
  open.columns = columns;
  return open;
}

/* ---- Blocks of rows --------------------------------------------------------------------------------------------- */

/* `rows` are their numbers, from 0. `values` has a column after another, whose rest is that of earlier rows. What is
 * found: the squared distances to the nearest and the second nearest center, and the number of the nearest, from 1. */
typedef struct {
  R_xlen_t count, width, rows[BLOCK];
  double best[BLOCK], second[BLOCK], nearest[BLOCK];
  double *values;
} kmeans_block;

static void kmeans_open_block(kmeans_block *block, SEXP x) {
  block->count = 0;
  block->width = Rf_nrows(x);
  size_t size = (size_t)block->width * BLOCK + 1;
  block->values = (double *)R_alloc(size, sizeof *block->values);
  memset(block->values, 0, size * sizeof *block->values);
}

static void kmeans_take(kmeans_block *block, const double *x) {
  for (R_xlen_t i = 0; i < block->count; i++) {
    const double *row = x + block->rows[i] * block->width;
    for (R_xlen_t k = 0; k < block->width; k++) block->values[k * BLOCK + i] = row[k];
  }
}

#define KMEANS_ADD(a, b, middle)                                                                   \
  gap = x - (middle), a += gap * gap, gap = y - (middle), b += gap * gap

/* The squared distances of eight rows to four centers: of each center from `squares` on, BLOCK apart. */
LANES_INLINE void kmeans_tile(const double *column, const double *center, R_xlen_t width,
                              R_xlen_t stride, double *squares) {
  lanes a0 = {0}, a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0, gap;
  for (R_xlen_t k = 0; k < width; k++, column += BLOCK, center += stride) {
    lanes x = LANES_AT(column), y = LANES_AT(column + LANES);
    KMEANS_ADD(a0, a1, center[0]);
    KMEANS_ADD(b0, b1, center[1]);
    KMEANS_ADD(c0, c1, center[2]);
    KMEANS_ADD(d0, d1, center[3]);
  }
  LANES_PUT(squares, a0), LANES_PUT(squares + LANES, a1), squares += BLOCK;
  LANES_PUT(squares, b0), LANES_PUT(squares + LANES, b1), squares += BLOCK;
  LANES_PUT(squares, c0), LANES_PUT(squares + LANES, c1), squares += BLOCK;
  LANES_PUT(squares, d0), LANES_PUT(squares + LANES, d1);
}

/* Without branches, which processors cannot predict here. */
LANES_INLINE void kmeans_compare(kmeans_block *block, const double *squares, double center) {
  for (int i = 0; i < BLOCK; i++) {
    double square = squares[i], best = block->best[i], second = block->second[i];
    double larger = square > best ? square : best;
    block->second[i] = larger < second ? larger : second;
    block->nearest[i] = square < best ? center : block->nearest[i];
    block->best[i] = square < best ? square : best;
  }
}

LANES_CLONES static void kmeans_look(kmeans_block *block, const kmeans_centers *centers) {
  double squares[TILE * BLOCK];
  for (int i = 0; i < BLOCK; i++) {
    block->best[i] = block->second[i] = INFINITY;
    block->nearest[i] = 1;
  }
  for (R_xlen_t center = 0; center < centers->stride; center += TILE) {
    for (int i = 0; i < BLOCK; i += 2 * LANES)
      kmeans_tile(block->values + i, centers->columns + center, centers->width, centers->stride,
                  squares + i);
    for (int t = 0; t < TILE; t++)
      kmeans_compare(block, squares + t * BLOCK, (double)(center + t) + 1);
  }
}

SEXP kmeans_nearest(SEXP x, SEXP centers) {
  const char *names[] = {"cluster", "best", "second", ""};
  R_xlen_t count = Rf_ncols(x);
  kmeans_centers open = kmeans_open_centers(centers);
  kmeans_block block;
  kmeans_open_block(&block, x);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, count));
  for (int i = 1; i < 3; i++) SET_VECTOR_ELT(result, i, Rf_allocVector(REALSXP, count));
  int *cluster = INTEGER(VECTOR_ELT(result, 0));
  double *best = REAL(VECTOR_ELT(result, 1)), *second = REAL(VECTOR_ELT(result, 2));
  for (R_xlen_t from = 0; from < count; from += BLOCK) {
    kmeans_pause(from);
    block.count = count - from < BLOCK ? count - from : BLOCK;
    for (R_xlen_t i = 0; i < block.count; i++) block.rows[i] = from + i;
    kmeans_take(&block, REAL_RO(x));
    kmeans_look(&block, &open);
    for (R_xlen_t i = 0; i < block.count; i++) cluster[from + i] = (int)block.nearest[i];
    memcpy(best + from, block.best, (size_t)block.count * sizeof *best);
    memcpy(second + from, block.second, (size_t)block.count * sizeof *second);
  }
  UNPROTECT(1);
  return result;
}

/* ---- Single rows ------------------------------------------------------------------------------------------------ */

/* The centers by rows. */
static const double *kmeans_turn(SEXP centers) {
  R_xlen_t count = Rf_nrows(centers), width = Rf_ncols(centers);
  double *turned = (double *)R_alloc((size_t)(count * width) + 1, sizeof *turned);
  for (R_xlen_t i = 0; i < count; i++)
    for (R_xlen_t k = 0; k < width; k++) turned[i * width + k] = REAL_RO(centers)[k * count + i];
  return turned;
}

/* Four sums, none of which waits for another. */
static double kmeans_gap(const double *row, const double *center, R_xlen_t width) {
  double sums[4] = {0};
  R_xlen_t k = 0;
  for (; k + 4 <= width; k += 4)
    for (int i = 0; i < 4; i++)
      sums[i] += (row[k + i] - center[k + i]) * (row[k + i] - center[k + i]);
  for (; k < width; k++) sums[0] += (row[k] - center[k]) * (row[k] - center[k]);
  return sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Adds a row to the sums of a cluster, from 0, or subtracts it. */
static void kmeans_add(double *sums, R_xlen_t clusters, R_xlen_t cluster, const double *row,
                       R_xlen_t width, double sign) {
  sums += cluster;
  sums[0] += sign;
  for (R_xlen_t k = 0; k < width; k++) sums[(k + 1) * clusters] += sign * row[k];
}

static SEXP kmeans_zero(R_xlen_t clusters, R_xlen_t width) {
  SEXP sums = Rf_allocMatrix(REALSXP, (int)clusters, (int)width + 1);
  memset(REAL(sums), 0, (size_t)Rf_xlength(sums) * sizeof(double));
  return sums;
}

SEXP kmeans_distance(SEXP x, SEXP centers, SEXP cluster) {
  R_xlen_t count = Rf_ncols(x), width = Rf_nrows(x);
  const double *turned = kmeans_turn(centers);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    kmeans_pause(i);
    REAL(result)
    [i] = kmeans_gap(REAL_RO(x) + i * width, turned + (INTEGER_RO(cluster)[i] - 1) * width, width);
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_sums(SEXP x, SEXP cluster, SEXP k) {
  R_xlen_t count = Rf_ncols(x), width = Rf_nrows(x), clusters = Rf_asInteger(k);
  SEXP result = PROTECT(kmeans_zero(clusters, width));
  for (R_xlen_t i = 0; i < count; i++) {
    kmeans_pause(i);
    kmeans_add(REAL(result), clusters, INTEGER_RO(cluster)[i] - 1, REAL_RO(x) + i * width, width,
               1);
  }
  UNPROTECT(1);
  return result;
}

/* ---- Lloyd's iterations ----------------------------------------------------------------------------------------- */

typedef struct {
  const double *x;
  R_xlen_t width, clusters, changed;
  int *cluster;
  double *upper, *lower, *delta;
} kmeans_state;

/* Gives the rows of the block their nearest centers. */
static void kmeans_move(kmeans_state *state, kmeans_block *block, const kmeans_centers *centers) {
  kmeans_take(block, state->x);
  kmeans_look(block, centers);
  for (R_xlen_t i = 0; i < block->count; i++) {
    R_xlen_t row = block->rows[i];
    const double *values = state->x + row * state->width;
    int old = state->cluster[row], new = (int)block->nearest[i];
    state->upper[row] = sqrt(block->best[i]);
    state->lower[row] = sqrt(block->second[i]);
    if (new == old) continue;
    state->cluster[row] = new;
    state->changed++;
    kmeans_add(state->delta, state->clusters, old - 1, values, state->width, -1);
    kmeans_add(state->delta, state->clusters, new - 1, values, state->width, 1);
  }
  block->count = 0;
}

/* A list with copies of the state. */
static SEXP kmeans_copy(SEXP state, R_xlen_t clusters, R_xlen_t width) {
  const char *names[] = {"cluster", "upper", "lower", "changed", "delta", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < 3; i++) SET_VECTOR_ELT(result, i, Rf_duplicate(VECTOR_ELT(state, i)));
  SET_VECTOR_ELT(result, 4, kmeans_zero(clusters, width));
  UNPROTECT(1);
  return result;
}

SEXP kmeans_assign(SEXP x, SEXP centers, SEXP moves, SEXP half, SEXP state) {
  R_xlen_t count = Rf_ncols(x), width = Rf_nrows(x), clusters = Rf_nrows(centers);
  SEXP result = PROTECT(kmeans_copy(state, clusters, width));
  kmeans_state s = {.x = REAL_RO(x), .width = width, .clusters = clusters};
  s.cluster = INTEGER(VECTOR_ELT(result, 0));
  s.upper = REAL(VECTOR_ELT(result, 1)), s.lower = REAL(VECTOR_ELT(result, 2));
  s.delta = REAL(VECTOR_ELT(result, 4));
  const double *turned = kmeans_turn(centers), *moved = REAL_RO(moves), *near = REAL_RO(half);
  double most = 0;
  for (R_xlen_t i = 0; i < clusters; i++) most = moved[i] > most ? moved[i] : most;
  kmeans_centers open = kmeans_open_centers(centers);
  kmeans_block block;
  kmeans_open_block(&block, x);
  for (R_xlen_t i = 0; i < count; i++) {
    kmeans_pause(i);
    int own = s.cluster[i] - 1;
    s.upper[i] += moved[own];
    s.lower[i] -= most;
    double bound = s.lower[i] > near[own] ? s.lower[i] : near[own];
    if (s.upper[i] <= bound) continue;
    s.upper[i] = kmeans_gap(s.x + i * width, turned + own * width, width);
    if (s.upper[i] <= bound) continue;
    block.rows[block.count++] = i;
    if (block.count == BLOCK) kmeans_move(&s, &block, &open);
  }
  kmeans_move(&s, &block, &open);
  SET_VECTOR_ELT(result, 3, Rf_ScalarReal((double)s.changed));
  UNPROTECT(1);
  return result;
}
