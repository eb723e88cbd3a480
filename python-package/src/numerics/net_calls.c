/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calls.h"
#include "net_path.h"

/* A model is a tuple: the letter of the family, whether there is an intercept, the number of classes, and the centers
 * and scales of the columns. A point is the active coefficients, their values, and whether the gradient is whole. */
#define NET_MODEL "(CpnOO)"
#define NET_POINT "OOp"

typedef struct {
  int family, intercept, whole;
  Py_ssize_t classes;
  PyObject *center, *scale, *active, *b;
} net_arguments;

#define NET_MODEL_OF(a) &(a).family, &(a).intercept, &(a).classes, &(a).center, &(a).scale
#define NET_POINT_OF(a) &(a).active, &(a).b, &(a).whole

static num_net_model net_model(arrays *of, const net_arguments *given) {
  size_t columns = arrays_length(of, given->center);
  return (num_net_model){.family = (char)given->family,
                         .intercept = given->intercept,
                         .columns = columns,
                         .classes = (size_t)given->classes,
                         .center = arrays_read(of, given->center, columns),
                         .scale = arrays_read(of, given->scale, columns)};
}

static num_net_point net_point(arrays *of, const net_arguments *given) {
  size_t count = arrays_length(of, given->active);
  return (num_net_point){.count = count,
                         .active = arrays_read_integers(of, given->active, count),
                         .b = arrays_read(of, given->b, count),
                         .whole = given->whole};
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

PyObject *calls_net_state(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL NET_POINT, NET_MODEL_OF(given), NET_POINT_OF(given)))
    return NULL;
  num_net_model model = net_model(&of, &given);
  num_net_point point = net_point(&of, &given);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(num_net_state(&model, &point)));
}

typedef void net_call(const num_net_model *, const num_net_point *, double *, double *);

static PyObject *net_on_state(PyObject *arguments, net_call *call) {
  net_arguments given;
  PyObject *state, *sums;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL NET_POINT "OO", NET_MODEL_OF(given),
                        NET_POINT_OF(given), &state, &sums))
    return NULL;
  num_net_model model = net_model(&of, &given);
  num_net_point point = net_point(&of, &given);
  double *memory = arrays_write(&of, state, num_net_state(&model, &point));
  double *to = arrays_write(&of, sums, num_net_sums(&model, &point));
  if (!of.failed) call(&model, &point, memory, to);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_net_open(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return net_on_state(arguments, num_net_open);
}

PyObject *calls_net_close(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return net_on_state(arguments, num_net_close);
}

PyObject *calls_net_add(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  PyObject *x, *y, *weights, *offset, *state, *sums;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL NET_POINT "OOOOOO", NET_MODEL_OF(given),
                        NET_POINT_OF(given), &x, &y, &weights, &offset, &state, &sums))
    return NULL;
  num_net_model model = net_model(&of, &given);
  num_net_point point = net_point(&of, &given);
  num_rows of_x = arrays_rows(&of, x, weights, Py_None);
  num_net_rows rows = {.count = of_x.count,
                       .x = of_x.x,
                       .weights = of_x.weights,
                       .y = arrays_read(&of, y, of_x.count * model.classes),
                       .offset = arrays_read_if_any(&of, offset, of_x.count),
                       .row_step = of_x.width,
                       .column_step = 1,
                       .y_row_step = model.classes,
                       .y_class_step = 1};
  double *memory = arrays_write(&of, state, num_net_state(&model, &point));
  double *to = arrays_write(&of, sums, num_net_sums(&model, &point));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_net_add(&model, &point, &rows, memory, to);
  Py_END_ALLOW_THREADS;
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_net_least(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  PyObject *y, *weights;
  double total;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL "OOd", NET_MODEL_OF(given), &y, &weights, &total))
    return NULL;
  num_net_model model = net_model(&of, &given);
  size_t count = arrays_length(&of, weights);
  num_net_rows rows = {.count = count,
                       .y = arrays_read(&of, y, count * model.classes),
                       .weights = arrays_read(&of, weights, count),
                       .y_row_step = model.classes,
                       .y_class_step = 1};
  if (!of.failed) num_net_least(&model, &rows, &total);
  return arrays_end(&of, PyFloat_FromDouble(total));
}

PyObject *calls_net_squares(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  PyObject *sums, *found;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL NET_POINT "OO", NET_MODEL_OF(given),
                        NET_POINT_OF(given), &sums, &found))
    return NULL;
  num_net_model model = net_model(&of, &given);
  num_net_point point = net_point(&of, &given);
  size_t width = num_net_width(&model);
  const double *from = arrays_read(&of, sums, 1 + width + width * width);
  double *to = arrays_write(&of, found, num_net_sums(&model, &point));
  if (!of.failed) num_net_squares(&model, from, &point, to);
  return arrays_end(&of, Py_NewRef(Py_None));
}

