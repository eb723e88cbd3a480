/* SPDX-License-Identifier: Apache-2.0 */
#include "cox_clusters.h"

#include <string.h>

#include "lanes.h"
#include "positive.h"
#include "products.h"

size_t num_cox_clusters(const double *rows, size_t count, size_t width, double *clusters) {
  size_t size = 1 + width, found = 0;
  for (size_t i = 0; i < count; i++, rows += size) {
    if (i == 0 || rows[0] != rows[-(ptrdiff_t)size])
      memcpy(clusters + found++ * size, rows, size * sizeof *rows);
    else
      for (size_t k = 1; k < size; k++) clusters[(found - 1) * size + k] += rows[k];
  }
  return found;
}

static size_t clusters_stride(size_t width) {
  return (width + LANES - 1) / LANES * LANES;
}

size_t num_cox_influence_scratch(size_t width) {
  return clusters_stride(width) + num_products_size(clusters_stride(width));
}

void num_cox_influence(const double *clusters, size_t count, size_t width, const double *matrix,
                       double *sums, double *scratch) {
  size_t stride = clusters_stride(width);
  double *row = scratch, *products = row + stride;
  memset(scratch, 0, num_cox_influence_scratch(width) * sizeof *scratch);
  memset(sums, 0, width * sizeof *sums);
  for (size_t i = 0; i < count; i++, clusters += 1 + width) {
    if (matrix)
      num_positive_multiply(matrix, width, clusters + 1, row);
    else
      memcpy(row, clusters + 1, width * sizeof *row);
    for (size_t k = 0; k < width; k++) sums[k] += row[k];
    num_products_add(products, stride, row, 1);
  }
  num_products_get(products, stride, width, sums + width);
}
