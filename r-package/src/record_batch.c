/* SPDX-License-Identifier: Apache-2.0 */
#include "record_batch.h"

#include <R_ext/Arith.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BATCH_HEADER 3 /* a RecordBatch, among the headers of messages */
#define BATCH_ITEM 16  /* bytes of a FieldNode and of a Buffer */

/* A message, and the place in its metadata: columns use nodes and buffers in their order. */
struct batch {
  const uint8_t *bytes;
  size_t size;
  size_t node, nodes;     /* where the next FieldNode is, and where they end */
  size_t buffer, buffers; /* the same of Buffers */
  size_t body;
};

/* The rows of a column within the message. */
struct rows {
  int64_t from, end;
};

struct field {
  int64_t length;
  const uint8_t *validity; /* NULL: no row is null */
};

struct buffer {
  const uint8_t *bytes;
  size_t size;
};

static _Noreturn void batch_invalid(const char *what) {
  Rf_error("the rows of this rank cannot be read: %s in a record batch of Spark", what);
}

/* ---- Metadata: tables of FlatBuffers, little-endian ------------------------------------------------------------ */

static uint64_t batch_number(const struct batch *batch, size_t at, size_t bytes) {
  if (at > batch->size || batch->size - at < bytes) batch_invalid("a position outside");
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = number << 8 | batch->bytes[at + i];
  return number;
}

/* Where a field of a table is; 0 for a field with its default value. */
static size_t batch_field(const struct batch *batch, size_t table, unsigned index) {
  int32_t back = (int32_t)batch_number(batch, table, 4);
  int64_t vtable = (int64_t)table - back;
  if (vtable < 0) batch_invalid("a table outside");
  size_t slot = 4 + 2 * (size_t)index;
  if (slot + 2 > batch_number(batch, (size_t)vtable, 2)) return 0;
  size_t offset = batch_number(batch, (size_t)vtable + slot, 2);
  return offset == 0 ? 0 : table + offset;
}

/* Follows the offset at a position. */
static size_t batch_follow(const struct batch *batch, size_t at) {
  return at + batch_number(batch, at, 4);
}

/* The begin of a vector of items; its end goes to `end`. */
static size_t batch_vector(const struct batch *batch, size_t table, unsigned index, size_t *end) {
  size_t at = batch_field(batch, table, index);
  if (at == 0) return *end = 0;
  size_t vector = batch_follow(batch, at);
  *end = vector + 4 + BATCH_ITEM * batch_number(batch, vector, 4);
  return vector + 4;
}

/* Reads the metadata. Returns the number of rows. */
static int64_t batch_open(struct batch *batch) {
  size_t prefix = batch_number(batch, 0, 4) == UINT32_MAX ? 4 : 0;
  size_t root = prefix + 4;
  batch->body = root + batch_number(batch, prefix, 4);
  if (batch->body > batch->size) batch_invalid("a body outside");
  size_t message = batch_follow(batch, root);
  size_t kind = batch_field(batch, message, 1), header = batch_field(batch, message, 2);
  if (kind == 0 || header == 0 || batch_number(batch, kind, 1) != BATCH_HEADER)
    batch_invalid("no rows");
  size_t table = batch_follow(batch, header);
  size_t length = batch_field(batch, table, 0);
  batch->node = batch_vector(batch, table, 1, &batch->nodes);
  batch->buffer = batch_vector(batch, table, 2, &batch->buffers);
  if (batch_field(batch, table, 3) != 0)
    Rf_error("Spark compresses the rows: set spark.sql.execution.arrow.compression.codec to none");
  uint64_t rows = length == 0 ? 0 : batch_number(batch, length, 8);
  if (rows > R_XLEN_T_MAX) batch_invalid("too many rows");
  return (int64_t)rows;
}

/* ---- Buffers --------------------------------------------------------------------------------------------------- */

static struct buffer batch_next_buffer(struct batch *batch) {
  if (batch->buffer >= batch->buffers) batch_invalid("too few buffers");
  uint64_t offset = batch_number(batch, batch->buffer, 8),
           size = batch_number(batch, batch->buffer + 8, 8);
  batch->buffer += BATCH_ITEM;
  size_t body = batch->size - batch->body;
  if (offset > body || size > body - offset) batch_invalid("a buffer outside");
  return (struct buffer){batch->bytes + batch->body + offset, (size_t)size};
}