/* ---- The path --------------------------------------------------------------------------------------------------- */

/* The functions of Python. `sums` is the last pass. `thread` is the state of this thread while it computes. */
typedef struct {
  const num_net_model *model;
  PyObject *look, *share;
  arrays sums;
  PyThreadState *thread;
} net_caller;

static PyObject *net_bytes(const void *numbers, size_t size, int flags) {
  return PyMemoryView_FromMemory((char *)numbers, (Py_ssize_t)size, flags);
}

static double *net_passed(net_caller *caller, const num_net_point *point) {
  arrays_end(&caller->sums, NULL);
  PyObject *active = net_bytes(point->active, point->count * sizeof *point->active, PyBUF_READ);
  PyObject *b = net_bytes(point->b, point->count * sizeof *point->b, PyBUF_READ);
  PyObject *found = NULL;
  double *sums = NULL;
  if (active && b)
    found =
        PyObject_CallFunction(caller->look, "OOO", active, b, point->whole ? Py_True : Py_False);
  if (found) sums = arrays_write(&caller->sums, found, num_net_sums(caller->model, point));
  Py_XDECREF(active), Py_XDECREF(b), Py_XDECREF(found); /* the view holds the array */
  return sums;
}

static double *net_look(void *context, const num_net_point *point) {
  net_caller *caller = context;
  PyEval_RestoreThread(caller->thread);
  double *sums = net_passed(caller, point);
  caller->thread = PyEval_SaveThread();
  return sums;
}

static bool net_share(void *context, double *numbers, size_t count) {
  net_caller *caller = context;
  PyEval_RestoreThread(caller->thread);
  PyObject *view = net_bytes(numbers, count * sizeof *numbers, PyBUF_WRITE);
  PyObject *none = view ? PyObject_CallFunction(caller->share, "O", view) : NULL;
  bool shared = none != NULL;
  Py_XDECREF(view), Py_XDECREF(none);
  caller->thread = PyEval_SaveThread();
  return shared;
}

PyObject *calls_net_follow(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  PyObject *penalty, *lambda, *coefficients, *deviance, *violation, *counts;
  Py_ssize_t steps;
  int ends;
  num_net_problem problem = {0};
  net_caller caller = {0};
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL "(Odddddnp)OOOOOOO", NET_MODEL_OF(given), &penalty,
                        &problem.alpha, &problem.spread, &problem.least, &problem.tolerance,
                        &problem.ratio, &steps, &ends, &caller.look, &caller.share, &lambda,
                        &coefficients, &deviance, &violation, &counts))
    return NULL;
  num_net_model model = net_model(&of, &given);
  num_net_path path = {0};
  size_t width = num_net_width(&model) * model.classes;
  problem.model = caller.model = &model;
  problem.steps = (size_t)steps, problem.ends = ends;
  problem.count = arrays_length(&of, lambda);
  problem.penalty = arrays_read(&of, penalty, width);
  problem.lambda = path.lambda = arrays_write(&of, lambda, problem.count);
  path.coefficients = arrays_write(&of, coefficients, problem.count * width);
  path.deviance = arrays_write(&of, deviance, problem.count);
  path.violation = arrays_write(&of, violation, problem.count);
  path.steps = arrays_write(&of, counts, problem.count);
  double *scratch = calls_memory(&of, num_net_follow_scratch(&model));
  if (!of.failed) {
    num_net_ranks ranks = {net_look, net_share, &caller};
    caller.thread = PyEval_SaveThread();
    of.failed = !num_net_follow(&problem, &ranks, &path, scratch);
    PyEval_RestoreThread(caller.thread);
  }
  arrays_end(&caller.sums, NULL);
  PyMem_Free(scratch);
  return arrays_end(&of, of.failed ? NULL : Py_BuildValue("nd", (Py_ssize_t)path.count, path.null));
}

PyObject *calls_net_unscale(PyObject *Py_UNUSED(module), PyObject *arguments) {
  net_arguments given;
  PyObject *coefficients, *slopes, *levels;
  double mean;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, NET_MODEL "OdOO", NET_MODEL_OF(given), &coefficients, &mean,
                        &slopes, &levels))
    return NULL;
  num_net_model model = net_model(&of, &given);
  const double *from = arrays_read(&of, coefficients, num_net_width(&model) * model.classes);
  double *to = arrays_write(&of, slopes, model.columns * model.classes);
  double *level = arrays_write(&of, levels, model.classes);
  if (!of.failed) num_net_unscale(&model, from, mean, to, level);
  return arrays_end(&of, Py_NewRef(Py_None));
}
