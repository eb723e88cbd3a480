# SPDX-License-Identifier: Apache-2.0
#
# One table of the vectors of all ranks. Each rank makes its own table and sends its labels. Rank 0
# merges the labels; one rank must do that, because the order of strings depends on the locale. Then
# each rank extends its table to all labels, and the ranks sum their tables.

#' Table: count the values of vectors and factors of all ranks
#'
#' `ring_table()` returns the result of [table()] for the concatenated vectors of all ranks: the
#' counts of the values, or of their combinations. All ranks call it. A rank may lack levels that
#' other ranks have, or have no values at all.
#'
#' @details
#' The levels of a factor are in the order of rank 0, then the levels that only rank 1 has, and so
#' on. Other values are sorted as by [table()], on rank 0. Times of class `POSIXct` are an error,
#' because the label of a time depends on the other times of its rank: pass `format(x)`.
#'
#' @inheritParams ring_allreduce
#' @param ... Arguments of [table()]: the vectors or factors of this rank, or a data frame of them;
#'   and `useNA`, `exclude`, `dnn` and `deparse.level`. Only the values may differ between ranks.
#' @returns A contingency table: an integer array of class `table`, identical on every rank. A count
#'   that does not fit into an integer is `NA`, with a warning.
#' @section Errors:
#' `ring_error_invalid` on every rank, if [table()] fails on any rank, or if the ranks pass
#' different variables, such as a factor and numbers. The communicator stays usable. Other errors as
#' for [ring_allreduce()].
#' @seealso [ring_allreduce()], which sums tables that have the same levels on all ranks.
#' @examples
#' comm <- ring_init()
#' species <- iris$Species[iris$Sepal.Length > 6]
#' ring_table(comm, species)
#' ring_table(comm, species, wide = iris$Sepal.Width[iris$Sepal.Length > 6] > 3, useNA = "ifany")
#' ring_close(comm)
#' @export
ring_table <- function(comm, ...) {
  check_given(comm)
  if (!inherits(comm, "ring_comm")) table_check_comm(...)
  own <- agree(comm, list(kinds = table_kinds(table_variables(...)), counts = table(...)))
  packed <- allgather_strings(comm, table_pack(own, table_variables(...)))
  merged <- agree(comm, if (ring_rank(comm) == 0) unlist(table_merge(lapply(packed, table_unpack))))
  labels <- lapply(table_unpack(broadcast_strings(comm, as.character(merged))), table_labels)
  ring_allreduce(comm, table_extend(own$counts, labels))
}

# R takes a variable that is named `c`, `co` or `com` for `comm`, so the communicator is among the
# variables then.
table_check_comm <- function(...) {
  if (!any(vapply(list(...), inherits, NA, "ring_comm"))) return(invisible())
  check_stop("a variable that is named `c`, `co` or `com` was taken for `comm`: name the ",
             "communicator, too, as in ring_table(comm = comm, c = x)")
}

# The arguments of table() that are counted.
table_variables <- function(..., exclude, useNA, dnn, deparse.level) { # nolint: object_name_linter.
  variables <- list(...)
  if (length(variables) == 1L && is.list(variables[[1L]])) variables[[1L]] else variables
}

# ---- Labels -------------------------------------------------------------------------------------

# The kind of each variable. Labels of times depend on all times of a rank, so they are an error.
table_kinds <- function(variables) {
  if (length(variables) == 0L) {
    stop("there is nothing to tabulate: pass vectors or factors, as in ring_table(comm, x)")
  }
  vapply(variables, FUN.VALUE = "", USE.NAMES = FALSE, function(x) {
    if (!is.atomic(x) && !is.null(x)) {
      stop("a variable must be a vector or a factor, not ", describe(x))
    }
    if (inherits(x, "POSIXct")) stop("a variable is of class POSIXct: pass it through format()")
    if (is.factor(x)) return("a factor")
    if (inherits(x, "difftime")) return(paste("difftime in", units(x)))
    if (is.object(x)) return(class(x)[[1L]])
    if (is.logical(x)) "logicals" else if (is.numeric(x)) "numbers" else "strings"
  })
}

