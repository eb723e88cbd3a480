/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of a collective: the view of x, and the output, which is made or viewed. Every
 * collective opens the operands, calls the core and finishes the operands. A step that fails raises
 * and leaves nothing open. Operands are on the heap, because those of a started collective outlive
 * the call.
 */
#ifndef SPARKRING_OPERANDS_H
#define SPARKRING_OPERANDS_H

#include "comm.h"
#include "dlpack_output.h"
#include "gpu_view.h"
#include "view.h"

typedef struct operands {
  struct operands *next; /* of a group */
  char input_name[16], output_name[16];
  PyObject *input;
  PyObject *output;       /* NULL on ranks that get none, and until: */
  dlpack_output *tensor;  /* becomes an array of the library of x */
  PyObject *x;            /* an array of another library, or NULL, and */
  const adapter *adapter; /* the adapter of its type */
  PyObject *counts;       /* NULL, or returned beside the output: rows from each rank */
  view in, out;
  double prescale, postscale; /* factors of a reduction; in a group, those of the first */
  const char *dtype;          /* the caller's name of the dtype of x, or NULL */
  bool read;              /* the core reads the input on this rank, not only its shape and dtype */
  bool scalar;            /* a number went in and a number comes out */
  bool given;             /* the output is the caller's */
  bool same;              /* the output has the shape of x */
  bool rows;              /* ranks may differ in the first dimension of x */
  gpu_view_device device; /* which carries out the call, for arrays on a GPU */
} operands;

/* The shape of the result relative to x, and the permitted overlap. */
typedef enum operands_kind {
  OPERANDS_SAME,  /* of the shape of x, which may be the same memory */
  OPERANDS_ALL,   /* the rows of all ranks; x may be this rank's part */
  OPERANDS_PART,  /* one of `size` equal parts of x, which may be this rank's */
  OPERANDS_MIXED, /* of the shape of x, which is cut in the same way; never in place */
} operands_kind;

/* The memory that a call takes: of the host; or also of a GPU, for which the first call opens the device of the
 * communicator, for which that is open already, or for which what carries out the call has a device of its own. */
typedef enum operands_memory {
  OPERANDS_HOST,
  OPERANDS_GPU,
  OPERANDS_OPEN_GPU,
  OPERANDS_APART_GPU
} operands_memory;

/* Views x; NULL with an exception. `index` is its place in a group, or -1. */
operands *operands_open(comm_object *self, PyObject *x, int index, const char *dtype, bool read,
                        operands_memory memory);

/* The same for a call that takes no arrays on GPUs, and has its name in the error. */
operands *operands_open_on_host(comm_object *self, PyObject *x, const char *dtype, bool read,
                                const char *call);

/* Joins the operands of a group: all are in memory of the host, or all on the GPU, where the stream of the first waits
 * for that of the other. 0, or -1 with an exception. */
int operands_join(const operands *first, const operands *other, comm_object *self);

/* Views out, or makes the output when out is None. 0, or -1 with an exception. */
int operands_result(operands *operands, comm_object *self, PyObject *out, operands_kind kind);

/* Makes an output of `rows` rows like those of x. 0, or -1 with an exception. */
int operands_make_rows(operands *operands, comm_object *self, Py_ssize_t rows);

/* Adds the shape of x to the call signature of the next call of the core: the shapes of all arrays
 * of a group, or of the rows of x. */
void operands_describe(const operands *first, comm_object *self);

/* Closes the operands. Returns the output, None where there is none, or NULL when the call has not
 * succeeded. */
PyObject *operands_finish(operands *operands, bool succeeded);

/* The same for a group. Its outputs make a list. NULL is an empty group. */
PyObject *operands_finish_list(operands *first, bool succeeded);

/* For the cycle collector: of one array, or of all arrays of a group. */
int operands_traverse(const operands *first, visitproc visit, void *arg);

typedef PyObject *(*operands_finish_fn)(operands *operands, bool succeeded);

#endif