/* A buffer with at least `count` elements of `bytes`, unless there are no rows. */
static const uint8_t *batch_elements(struct batch *batch, int64_t count, size_t bytes) {
  struct buffer buffer = batch_next_buffer(batch);
  if ((uint64_t)count > buffer.size / bytes) batch_invalid("a short buffer");
  return buffer.bytes;
}

/* The next column, with the buffer of its nulls. Its rows must be within it. */
static struct field batch_next_field(struct batch *batch, struct rows rows) {
  if (batch->node >= batch->nodes) batch_invalid("too few columns");
  int64_t length = (int64_t)batch_number(batch, batch->node, 8);
  int64_t nulls = (int64_t)batch_number(batch, batch->node + 8, 8);
  batch->node += BATCH_ITEM;
  if (length < rows.end) batch_invalid("a short column");
  struct buffer validity = batch_next_buffer(batch);
  if (nulls != 0 && validity.size < (uint64_t)length / 8 + (length % 8 != 0))
    batch_invalid("a short buffer");
  return (struct field){length, nulls == 0 ? NULL : validity.bytes};
}

static bool is_set(const uint8_t *bits, int64_t row) {
  return bits[row / 8] >> row % 8 & 1;
}

static bool field_null(const struct field *field, int64_t row) {
  return field->validity != NULL && !is_set(field->validity, row);
}

static int32_t int32_at(const uint8_t *bytes, int64_t row) {
  int32_t value;
  memcpy(&value, bytes + 4 * row, sizeof value);
  return value;
}

static int64_t int64_at(const uint8_t *bytes, int64_t row) {
  int64_t value;
  memcpy(&value, bytes + 8 * row, sizeof value);
  return value;
}

/* ---- Columns of numbers ---------------------------------------------------------------------------------------- */

static SEXP batch_doubles(struct batch *batch, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  const uint8_t *bytes = batch_elements(batch, rows.end, sizeof(double));
  SEXP column = Rf_allocVector(REALSXP, rows.end - rows.from);
  double *values = REAL(column);
  if (rows.end > rows.from)
    memcpy(values, bytes + 8 * rows.from, 8 * (size_t)(rows.end - rows.from));
  if (field.validity == NULL) return column;
  for (int64_t row = rows.from; row < rows.end; row++)
    if (field_null(&field, row)) values[row - rows.from] = NA_REAL;
  return column;
}

static SEXP batch_times(struct batch *batch, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  const uint8_t *bytes = batch_elements(batch, rows.end, sizeof(int64_t));
  SEXP column = Rf_allocVector(REALSXP, rows.end - rows.from);
  double *seconds = REAL(column);
  for (int64_t row = rows.from; row < rows.end; row++)
    seconds[row - rows.from] =
        field_null(&field, row) ? NA_REAL : (double)int64_at(bytes, row) / 1e6;
  return column;
}

static SEXP batch_days(struct batch *batch, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  const uint8_t *bytes = batch_elements(batch, rows.end, sizeof(int32_t));
  SEXP column = Rf_allocVector(REALSXP, rows.end - rows.from);
  double *days = REAL(column);
  for (int64_t row = rows.from; row < rows.end; row++)
    days[row - rows.from] = field_null(&field, row) ? NA_REAL : int32_at(bytes, row);
  return column;
}

static SEXP batch_integers(struct batch *batch, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  const uint8_t *bytes = batch_elements(batch, rows.end, sizeof(int32_t));
  SEXP column = Rf_allocVector(INTSXP, rows.end - rows.from);
  int *values = INTEGER(column);
  for (int64_t row = rows.from; row < rows.end; row++)
    values[row - rows.from] = field_null(&field, row) ? NA_INTEGER : int32_at(bytes, row);
  return column;
}

