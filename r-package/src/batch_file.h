/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a rank in a file, which the Spark task has written on its host (R/spark-batches.R). Each line has a
 * record batch of Arrow: the first row of this rank and the row behind its last, -1 for all further rows, and the batch
 * in base64. A line without a batch is empty. Some Sparks break a line of base64 by returns and newlines, so a newline
 * behind a return does not end a line.
 */
#ifndef SPARKRING_BATCH_FILE_H
#define SPARKRING_BATCH_FILE_H

#include <Rinternals.h>

/* Opens the file and removes its name, so that nothing remains when the processes of the rank have ended. Returns the
 * descriptor, which a forked process inherits. */
SEXP batch_file_open(SEXP path);

/* Reads the next batch that begins at or after the byte `offset`. Returns a list of the columns (record_batch.h), the
 * offset behind the line, and a buffer for the next call; NULL at the end of the file. `buffer` is a raw vector of any
 * length, which is overwritten: a new one for each batch would be much work for R's garbage collector. */
SEXP batch_file_read(SEXP descriptor, SEXP offset, SEXP kinds, SEXP buffer);

SEXP batch_file_close(SEXP descriptor);

#endif
