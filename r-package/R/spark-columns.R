# SPDX-License-Identifier: Apache-2.0
#
# The argument `columns` of ring_apply() and ring_run(): the names of the columns of the result, and
# their types, for tables of ranks that are collected and for those that stay in Spark.

columns_types <- list(
  double = is.double, numeric = is.numeric, integer = is.integer, character = is.character,
  logical = is.logical, date = function(x) inherits(x, "Date"), list = is.list,
  timestamp = function(x) inherits(x, "POSIXct"), factor = is.factor
)

columns_names <- function(columns) if (is.null(names(columns))) unlist(columns) else names(columns)

# Checks the types of a data frame.
columns_check <- function(rows, columns) {
  if (is.null(names(columns))) return()
  for (name in names(columns)) {
    type <- columns[[name]]
    fits <- columns_types[[type]](rows[[name]])
    if (!fits) columns_refuse_type(class(rows[[name]])[[1L]], name, type)
  }
}

columns_refuse_twice <- function(names, who) {
  twice <- names[duplicated(names)]
  if (length(twice) == 0L) return()
  check_stop(who, " returned two columns ", twice[[1L]], ": rename one", call = NULL)
}

columns_refuse <- function(rank, columns, odd) {
  check_stop("rank ", rank, " returned other columns than ",
             if (is.null(columns)) "rank 0" else "`columns` has", ", such as ", odd,
             ": return the same columns on all ranks", call = NULL)
}

columns_refuse_type <- function(found, name, type) {
  check_stop("`.f` returned a ", found, " as column ", name, ", and its type in `columns` is ",
             type, ": convert the column in `.f`, or change `columns`", call = NULL)
}