static SEXP batch_logicals(struct batch *batch, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  const uint8_t *bits = batch_elements(batch, rows.end / 8 + (rows.end % 8 != 0), 1);
  SEXP column = Rf_allocVector(LGLSXP, rows.end - rows.from);
  int *values = LOGICAL(column);
  for (int64_t row = rows.from; row < rows.end; row++)
    values[row - rows.from] = field_null(&field, row) ? NA_LOGICAL : is_set(bits, row);
  return column;
}

/* ---- Columns of variable length -------------------------------------------------------------------------------- */

/* The first value of each row. Spark may write offsets of 64 bits (useLargeVarTypes). Their buffer has twice
 * the size, because Spark writes the sizes of buffers without padding. */
struct offsets {
  const uint8_t *bytes;
  bool large;
};

static int64_t offset_at(struct offsets offsets, int64_t row) {
  return offsets.large ? int64_at(offsets.bytes, row) : int32_at(offsets.bytes, row);
}

/* Reads the offsets of a column of `length` rows, and checks those of `rows`. */
static struct offsets batch_offsets(struct batch *batch, int64_t length, struct rows rows) {
  struct buffer buffer = batch_next_buffer(batch);
  uint64_t count = (uint64_t)length + 1;
  if (length > 0 && buffer.size / 4 < count) batch_invalid("a short buffer");
  struct offsets offsets = {buffer.bytes, length > 0 && buffer.size / 8 >= count};
  for (int64_t row = rows.from; row < rows.end; row++) {
    int64_t begin = offset_at(offsets, row);
    if (begin < 0 || offset_at(offsets, row + 1) < begin) batch_invalid("offsets in disorder");
  }
  return offsets;
}

/* A string of R has no NUL; sparklyr leaves them out, too. */
static SEXP batch_string(const char *text, int64_t length) {
  if (length > INT32_MAX) batch_invalid("a string of 2 GiB");
  if (memchr(text, 0, (size_t)length) == NULL) return Rf_mkCharLenCE(text, (int)length, CE_UTF8);
  const void *before = vmaxget();
  char *copy = R_alloc((size_t)length, 1);
  int kept = 0;
  for (int64_t i = 0; i < length; i++)
    if (text[i] != 0) copy[kept++] = text[i];
  SEXP string = Rf_mkCharLenCE(copy, kept, CE_UTF8);
  vmaxset(before);
  return string;
}

/* A column of utf8 or binary. */
static SEXP batch_texts(struct batch *batch, struct rows rows, bool binary) {
  struct field field = batch_next_field(batch, rows);
  struct offsets offsets = batch_offsets(batch, field.length, rows);
  struct buffer values = batch_next_buffer(batch);
  SEXP column = PROTECT(Rf_allocVector(binary ? VECSXP : STRSXP, rows.end - rows.from));
  for (int64_t row = rows.from; row < rows.end; row++) {
    R_xlen_t i = row - rows.from;
    int64_t begin = offset_at(offsets, row), length = offset_at(offsets, row + 1) - begin;
    if ((uint64_t)begin + (uint64_t)length > values.size) batch_invalid("offsets outside");
    const uint8_t *bytes = values.bytes + begin;
    if (!binary) {
      bool null = field_null(&field, row);
      SET_STRING_ELT(column, i, null ? NA_STRING : batch_string((const char *)bytes, length));
    } else if (field_null(&field, row)) {
      SET_VECTOR_ELT(column, i, Rf_ScalarLogical(NA_LOGICAL));
    } else {
      SET_VECTOR_ELT(column, i, Rf_allocVector(RAWSXP, length));
      if (length > 0) memcpy(RAW(VECTOR_ELT(column, i)), bytes, (size_t)length);
    }
  }
  UNPROTECT(1);
  return column;
}

/* ---- Columns of lists ------------------------------------------------------------------------------------------ */

static void classify(SEXP values, char kind) {
  if (kind == 'D') {
    Rf_setAttrib(values, R_ClassSymbol, PROTECT(Rf_mkString("Date")));
    UNPROTECT(1);
  } else if (kind == 't') {
    SEXP classes = PROTECT(Rf_allocVector(STRSXP, 2));
    SET_STRING_ELT(classes, 0, Rf_mkChar("POSIXct"));
    SET_STRING_ELT(classes, 1, Rf_mkChar("POSIXt"));
    Rf_setAttrib(values, R_ClassSymbol, classes);
    Rf_setAttrib(values, Rf_install("tzone"), PROTECT(Rf_mkString("")));
    UNPROTECT(2);
  }
}

