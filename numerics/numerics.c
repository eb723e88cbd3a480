/* SPDX-License-Identifier: Apache-2.0
 *
 * All numerics as one file: what the R and the Python package compile.
 */
#include "kmeans.c"
#include "kmeans_start.c"
#include "least_squares.c"
#include "moments.c"
#include "random.c"
#include "triangle.c"