# Packs the labels into strings. For each variable: its title, its kind, whether it counts NA, the
# number of labels, the labels, and their sort keys.
table_pack <- function(own, variables) {
  titles <- names(dimnames(own$counts))
  unlist(lapply(seq_along(variables), function(i) {
    labels <- dimnames(own$counts)[[i]]
    known <- labels[!is.na(labels)]
    kind <- own$kinds[[i]]
    c(titles[[i]], if (length(known) > 0L || kind == "a factor") kind else "any", anyNA(labels),
      length(known), known, table_keys(variables[[i]], known, kind))
  }))
}

# The sort keys of labels: numbers for numbers. Strings are their own keys, and a factor has its
# order.
table_keys <- function(x, labels, kind) {
  if (kind %in% c("a factor", "strings")) return(labels)
  values <- sort(unique(x))
  numbers <- if (is.logical(x)) as.double(values) else as.double(xtfrm(values))
  sprintf("%.17g", numbers[match(labels, as.character(values))])
}

# Unpacks the strings of one rank, for each variable.
table_unpack <- function(words) {
  variables <- list()
  while (length(words) > 0L) {
    count <- as.integer(words[[4L]])
    variables <- c(variables, list(list(
      title = words[[1L]], kind = words[[2L]], has_na = words[[3L]] == "TRUE",
      known = words[4L + seq_len(count)], keys = words[4L + count + seq_len(count)]
    )))
    words <- words[-seq_len(4L + 2L * count)]
  }
  variables
}

table_labels <- function(variable) c(variable$known, if (variable$has_na) NA)

# ---- On rank 0 ----------------------------------------------------------------------------------

# Merges the labels of all ranks for each variable, into strings such as those of one rank.
table_merge <- function(ranks) {
  table_check_titles(ranks)
  lapply(seq_along(ranks[[1L]]), function(i) {
    parts <- lapply(ranks, `[[`, i)
    kind <- table_agree(vapply(parts, `[[`, "", "kind"), i)
    known <- unlist(lapply(parts, `[[`, "known"))
    keys <- unlist(lapply(parts, `[[`, "keys"))[!duplicated(known)]
    known <- unique(known)
    if (kind == "strings") known <- sort(known)
    if (!kind %in% c("a factor", "strings")) known <- known[order(as.double(keys))]
    has_na <- any(vapply(parts, `[[`, NA, "has_na"))
    c(parts[[1L]]$title, kind, has_na, length(known), known, known)
  })
}

# The kind of a variable. A rank without values agrees with any kind.
table_agree <- function(kinds, variable) {
  clear <- which(kinds != "any")
  if (length(clear) == 0L) return("strings")
  odd <- clear[kinds[clear] != kinds[clear[[1L]]]]
  if (length(odd) == 0L) return(kinds[clear[[1L]]])
  table_stop(odd[[1L]] - 1L, paste(kinds[odd[[1L]]], "as variable", variable), clear[[1L]] - 1L,
             kinds[clear[[1L]]])
}

table_check_titles <- function(ranks) {
  titles <- lapply(ranks, function(variables) vapply(variables, `[[`, "", "title"))
  odd <- which(!vapply(titles, identical, NA, titles[[1L]]))
  if (length(odd) == 0L) return()
  words <- vapply(titles[c(odd[[1L]], 1L)], FUN.VALUE = "", function(title) {
    paste0(length(title), " variables (", toString(dQuote(title, FALSE)), ")")
  })
  table_stop(odd[[1L]] - 1L, words[[1L]], 0L, words[[2L]])
}

table_stop <- function(rank, what, other, instead) {
  ring_stop("INVALID", paste0("the ranks differ: rank ", rank, " passed ", what, ", rank ", other,
                              " ", instead), rank = rank, call = NULL)
}

# ---- Counts -------------------------------------------------------------------------------------

# The table with these labels, and 0 where this rank lacks a label.
table_extend <- function(own, labels) {
  names(labels) <- names(dimnames(own))
  if (prod(lengths(labels)) > .Machine$integer.max) {
    ring_stop("INVALID", "the table of all ranks would have 2^31 elements or more", call = NULL)
  }
  all <- array(0L, unname(lengths(labels)), labels)
  places <- Map(match, dimnames(own), labels)
  all <- do.call(`[<-`, c(list(all), unname(places), list(value = as.vector(own))))
  class(all) <- "table"
  all
}
