# SPDX-License-Identifier: Apache-2.0
#
# Checks of arguments. An error names the argument and belongs to the user's call. The core checks
# what a value means, such as whether a rank is below the size.

check_stop <- function(..., call = sys.call(-2)) {
  force(call)
  ring_stop("INVALID", paste0(...), call = call)
}

is_string <- function(x) is.character(x) && length(x) == 1L && !is.na(x)

is_number <- function(x) is.numeric(x) && length(x) == 1L && is.finite(x)

is_whole <- function(x) is_number(x) && x == trunc(x) && abs(x) <= .Machine$integer.max

or_default <- function(value, default) if (is.null(value)) default else value

# Describes the argument that was given, in a few words. Never used for a token.
describe <- function(x) {
  if (is.null(x)) return("NULL")
  if (is.atomic(x) && length(x) == 1L) return(substr(deparse(x)[[1L]], 1L, 40L))
  paste0("a ", class(x)[[1L]], " of length ", length(x))
}

check_whole <- function(x, name, least, absent = NULL) {
  if (is.null(x) && !is.null(absent)) return(absent)
  if (!is_whole(x)) check_stop("`", name, "` must be one whole number, not ", describe(x))
  if (x < least) check_stop("`", name, "` is ", x, ": it must be ", least, " or more")
  as.integer(x)
}

check_length <- function(x) {
  if (is_number(x) && x == trunc(x) && x >= 0 && x <= 2^52) return(as.double(x))
  check_stop("`length` must be one whole number, 0 or more, not ", describe(x))
}

check_counts <- function(x, name = "counts") {
  if (is.numeric(x) && !is.object(x) && all(is.finite(x)) && all(x == trunc(x))) {
    return(as.double(x))
  }
  check_stop("`", name, "` must be whole numbers, one for each rank, not ", describe(x))
}

# The factors before and after a reduction.
check_factors <- function(prescale, postscale) {
  one <- function(x) is.numeric(x) && length(x) == 1L && !is.na(x)
  if (one(prescale) && one(postscale)) return(as.double(c(prescale, postscale)))
  check_stop("`prescale` and `postscale` must be one number each")
}

# Refuses a call that lacks one of these arguments. Each collective calls check_given(), so it is
# quick for up to three arguments that are there.
check_given <- function(...) {
  suspect <- switch(
    ...length(), missing(..1), missing(..1) || missing(..2),
    missing(..1) || missing(..2) || missing(..3), TRUE, TRUE
  )
  if (!suspect) return()
  env <- parent.frame()
  names <- as.character(substitute(list(...)))[-1L]
  odd <- Find(function(name) eval(call("missing", as.name(name)), env), names)
  if (!is.null(odd)) check_lacks(odd, sys.call(sys.parent()), names)
}

# Raises the error of a call that lacks the argument `name`. `needed` are arguments of the function.
check_lacks <- function(name, call, needed) {
  own <- utils::tail(all.names(call[[1L]]), 1L) # without its package
  remedy <- if (name == "comm") "a communicator, as ring_init() returns it" else
    paste0("it, as in ", own, "(", toString(needed), ")")
  check_stop("`", name, "` is missing: pass ", remedy, call = call)
}

check_flag <- function(x, name) {
  if (is.logical(x) && length(x) == 1L && !is.na(x)) return(as.vector(x))
  check_stop("`", name, "` must be TRUE or FALSE, not ", describe(x))
}

# Refuses arguments that a function takes in one of its forms only.
check_no_dots <- function(..., where = "with a communicator") {
  if (...length() == 0L) return()
  name <- c(names(substitute(list(...)))[-1L], "")[[1L]] # which may be of no value
  name <- if (nzchar(name)) paste0("`", name, "`") else "after the last"
  check_stop("there is no argument ", name, " ", where)
}

# As check_no_dots(), for a method that passes the arguments `known` on, and takes more models of
# the class `models`.
check_method_dots <- function(..., known = character(), models = NULL,
                              where = "for a distributed model") {
  names <- or_default(names(substitute(list(...)))[-1L], rep("", ...length()))
  fits <- if (is.null(models)) FALSE else vapply(list(...), inherits, NA, models)
  odd <- which(!fits & (!nzchar(names) | is.na(pmatch(names, known, duplicates.ok = TRUE))))
  if (length(odd) == 0L) return(invisible())
  name <- names[[odd[[1L]]]]
  if (!nzchar(name) && !is.null(models)) {
    check_stop("the models must all be of class ", models, ", and one is ",
               describe(...elt(odd[[1L]])))
  }
  name <- if (nzchar(name)) paste0("`", name, "`") else "after the last"
  check_stop("there is no argument ", name, " ", where)
}

# The same for methods of print() and format(), which get what print() of a list got.
check_print_dots <- function(..., known = character()) {
  check_method_dots(..., known = c(known, names(formals(print.default))), where = "of print()")
}

check_format_dots <- function(...) {
  check_method_dots(..., known = names(formals(format.default)), where = "of format()")
}

# As match.arg(), with an error that names the argument.
check_choice <- function(x) {
  name <- as.character(substitute(x))
  choices <- eval(formals(sys.function(sys.parent()))[[name]], parent.frame())
  if (is.null(x) || identical(x, choices)) return(choices[[1L]])
  at <- if (is_string(x)) pmatch(x, choices) else NA
  if (!is.na(at)) return(choices[[at]])
  check_stop("`", name, "` must be one of ", toString(dQuote(choices, FALSE)), ", not ",
             describe(x))
}

check_string <- function(x, name) {
  if (is.null(x) || is_string(x)) return(x)
  check_stop("`", name, "` must be one string, not ", describe(x))
}

check_seconds <- function(x, name) {
  if (is.null(x)) return(0)
  if (!is_number(x) || x <= 0) {
    check_stop("`", name, "` must be a positive number of seconds, not ", describe(x))
  }
  as.double(x)
}

# Translates for the core, where 0 is the default and a negative number means never.
check_warn_after <- function(x) {
  if (is.null(x)) return(0)
  if (!is_number(x) || x < 0) {
    check_stop("`warn_after` must be a number of seconds, or 0 for no messages, not ", describe(x))
  }
  if (x == 0) -1 else as.double(x)
}

check_ports <- function(x) {
  if (is.null(x)) return(NULL)
  valid <- is.numeric(x) && length(x) == 2L && all(x %in% 1:65535) && x[[1L]] <= x[[2L]]
  if (valid) return(as.integer(x))
  check_stop("`ports` must be the first and the last port of a range, from 1 to 65535")
}

check_token <- function(x) {
  if (is.null(x) || is.raw(x)) return(x)
  if (is_string(x)) return(charToRaw(enc2utf8(x)))
  check_stop("`token` must be one string or a raw vector")
}

check_addresses <- function(x, name = "addresses") {
  if (is.null(x)) return(NULL)
  if (is.list(x) && all(vapply(x, is_string, NA))) x <- as.character(unlist(x))
  if (!is.character(x) || anyNA(x)) {
    check_stop("`", name, "` must be a character vector, or a list of strings")
  }
  if (length(x) == 0L) {
    check_stop("`", name, "` is empty: it must hold the address of every rank, in rank order")
  }
  x
}
