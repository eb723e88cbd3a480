/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a group are operands in a chain. The core requires that no two arrays overlap. Only
 * the caller's own outputs may overlap. So where `out` is given, the check sorts all memory by
 * address and scans it once.
 */
#include "group.h"

#include <stdlib.h>

#include "collective.h"
#include "error.h"

typedef struct group {
  operands *first, *last;
  size_t count;
} group;

static void group_add(group *group, operands *operands) {
  if (group->last)
    group->last->next = operands;
  else
    group->first = operands;
  group->last = operands;
  group->count++;
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* A new tuple of the items of the caller's list. */
static PyObject *read_list(module_state *state, PyObject *list, const char *name) {
  PyObject *tuple = PySequence_Tuple(list);
  if (tuple || !PyErr_ExceptionMatches(PyExc_TypeError)) return tuple;
  PyErr_Clear();
  PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(list), "__name__");
  if (type) error_invalid(state, "%s is of type %U: pass a list of arrays", name, type);
  Py_XDECREF(type);
  return NULL;
}

/* A new tuple of outputs, one for each of xs. */
static PyObject *read_outputs(module_state *state, PyObject *out, Py_ssize_t count) {
  if (out == Py_None) return PyTuple_New(0);
  PyObject *outputs = read_list(state, out, "out");
  if (outputs == NULL || PyTuple_Size(outputs) == count) return outputs;
  error_invalid(state, "out has %zd arrays and xs %zd: pass one for each", PyTuple_Size(outputs),
                count);
  Py_DECREF(outputs);
  return NULL;
}

/* The form of a kind of group: its arguments and the shapes of its results. */
typedef struct group_form {
  arguments_form arguments;
  ring_group_kind kind;
  operands_kind shape;
} group_form;

static int group_open_one(group *group, comm_object *self, PyObject *x, PyObject *out,
                          const arguments *a, const group_form *form) {
  bool read = form->kind != RING_GROUP_BROADCAST || ring_comm_rank(self->comm) == a->root;
  operands *opened = operands_open(self, x, (int)group->count, a->dtype, read, OPERANDS_GPU);
  if (opened == NULL) return -1;
  if (group->first && operands_join(group->first, opened, self) < 0) {
    operands_finish(opened, false);
    return -1;
  }
  if (operands_result(opened, self, out, form->shape) < 0) return -1;
  group_add(group, opened);
  return 0;
}

static int group_open(group *group, comm_object *self, PyObject *xs, PyObject *outputs,
                      const arguments *a, const group_form *form) {
  Py_ssize_t count = PyTuple_Size(xs);
  bool given = PyTuple_Size(outputs) > 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *out = given ? PyTuple_GetItem(outputs, i) : Py_None;
    if (group_open_one(group, self, PyTuple_GetItem(xs, i), out, a, form) < 0) return -1;
  }
  return 0;
}

/* ---- Overlap ------------------------------------------------------------------------------ */

typedef struct extent {
  const char *start, *end;
  const char *name;
  bool written;
} extent;

static int compare_extents(const void *one, const void *other) {
  const extent *a = one, *b = other;
  return (a->start > b->start) - (a->start < b->start);
}

static size_t add_extent(extent *extents, size_t count, const view *view, bool written) {
  const char *start = view->buffer.buf;
  if (view->buffer.len == 0) return count;
  extents[count] = (extent){start, start + view->buffer.len, view->name, written};
  return count + 1;
}

/* Scans the arrays by address, with the furthest end of an input and of an output. */
static int check_apart(module_state *state, const extent *extents, size_t count) {
  extent furthest[2] = {0};
  for (size_t i = 0; i < count; i++) {
    const extent *now = &extents[i], *before = NULL;
    if (now->start < furthest[1].end) before = &furthest[1];
    if (now->written && now->start < furthest[0].end) before = &furthest[0];
    if (before) {
      error_invalid(state, "%s overlaps %s: the arrays of a group must lie apart", now->name,
                    before->name);
      return -1;
    }
    if (now->end > furthest[now->written].end) furthest[now->written] = *now;
  }
  return 0;
}