/* Elements `from` to `end` of the values of a list column, as a vector. */
static SEXP batch_slice(SEXP values, char kind, R_xlen_t from, R_xlen_t end) {
  SEXPTYPE type = kind == 'b' ? RAWSXP : kind == 'c' ? VECSXP : (SEXPTYPE)TYPEOF(values);
  SEXP slice = PROTECT(Rf_allocVector(type, end - from));
  size_t count = (size_t)(end - from);
  if (kind == 'b')
    for (R_xlen_t i = from; i < end; i++) RAW(slice)[i - from] = (Rbyte)(INTEGER(values)[i] & 0xff);
  else if (kind == 'c')
    for (R_xlen_t i = from; i < end; i++)
      SET_VECTOR_ELT(slice, i - from, Rf_ScalarString(STRING_ELT(values, i)));
  else if (count > 0 && type == REALSXP)
    memcpy(REAL(slice), REAL(values) + from, count * sizeof(double));
  else if (count > 0) /* LOGICAL() is the same */
    memcpy(INTEGER(slice), INTEGER(values) + from, count * sizeof(int));
  classify(slice, kind);
  UNPROTECT(1);
  return slice;
}

static SEXP batch_column(struct batch *batch, const char *kind, struct rows rows);

static SEXP batch_lists(struct batch *batch, const char *kind, struct rows rows) {
  struct field field = batch_next_field(batch, rows);
  struct offsets offsets = batch_offsets(batch, field.length, rows);
  struct rows within = {0, 0};
  if (rows.end > rows.from)
    within = (struct rows){offset_at(offsets, rows.from), offset_at(offsets, rows.end)};
  SEXP values = PROTECT(batch_column(batch, *kind == 'b' ? "i" : kind, within));
  SEXP column = PROTECT(Rf_allocVector(VECSXP, rows.end - rows.from));
  for (int64_t row = rows.from; row < rows.end; row++) {
    int64_t begin = offset_at(offsets, row) - within.from,
            end = offset_at(offsets, row + 1) - within.from;
    bool null = field_null(&field, row);
    SET_VECTOR_ELT(column, row - rows.from,
                   null ? Rf_ScalarLogical(NA_LOGICAL) : batch_slice(values, *kind, begin, end));
  }
  UNPROTECT(2);
  return column;
}

static SEXP batch_column(struct batch *batch, const char *kind, struct rows rows) {
  switch (*kind) {
  case 'd':
    return batch_doubles(batch, rows);
  case 'i':
    return batch_integers(batch, rows);
  case 'l':
    return batch_logicals(batch, rows);
  case 'c':
    return batch_texts(batch, rows, false);
  case 'r':
    return batch_texts(batch, rows, true);
  case 'D':
    return batch_days(batch, rows);
  case 't':
    return batch_times(batch, rows);
  case '[':
    return batch_lists(batch, kind + 1, rows);
  default:
    Rf_error("there is no kind of column %s", kind);
  }
}

SEXP record_batch_columns(const uint8_t *message, size_t size, SEXP kinds, int64_t from,
                          int64_t end) {
  struct batch batch = {.bytes = message, .size = size};
  int64_t length = batch_open(&batch);
  if (from < 0) batch_invalid("a row before the first");
  struct rows rows = {from, end < 0 || end > length ? length : end};
  if (rows.from > rows.end) rows.from = rows.end;
  SEXP columns = PROTECT(Rf_allocVector(VECSXP, XLENGTH(kinds)));
  for (R_xlen_t i = 0; i < XLENGTH(kinds); i++)
    SET_VECTOR_ELT(columns, i, batch_column(&batch, CHAR(STRING_ELT(kinds, i)), rows));
  UNPROTECT(1);
  return columns;
}

SEXP record_batch_read(SEXP message, SEXP kinds) {
  return record_batch_columns(RAW(message), (size_t)XLENGTH(message), kinds, 0, -1);
}
