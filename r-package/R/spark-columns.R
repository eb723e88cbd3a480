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

# Refuses columns without a name, and names that are the same after `fold`.
columns_refuse_names <- function(names, who, fold = identity) {
  if (anyNA(names) || !all(nzchar(names))) {
    check_stop(who, " returned a column without a name: name it", call = NULL)
  }
  second <- which(duplicated(fold(names)))
  if (length(second) == 0L) return()
  both <- unique(names[c(match(fold(names)[second[[1L]]], fold(names)), second[[1L]])])
  check_stop(who, " returned ", if (length(both) == 1L) "two columns " else "the columns ",
             paste(both, collapse = " and "),
             if (length(both) == 2L) ", between which Spark does not distinguish",
             ": rename one", call = NULL)
}

# Columns of one class: without I(), and with times as POSIXct.
columns_bare <- function(x) {
  if (inherits(x, "POSIXlt")) return(as.POSIXct(x))
  if (inherits(x, "AsIs")) oldClass(x) <- setdiff(oldClass(x), "AsIs")
  x
}

# Makes tables of ranks ready for rbind(), which makes numbers of dates after a column of numbers or
# of NA. Refuses a column whose class differs between ranks. rbind() converts units and time zones,
# and logicals to numbers.
columns_agree <- function(tables) {
  merged <- list()
  for (i in seq_along(tables)) {
    kinds <- lapply(tables[[i]], columns_kind)
    merged <- tryCatch(
      kinds_merge(merged, kinds, paste("on rank", i - 1L)),
      error = function(error) check_stop("column ", conditionMessage(error), call = NULL)
    )
  }
  for (name in names(merged)) tables <- columns_fill(tables, name)
  tables
}

# Gives a column of NA the class that the column has on the first rank with values.
columns_fill <- function(tables, name) {
  known <- lengths(lapply(tables, function(table) columns_kind(table[[name]]))) > 0L
  value <- tables[[which(known)[[1L]]]][[name]]
  if (length(dim(value)) > 0L) return(tables)
  for (i in which(!known)) {
    if (is.logical(tables[[i]][[name]])) {
      tables[[i]][[name]] <- value[rep(NA_integer_, nrow(tables[[i]]))]
    }
  }
  tables
}

columns_kind <- function(x) {
  if (is.logical(x)) storage.mode(x) <- "double"
  kind <- kind_known(x)
  if (length(kind) > 0L) kind[[2L]] <- ""
  kind
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
