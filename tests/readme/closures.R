# SPDX-License-Identifier: Apache-2.0
#
# Reads the calls of sparklyr's spark_apply(barrier = TRUE) in the R code of documents, without
# sparklyr, and prints what it would refuse or not send:
#   Rscript closures.R FILE...      README.md, *.Rmd and *.Rd, with what is in \dontrun{}
# The last line is the number of calls that were read.

parameters <- function(x, f, columns = NULL, memory = TRUE, group_by = NULL, packages = NULL,
                       context = NULL, name = NULL, barrier = NULL, fetch_result_as_sdf = TRUE,
                       ...) {
  # those of sparklyr::spark_apply()
}

# The R code of a document, one string a block.
blocks_of <- function(path) {
  if (endsWith(path, ".Rd")) {
    lines <- utils::capture.output(tools::Rd2ex(path, commentDontrun = FALSE))
    return(paste(lines, collapse = "\n"))
  }
  lines <- readLines(path, encoding = "UTF-8")
  begins <- grep("^ *```(r|R|\\{r[ ,}].*)$", lines)
  ends <- grep("^ *``` *$", lines)
  vapply(begins, FUN.VALUE = "", function(begin) {
    end <- min(ends[ends > begin])
    paste(lines[seq_len(end - begin - 1L) + begin], collapse = "\n")
  })
}

is_call_of <- function(expr, name) {
  is.call(expr) && sub("^.*::", "", paste(deparse(expr[[1L]]), collapse = "")) == name
}

calls_of <- function(expr, name) {
  if (!is.recursive(expr)) return(list())
  inner <- unlist(lapply(as.list(expr), calls_of, name), recursive = FALSE)
  c(if (is_call_of(expr, name)) list(expr), inner)
}

# The functions that a block gives a name to.
functions_of <- function(exprs) {
  named <- Filter(function(expr) {
    is_call_of(expr, "<-") && is.name(expr[[2L]]) && is_call_of(expr[[3L]], "function")
  }, as.list(exprs))
  stats::setNames(lapply(named, `[[`, 3L), vapply(named, function(it) deparse(it[[2L]]), ""))
}

# What a function uses that a fresh R does not have.
unsent <- function(f) {
  used <- codetools::findGlobals(eval(f, baseenv()))
  has <- function(name, package) exists(name, asNamespace(package), inherits = FALSE)
  fresh <- c("base", "methods", "stats", "utils", "graphics", "grDevices")
  Filter(function(name) !any(vapply(fresh, has, NA, name = name)), used)
}

problems <- function(call, known) {
  call <- match.call(parameters, call)
  fetches <- !is.null(call$fetch_result_as_sdf)
  f <- if (is.name(call$f)) known[[deparse(call$f)]] else call$f
  missing <- if (is_call_of(f, "function")) unsent(f)
  c(
    if (is.null(call$columns) && !fetches) "has no `columns`, which sparklyr demands",
    if (!is_call_of(f, "function")) "has a closure that is defined elsewhere",
    if (length(missing) > 0L) paste("has a closure that uses", toString(missing))
  )
}

# Prints the problems of a block; how many calls it has.
check_block <- function(block, document) {
  exprs <- parse(text = block, keep.source = FALSE)
  calls <- Filter(function(call) isTRUE(as.list(call)$barrier), calls_of(exprs, "spark_apply"))
  found <- unlist(lapply(calls, problems, functions_of(exprs)))
  cat(sprintf("%s: spark_apply(barrier = TRUE) %s\n", document, found), sep = "")
  length(calls)
}

counts <- lapply(commandArgs(TRUE), function(path) {
  blocks <- grep("spark_apply(", blocks_of(path), fixed = TRUE, value = TRUE)
  vapply(blocks, check_block, 0L, basename(path))
})
cat(sum(unlist(counts)), "calls\n")