static int group_check_overlap(const group *group, module_state *state) {
  extent *extents = PyMem_Calloc(2 * group->count, sizeof(*extents));
  if (extents == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  size_t count = 0;
  for (const operands *o = group->first; o; o = o->next) {
    count = add_extent(extents, count, &o->out, true);
    if (o->in.buffer.buf != o->out.buffer.buf) count = add_extent(extents, count, &o->in, false);
  }
  qsort(extents, count, sizeof(*extents), compare_extents);
  int failed = check_apart(state, extents, count);
  PyMem_Free(extents);
  return failed;
}

/* ---- The methods -------------------------------------------------------------------------- */

static PyObject *group_run(const group *group, comm_object *self, const arguments *a,
                           const group_form *form, ring_op op, PyTypeObject *request) {
  ring_group_item *items = PyMem_Calloc(group->count, sizeof(*items)), *next = items;
  if (items == NULL) {
    operands_finish_list(group->first, false);
    return PyErr_NoMemory();
  }
  if (group->first) {
    group->first->prescale = a->prescale;
    group->first->postscale = a->postscale;
  }
  for (const operands *o = group->first; o; o = o->next)
    *next++ =
        (ring_group_item){o->read ? o->in.buffer.buf : NULL, o->out.buffer.buf,
                          form->shape == OPERANDS_PART ? o->out.count : o->in.count, o->in.dtype};
  call call;
  PyObject *result = NULL;
  if (call_enter(&call, self, group->first, operands_finish_list, form->arguments.method,
                 request) == 0)
    result =
        call_leave(&call, CALL_CORE(&call, group, form->kind, items, group->count, op, a->root));
  PyMem_Free(items);
  return result;
}

static PyObject *group_call(comm_object *self, const group_form *form,
                            const arguments_given *given) {
  arguments a;
  module_state *state = comm_state(self);
  PyObject *outputs = NULL, *result = NULL;
  ring_op op;
  if (arguments_read(&a, state, &form->arguments, given) < 0 ||
      collective_parse_op(state, a.op, &op) < 0)
    return NULL;
  group group = {0};
  PyObject *inputs = read_list(state, a.xs, "xs");
  if (inputs) outputs = read_outputs(state, a.out, PyTuple_Size(inputs));
  if (outputs == NULL || group_open(&group, self, inputs, outputs, &a, form) < 0 ||
      (a.out != Py_None && group_check_overlap(&group, state) < 0))
    operands_finish_list(group.first, false);
  else
    result = group_run(&group, self, &a, form, op, given->request);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return result;
}

static PyObject *allreduce_group_call(comm_object *self, const arguments_given *given) {
  static const group_form form = {{"allreduce_group",
                                   6,
                                   {ARGUMENTS_XS, ARGUMENTS_OP, ARGUMENTS_OUT, ARGUMENTS_DTYPE,
                                    ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}},
                                  RING_GROUP_ALLREDUCE,
                                  OPERANDS_SAME};
  return group_call(self, &form, given);
}

static PyObject *reduce_scatter_group_call(comm_object *self, const arguments_given *given) {
  static const group_form form = {{"reduce_scatter_group",
                                   6,
                                   {ARGUMENTS_XS, ARGUMENTS_OP, ARGUMENTS_OUT, ARGUMENTS_DTYPE,
                                    ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}},
                                  RING_GROUP_REDUCE_SCATTER,
                                  OPERANDS_PART};
  return group_call(self, &form, given);
}

static PyObject *allgather_group_call(comm_object *self, const arguments_given *given) {
  static const group_form form = {
      {"allgather_group", 3, {ARGUMENTS_XS, ARGUMENTS_OUT, ARGUMENTS_DTYPE}},
      RING_GROUP_ALLGATHER,
      OPERANDS_ALL};
  return group_call(self, &form, given);
}

static PyObject *broadcast_group_call(comm_object *self, const arguments_given *given) {
  static const group_form form = {
      {"broadcast_group", 4, {ARGUMENTS_XS, ARGUMENTS_ROOT, ARGUMENTS_OUT, ARGUMENTS_DTYPE}},
      RING_GROUP_BROADCAST,
      OPERANDS_SAME};
  return group_call(self, &form, given);
}

CALL_DEFINE(group, allreduce_group)
CALL_DEFINE(group, reduce_scatter_group)
CALL_DEFINE(group, allgather_group)
CALL_DEFINE(group, broadcast_group)
