/* SPDX-License-Identifier: Apache-2.0 */
#include "description.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "classed.h"
#include "view.h"

/* Bytes of labels that are printed: of all labels of a dimension, and of each label. */
#define DESCRIPTION_LABELS ((size_t)60)
#define DESCRIPTION_LABEL 24

/* ---- Digest and text ------------------------------------------------------------------------ */

/* Adds bytes to the digest, which stays 0 only for a vector without a description. */
static void description_digest(description *to, const void *bytes, size_t length) {
  if (to->digest == 0) to->digest = RING_DIGEST_EMPTY;
  to->digest = ring_digest_add(to->digest, bytes, length);
  if (to->digest == 0) to->digest = 1;
}

/* In 8 bytes, the lowest one first, on every machine. */
static void description_digest_number(description *to, int64_t number) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
  description_digest(to, bytes, sizeof(bytes));
}

static void description_digest_text(description *to, const char *text) {
  description_digest_number(to, (int64_t)strlen(text));
  description_digest(to, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void description_print(description *to,
                                                                    const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t at = to->length < sizeof(to->text) ? to->length : sizeof(to->text) - 1;
  int length = vsnprintf(&to->text[at], sizeof(to->text) - at, format, arguments);
  va_end(arguments);
  to->length += length > 0 ? (size_t)length : 0;
}

/* ---- Labels --------------------------------------------------------------------------------- */

static const char *description_label(SEXP labels, R_xlen_t i) {
  SEXP label = STRING_ELT(labels, i);
  if (label == NA_STRING) return NULL;
  return Rf_getCharCE(label) == CE_BYTES ? CHAR(label) : Rf_translateCharUTF8(label);
}

static void description_digest_labels(description *to, SEXP labels) {
  const void *memory = vmaxget();
  description_digest_number(to, Rf_xlength(labels));
  for (R_xlen_t i = 0; i < Rf_xlength(labels); i++) {
    const char *label = description_label(labels, i);
    if (label == NULL)
      description_digest_number(to, -1);
    else
      description_digest_text(to, label);
    vmaxset(memory);
  }
}

/* The number of bytes of a label that are printed: whole characters of UTF-8. */
static int description_fitting(const char *label) {
  int length = (int)strnlen(label, DESCRIPTION_LABEL + 1);
  if (length <= DESCRIPTION_LABEL) return length;
  length = DESCRIPTION_LABEL;
  while (length > 0 && ((unsigned char)label[length] & 0xc0) == 0x80) length--;
  return length;
}

static void description_print_label(description *to, const char *label) {
  if (label == NULL) {
    description_print(to, "NA");
    return;
  }
  int length = description_fitting(label);
  description_print(to, "\"%.*s%s\"", length, label, label[length] == '\0' ? "" : "...");
}

/* c("a", "b", ... 12 in all #0a1b): the digest of all labels follows when some are not printed. */
static void description_print_labels(description *to, SEXP labels) {
  const void *memory = vmaxget();
  R_xlen_t count = Rf_xlength(labels), i = 0;
  size_t begun = to->length;
  bool whole = true;
  description_print(to, "c(");
  for (; i < count && to->length - begun < DESCRIPTION_LABELS; i++) {
    const char *label = description_label(labels, i);
    if (i > 0) description_print(to, ", ");
    description_print_label(to, label);
    whole = whole && (label == NULL || label[description_fitting(label)] == '\0');
    vmaxset(memory);
  }
  if (i < count) description_print(to, ", ... %.0f in all", (double)count);
  if (i < count || !whole) {
    description alone = {.digest = 0};
    description_digest_labels(&alone, labels);
    description_print(to, " #%04x", (unsigned)(alone.digest & 0xffff));
  }
  description_print(to, ")");
}

/* ---- Shape ---------------------------------------------------------------------------------- */

static const char *description_separator(const description *to) {
  return to->length > 0 ? ", " : "";
}

/* Adds the first `count` dimensions. A dimension after them is printed as *. */
static void description_add_dim(description *to, SEXP dim, int count) {
  for (int i = count - 1; i >= 0; i--) description_digest_number(to, INTEGER_RO(dim)[i]);
  description_print(to, "%sdim c(", description_separator(to));
  for (int i = 0; i < count; i++)
    description_print(to, "%s%d", i > 0 ? ", " : "", INTEGER_RO(dim)[i]);
  description_print(to, count < Rf_length(dim) ? ", *)" : ")");
}

static bool description_has_labels(SEXP dimnames, int count) {
  for (int i = 0; i < count && dimnames != R_NilValue; i++)
    if (Rf_xlength(VECTOR_ELT(dimnames, i)) > 0) return true;
  return false;
}

/* Adds the dimnames of the first `count` dimensions, with the names of the dimnames. */
static void description_add_dimnames(description *to, SEXP dimnames, int count) {
  SEXP titles = PROTECT(Rf_getAttrib(dimnames, R_NamesSymbol));
  description_digest_text(to, "dimnames");
  description_print(to, "%sdimnames list(", description_separator(to));
  for (int i = 0; i < count; i++) {
    const char *title = titles == R_NilValue ? NULL : description_label(titles, i);
    if (title == NULL) title = "";
    description_digest_text(to, title);
    description_print(to, "%s%.*s%s", i > 0 ? ", " : "", description_fitting(title), title,
                      title[0] == '\0' ? "" : " = ");
    SEXP labels = VECTOR_ELT(dimnames, i);
    description_digest_labels(to, labels);
    if (Rf_xlength(labels) == 0)
      description_print(to, "NULL");
    else
      description_print_labels(to, labels);
  }
  description_print(to, ")");
  UNPROTECT(1);
}

/* An array of one dimension is a vector, but for its dimnames. */
static void description_add_array(description *to, SEXP x, bool whole) {
  SEXP dim = PROTECT(Rf_getAttrib(x, R_DimSymbol));
  SEXP dimnames = PROTECT(Rf_getAttrib(x, R_DimNamesSymbol));
  int count = Rf_length(dim) - (whole ? 0 : 1);
  bool labelled = description_has_labels(dimnames, count);
  if (labelled || Rf_length(dim) > 1) description_add_dim(to, dim, count);
  if (labelled) description_add_dimnames(to, dimnames, count);
  UNPROTECT(2);
}

void description_add_names(description *to, SEXP x) {
  SEXP names = PROTECT(Rf_getAttrib(x, R_NamesSymbol));
  if (Rf_xlength(names) > 0) {
    description_digest_text(to, "names");
    description_digest_labels(to, names);
    description_print(to, "%snames ", description_separator(to));
    description_print_labels(to, names);
  }
  UNPROTECT(1);
}

/* ---- Class ---------------------------------------------------------------------------------- */

/* The time zone may differ between ranks, because it does not change the number. The units may not. */
static void description_add_class(description *to, SEXP x) {
  classed kind = classed_of(x);
  if (kind == CLASSED_NOT) return;
  SEXP class = PROTECT(Rf_getAttrib(x, R_ClassSymbol));
  description_digest_text(to, "class");
  description_digest_labels(to, class);
  description_print(to, "class %.40s", description_label(class, 0));
  SEXP units = PROTECT(Rf_getAttrib(x, Rf_install("units")));
  if (kind == CLASSED_DURATION && TYPEOF(units) == STRSXP && Rf_xlength(units) == 1) {
    description_digest_labels(to, units);
    description_print(to, " in %.20s", description_label(units, 0));
  }
  UNPROTECT(2);
}

static void description_add(description *to, SEXP x, bool whole) {
  if (view_is_plain(x)) return;
  description_add_class(to, x);
  if (Rf_isArray(x))
    description_add_array(to, x, whole);
  else if (whole)
    description_add_names(to, x);
}

description description_of(SEXP x) {
  description whole = {.digest = 0};
  description_add(&whole, x, true);
  return whole;
}

void description_add_integers(description *to) {
  description_digest_text(to, "integers");
  description_print(to, "%sintegers as doubles", description_separator(to));
}

/* The only vector of a group gives the group its own digest, as in Python. */
void description_add_member(description *group, SEXP x, R_xlen_t i, R_xlen_t count) {
  description member = description_of(x);
  if (member.digest == 0) return;
  if (count == 1) group->digest = member.digest;
  if (count > 1) description_digest_number(group, i);
  if (count > 1) description_digest_number(group, (int64_t)member.digest);
  description_print(group, "%sxs[[%.0f]]: %.*s", description_separator(group), (double)i + 1,
                    (int)sizeof(member.text), member.text);
}

/* A text that does not fit ends with the digest. */
void describe(const comm_handle *handle, const description *description) {
  if (description->digest == 0) return;
  char text[sizeof(description->text)];
  memcpy(text, description->text, sizeof(text));
  if (description->length >= sizeof(text)) {
    size_t end = sizeof(text) - sizeof("... #0a1b");
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
    snprintf(&text[end], sizeof(text) - end, "... #%04x", (unsigned)(description->digest & 0xffff));
  }
  ring_comm_describe(handle->comm, description->digest, text);
}

void describe_whole(const comm_handle *handle, SEXP x) {
  if (view_is_plain(x)) return;
  description whole = description_of(x);
  describe(handle, &whole);
}

void describe_part(const comm_handle *handle, SEXP x) {
  if (view_is_plain(x)) return;
  description part = {.digest = 0};
  description_add(&part, x, false);
  describe(handle, &part);
}
