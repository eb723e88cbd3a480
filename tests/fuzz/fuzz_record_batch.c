/* SPDX-License-Identifier: Apache-2.0
 *
 * Record batches of Arrow, which R reads from Spark: columns of the rows that were asked for, or an error of R. The
 * target has an R in its process.
 */
#include "record_batch.h"

#include <Rembedded.h>
#define CSTACK_DEFNS
#include <Rinterface.h>

#include "input.h"

enum { COLUMNS = 4 };

typedef struct asked {
  SEXP message, kinds;
  int64_t from, end;
} asked;

int LLVMFuzzerInitialize(int *count, char ***arguments);
int __lsan_is_turned_off(void);

/* R keeps what an error has left until it collects garbage. The parser itself allocates by R alone. */
int __lsan_is_turned_off(void) {
  return 1;
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  char *options[] = {"R", "--vanilla", "--no-echo"};
  (void)count, (void)arguments;
  setenv("R_HOME", FUZZ_R_HOME, 1);
  R_SignalHandlers = 0; /* the fuzzer has its own */
  Rf_initEmbeddedR(sizeof options / sizeof *options, options);
  R_CStackLimit = (uintptr_t)-1; /* the sanitizer takes much of the stack */
  return 0;
}

static SEXP read_columns(void *data) {
  const asked *asks = data;
  return record_batch_columns(RAW(asks->message), (size_t)XLENGTH(asks->message), asks->kinds,
                              asks->from, asks->end);
}

static SEXP no_columns(SEXP condition, void *data) {
  (void)condition, (void)data;
  return R_NilValue;
}

static SEXP input_kinds(input *from) {
  static const char *const all[] = {"d",  "i",  "l",  "c",  "D",  "t",  "r",
                                    "[d", "[i", "[b", "[l", "[c", "[D", "[t"};
  SEXP kinds = PROTECT(Rf_allocVector(STRSXP, 1 + input_byte(from) % COLUMNS));
  for (R_xlen_t i = 0; i < XLENGTH(kinds); i++)
    SET_STRING_ELT(kinds, i, Rf_mkChar(all[input_byte(from) % (sizeof all / sizeof *all)]));
  UNPROTECT(1);
  return kinds;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  asked asks = {.kinds = PROTECT(input_kinds(&from))};
  asks.from = (int8_t)input_byte(&from);
  asks.end = (int8_t)input_byte(&from);
  asks.message = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)from.left));
  if (from.left > 0) memcpy(RAW(asks.message), from.at, from.left);
  SEXP columns = PROTECT(R_tryCatchError(read_columns, &asks, no_columns, NULL));
  for (R_xlen_t i = 0; i < Rf_xlength(columns); i++)
    FUZZ_PROMISE(XLENGTH(VECTOR_ELT(columns, i)) == XLENGTH(VECTOR_ELT(columns, 0)));
  UNPROTECT(3);
  return 0;
}
