/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of sparkring._numerics. Each is that of numerics/ with the name behind `calls_`; a result is written to
 * the arrays that are passed for it.
 */
#ifndef SPARKRING_CALLS_H
#define SPARKRING_CALLS_H

#include "arrays.h"

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *object) {
  Py_INCREF(object);
  return object;
}
#endif

/* Memory of `count` doubles, for PyMem_Free(). NULL if the call has failed, and then it has. */
double *calls_memory(arrays *of, size_t count);

/* clang-format off */
#define CALLS_OF(call)                                                                             \
  call(moments_size) call(moments_open) call(moments_add) call(moments_merge) call(moments_close)  \
  call(kmeans_nearest) call(kmeans_distance) call(kmeans_sums) call(kmeans_means)                  \
  call(kmeans_refill) call(kmeans_moves) call(kmeans_half) call(kmeans_assign)                     \
  call(kmeans_first) call(kmeans_total) call(kmeans_draw) call(kmeans_choose)                      \
  call(triangle_size) call(triangle_message) call(triangle_open) call(triangle_add)                \
  call(triangle_close) call(triangle_merge) call(triangle_finish) call(least_squares)              \
  call(cox_size) call(cox_distances) call(cox_pack) call(cox_sort) call(cox_propose)               \
  call(cox_divide) call(cox_carry) call(cox_times_sum) call(cox_chains) call(cox_chain_before)     \
  call(cox_groups) call(cox_row) call(cox_state) call(cox_risks) call(cox_edge) call(cox_back)     \
  call(cox_forward) call(cox_residuals) call(cox_clusters) call(cox_influence) call(cox_step)      \
  call(cox_change) call(positive_wald) call(net_state) call(net_open) call(net_add)                \
  call(net_close) call(net_least) call(net_squares) call(net_follow) call(net_unscale)             \
  call(glm_eta) call(glm_mean) call(glm_slope) call(glm_variance) call(glm_deviance)               \
  call(glm_predict) call(glm_add) call(glm_total) call(svd) call(quantile_places)                  \
  call(quantile_between)
/* clang-format on */

#define CALLS_DECLARE(name) PyObject *calls_##name(PyObject *module, PyObject *arguments);
CALLS_OF(CALLS_DECLARE)

#endif
