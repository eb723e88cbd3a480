/* SPDX-License-Identifier: Apache-2.0
 *
 * Record batches of Arrow, as Spark writes them, as columns of R. Apache Arrow specifies the format under "Columnar
 * format" and "Interprocess communication". R has no package of Arrow on most systems, so this file reads the few types
 * that Spark sends to ring_apply().
 *
 * The kind of a column is one letter, which R/spark-batches.R chooses:
 *   d  float64 as double        i  int32 as integer       l  bool as logical     c  utf8 as character
 *   D  date32 as double, days   t  timestamp of microseconds as double, seconds  r  binary as a list of raw vectors
 * A letter after "[" is a list column of vectors of that kind, where D and t have R's classes; "[b" is one of raw
 * vectors from lists of int32, and the elements of "[c" are lists of strings, all as sparklyr collects them. A null is
 * NA, also in a list.
 */
#ifndef SPARKRING_RECORD_BATCH_H
#define SPARKRING_RECORD_BATCH_H

#include <Rinternals.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of an encapsulated message with one record batch, as a list: rows `from` to `end`, exclusive, both counted
 * from 0, or to the last row if `end` is negative. `kinds` has the kind of each column. An error in the message, such
 * as another type than the kind, is an error of R. */
SEXP record_batch_columns(const uint8_t *message, size_t size, SEXP kinds, int64_t from,
                          int64_t end);

/* All columns of `message`, a raw vector. */
SEXP record_batch_read(SEXP message, SEXP kinds);

#endif
