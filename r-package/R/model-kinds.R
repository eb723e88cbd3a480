# SPDX-License-Identifier: Apache-2.0
#
# The kinds of the variables of a model: class, units, time zone and columns. Two ranks whose kinds
# differ have numbers with different meanings, such as seconds and minutes, so that is an error on
# all ranks. A rank without values takes the kinds of the other ranks. The levels of factors are
# merged: see model-levels.R.

# Strings: the class of a variable, its units or time zone, and the names of its columns.
kind_of <- function(x) {
  if (is.factor(x) || is.character(x)) return(c("strings", ""))
  class <- setdiff(oldClass(x), c("AsIs", "matrix", "poly", "ns", "bs", "basis"))
  detail <- if (inherits(x, "POSIXct")) kind_zone(x) else if (inherits(x, "Surv")) attr(x, "type")
            else paste(as.character(unlist(attr(x, "units"))), collapse = " ")
  if (length(class) == 0L) {
    class <- if (is.logical(x)) "logical" else if (is.numeric(x)) "numbers" else typeof(x)
  }
  columns <- if (length(dim(x)) == 2L && class[[1L]] != "Surv") {
    if (is.null(colnames(x))) as.character(seq_len(ncol(x))) else colnames(x)
  }
  c(class[[1L]], detail, columns)
}

# The time zone, by its names and offsets in winter and summer: that of the process has no other
# name.
kind_zone <- function(x) {
  zone <- c(attr(x, "tzone"), "")[[1L]]
  days <- .POSIXct(c(1704067200, 1719792000), zone) # of 2024
  names <- sub("(UTC|GMT)[+]0000", "UTC", format(days, "%Z%z"))
  paste(unique(names), collapse = "/")
}

# The kind; none for a variable without a known value, which agrees with all kinds.
kind_known <- function(x) {
  known <- !is.list(x) && length(x) > 0L && !(anyNA(x) && all(is.na(x)))
  if (known) kind_of(x) else character()
}

# Agrees on kinds, a named list. Returns for each name the kind of the ranks with values.
kinds_agree <- function(comm, kinds) {
  strings <- unlist(Map(function(name, kind) c(length(kind), name, kind), names(kinds), kinds))
  ranks <- allgather_strings(comm, as.character(strings))
  agree(comm, {
    ranks <- lapply(ranks, kinds_decode)
    merged <- list()
    for (rank in seq_along(ranks)) {
      merged <- kinds_merge(merged, ranks[[rank]], paste("on rank", rank - 1L))
    }
    lapply(merged, `[[`, "kind")
  })
}

kinds_decode <- function(strings) {
  kinds <- list()
  while (length(strings) > 0L) {
    count <- as.integer(strings[[1L]])
    kinds[[strings[[2L]]]] <- strings[2L + seq_len(count)]
    strings <- strings[-seq_len(2L + count)]
  }
  kinds
}

# Adds kinds to those that are known, with their `place`, such as "on rank 0". A contradiction is an
# error.
kinds_merge <- function(merged, kinds, place) {
  for (name in names(kinds)) {
    kind <- kinds[[name]]
    if (length(kind) == 0L) next
    known <- merged[[name]]
    if (is.null(known)) merged[[name]] <- list(kind = kind, place = place)
    else if (!identical(known$kind, kind)) kinds_stop(name, known, kind, place)
  }
  merged
}

kinds_stop <- function(name, known, kind, place) {
  what <- c(known$kind[[1L]], kind[[1L]])
  remedy <- if (all(what == "difftime")) {
    "give it the same units on all ranks, such as by difftime(units = \"secs\")"
  } else if (all(what == "POSIXct")) {
    "give it the same time zone on all ranks, such as by attr(x, \"tzone\") <- \"UTC\""
  } else if (all(what == "levels")) {
    "a term uses its codes: make it by factor() with the same `levels` on all ranks"
  } else {
    "convert it to one class on all ranks"
  }
  stop("`", name, "` is ", kind_describe(known$kind), " ", known$place, " and ",
       kind_describe(kind), " ", place, ": ", remedy, call. = FALSE)
}

kind_describe <- function(kind) {
  if (kind[[1L]] == "levels") return(paste("a factor with the levels", toString(kind[-1L], 40L)))
  what <- switch(kind[[1L]], strings = "a factor or strings", numbers = "numbers",
                 logical = "logical", difftime = "a difftime", paste("of class", kind[[1L]]))
  detail <- if (nzchar(kind[[2L]])) {
    switch(kind[[1L]], Surv = paste(" and type", kind[[2L]]),
           POSIXct = paste(" in the time zone", kind[[2L]]), paste(" in", kind[[2L]]))
  }
  columns <- if (length(kind) > 2L) paste0(" with the columns ", toString(kind[-(1:2)], 40L))
  paste0(what, detail, columns)
}

# ---- Ranks without rows --------------------------------------------------------------------------

# The frame of `call` on a rank that has no rows and cannot compute the terms: no variable has a
# kind.
kinds_frame <- function(call, env) {
  terms <- eval(call$formula, env)
  if (!inherits(terms, "terms")) terms <- stats::terms(terms, data = eval(call$data, env))
  variables <- as.list(attr(terms, "variables"))[-1L]
  names <- vapply(variables, function(x) paste(deparse(x, 500L), collapse = " "), "")
  extra <- intersect(c("weights", "offset"), names(call))
  if (is.null(attr(terms, "predvars"))) attr(terms, "predvars") <- attr(terms, "variables")
  names <- c(names, paste0("(", extra, recycle0 = TRUE, ")"))
  frame <- structure(rep(list(double()), length(names)), names = names)
  structure(frame, class = "data.frame", row.names = integer(), terms = terms)
}

# Gives the variables of a frame without rows their kinds.
kinds_set <- function(frame, kinds) {
  if (nrow(frame) > 0L) return(frame)
  for (name in intersect(names(frame), names(kinds))) {
    if (!identical(kind_of(frame[[name]]), kinds[[name]])) frame[[name]] <- kind_make(kinds[[name]])
  }
  terms <- attr(frame, "terms")
  known <- or_default(names(attr(terms, "dataClasses")), names(frame))
  attr(terms, "dataClasses") <- # nolint: object_name_linter. A name of stats.
    vapply(frame[known], stats::.MFclass, "")
  attr(frame, "terms") <- terms
  frame
}

# A variable without values.
kind_make <- function(kind) {
  none <- double()
  switch(kind[[1L]],
    strings = factor(), logical = logical(), Date = structure(none, class = "Date"),
    POSIXct = .POSIXct(none, "UTC"),
    difftime = structure(none, class = "difftime", units = kind[[2L]]),
    Surv = kind_make_surv(kind[[2L]]),
    if (length(kind) > 2L) matrix(none, 0L, length(kind) - 2L, dimnames = list(NULL, kind[-(1:2)]))
    else none
  )
}

kind_make_surv <- function(type) {
  names <- if (type == "counting") c("start", "stop", "status") else c("time", "status")
  structure(matrix(0, 0L, length(names), dimnames = list(NULL, names)), type = type, class = "Surv")
}
