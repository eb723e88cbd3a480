/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the module for envelopes of objects (sparkring/_objects/codec.py).
 */
#ifndef SPARKRING_ENVELOPE_H
#define SPARKRING_ENVELOPE_H

#include "state.h"

/* envelope_trailer(length): the trailer of an object with so many bytes. */
PyObject *envelope_trailer(PyObject *module, PyObject *length);

/* envelope_failure(text): the envelope of an error, whose text is bytes. */
PyObject *envelope_failure(PyObject *module, PyObject *text);

/* envelope_split(received, count): where each envelope begins, and where the last ends; None when these are
 * no envelopes. */
PyObject *envelope_split(PyObject *module, PyObject *args);

/* envelope_check(envelope, rank): None for an object that Python reads, else why it cannot. */
PyObject *envelope_check(PyObject *module, PyObject *args);

#endif
