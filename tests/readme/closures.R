# SPDX-License-Identifier: Apache-2.0
#
# Reads the R code of documents, without sparklyr, and prints what a reader who pastes it would
# miss, and what sparklyr would refuse or not send of calls of spark_apply(barrier = TRUE):
#   Rscript closures.R FILE...      README.md, *.Rmd and *.Rd, with what is in \dontrun{}
# The last line is the number of these calls.

script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))
blocks <- new.env()
sys.source(file.path(dirname(script), "blocks.R"), blocks)

parameters <- function(x, f, columns = NULL, memory = TRUE, group_by = NULL, packages = NULL,
                       context = NULL, name = NULL, barrier = NULL, fetch_result_as_sdf = TRUE,
                       ...) {
  # those of sparklyr::spark_apply()
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
  has <- function(name, package) exists(name, paste0("package:", package), inherits = FALSE)
  fresh <- c("base", "methods", "stats", "utils", "graphics", "grDevices", "datasets")
  used <- codetools::findGlobals(eval(f, baseenv()))
  Filter(function(name) !any(vapply(fresh, has, NA, name = name)), used)
}

# What code uses that neither it nor the code before it has made or attached.
unmade <- function(before, code) {
  attached <- vapply(calls_of(c(before, code), "library"), function(it) deparse(it[[2L]]), "")
  ours <- c(sparkring = "^(ml_)?ring_", sparklyr = "^(sdf|spark)_|^copy_to$",
            survival = "^(Surv|coxph|lung|strata|survfit)$")[attached]
  used <- unsent(call("function", NULL, as.call(c(quote(`{`), before, code))))
  used[!grepl(paste(c("^$", ours), collapse = "|"), used)]
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
check_block <- function(exprs, document) {
  calls <- Filter(function(call) isTRUE(as.list(call)$barrier), calls_of(exprs, "spark_apply"))
  found <- unlist(lapply(calls, problems, functions_of(exprs)))
  lazy <- any(vapply(exprs, is_call_of, NA, "spark_apply"))
  if (lazy) found <- c(found, "is not collected, so its closure may not run")
  cat(sprintf("%s: spark_apply(barrier = TRUE) %s\n", document, found), sep = "")
  length(calls)
}

# Each block of the README stands alone; those of other documents follow each other.
check_document <- function(path) {
  code <- lapply(blocks$blocks_of(path), function(text) as.list(parse(text = text)))
  missing <- lapply(seq_along(code), function(i) {
    unmade(if (!endsWith(path, ".md")) unlist(code[seq_len(i - 1L)]), code[[i]])
  })
  cat(sprintf("%s: a block uses %s, which a reader does not have\n", basename(path),
              unique(unlist(missing))), sep = "")
  vapply(code, check_block, 0L, basename(path))
}

counts <- lapply(commandArgs(TRUE), check_document)
cat(sum(unlist(counts)), "calls\n")
