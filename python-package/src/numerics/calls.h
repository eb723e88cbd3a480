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

#define CALLS_OF(call)                                                                             \
  call(moments_size) call(moments_open) call(moments_add) call(moments_merge) call(moments_close)  \
      call(kmeans_nearest) call(kmeans_distance) call(kmeans_sums) call(kmeans_means)              \
          call(kmeans_refill) call(kmeans_moves) call(kmeans_half) call(kmeans_assign)             \
              call(kmeans_first) call(kmeans_total) call(kmeans_draw) call(kmeans_choose)          \
                  call(triangle_size) call(triangle_message) call(triangle_open)                   \
                      call(triangle_add) call(triangle_close) call(triangle_merge)                 \
                          call(triangle_finish) call(least_squares)

#define CALLS_DECLARE(name) PyObject *calls_##name(PyObject *module, PyObject *arguments);
CALLS_OF(CALLS_DECLARE)

#endif
