/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "quantile.h"

PyObject *calls_quantile_places(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *probs, *below, *above, *share;
  double count;
  int type;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "dOiOOO", &count, &probs, &type, &below, &above, &share))
    return NULL;
  size_t length = arrays_length(&of, probs);
  const double *from = arrays_read(&of, probs, length);
  double *to[] = {arrays_write(&of, below, length), arrays_write(&of, above, length),
                  arrays_write(&of, share, length)};
  for (size_t i = 0; i < length && !of.failed; i++) {
    num_quantile place = num_quantile_place(count, from[i], type);
    to[0][i] = place.below, to[1][i] = place.above, to[2][i] = place.share;
  }
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_quantile_between(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *below, *above, *share, *found;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOO", &below, &above, &share, &found)) return NULL;
  size_t length = arrays_length(&of, below);
  const double *from[] = {arrays_read(&of, below, length), arrays_read(&of, above, length),
                          arrays_read(&of, share, length)};
  double *to = arrays_write(&of, found, length);
  for (size_t i = 0; i < length && !of.failed; i++)
    to[i] = num_quantile_between(from[0][i], from[1][i], from[2][i]);
  return arrays_end(&of, Py_NewRef(Py_None));
}
