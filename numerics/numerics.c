/* SPDX-License-Identifier: Apache-2.0
 *
 * All numerics as one file: what the R and the Python package compile.
 */
#include "cox.c"
#include "cox_clusters.c"
#include "cox_newton.c"
#include "cox_records.c"
#include "cox_times.c"
#include "glm.c"
#include "gram.c"
#include "kmeans.c"
#include "kmeans_start.c"
#include "least_squares.c"
#include "moments.c"
#include "net_descent.c"
#include "net_pass.c"
#include "net_path.c"
#include "positive.c"
#include "products.c"
#include "quantile.c"
#include "random.c"
#include "svd.c"
#include "triangle.c"
