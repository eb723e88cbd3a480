# SPDX-License-Identifier: Apache-2.0

#' Summary of a data frame whose rows are on all ranks
#'
#' `ring_summary()` describes each column of the rows of all ranks: counts, missing values, moments
#' and exact quantiles of numbers, and the most frequent values of factors, strings and logicals.
#' All ranks call it, each with its own rows.
#'
#' @inheritParams ring_svd
#' @param x A data frame with the rows of this rank, which may be none. The columns are the same on
#'   all ranks.
#' @param top The number of frequent values to return of a column, a whole number from 1.
#' @returns An object of class `ring_summary`, the same on all ranks: a list with `rows`, the number
#'   of rows of all ranks, and two data frames with a row for each column of `x`.
#'   * `numbers`, of numbers, dates, times and durations, has the columns `variable`, `type`,
#'     `missing`, `mean`, `sd`, `min`, `q25`, `median`, `q75` and `max`. Dates and times are counted
#'     in days and seconds since 1970, and are printed as dates and times. A column without values
#'     has `NA` in all of them.
#'   * `values`, of all other columns, has the columns `variable`, `type`, `missing`, `unique`, the
#'     number of different values, and `top`, the most frequent values with their counts. A column
#'     with more than 10000 different values on a rank has `NA` there.
#' @inheritSection ring_svd Spark tables
#' @inheritSection ring_scale Errors
#' @seealso [ring_quantile()], [ring_table()], [ring_cor()]
#' @examples
#' comm <- ring_init()
#' ring_summary(comm, iris)
#' ring_close(comm)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[2]")
#' ring_summary(sparklyr::copy_to(sc, iris, overwrite = TRUE), num_proc = 2)
#' }
#' @export
ring_summary <- function(comm, x, top = 3L, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_summary", match.call(), parent.frame()))
  top <- agree(comm, {
    check_given(comm, x)
    check_no_dots(...)
    if (!is.data.frame(x)) stop("`x` must be a data frame, not ", describe(x))
    check_whole(top, "top", least = 1)
  })
  model_check_settings(comm, list(top = top))
  x <- agree(comm, integer64_rows(x))
  agree(comm, rows_check_labels(allgather_strings(comm, names(x))))
  kinds_agree(comm, lapply(x, kind_known))
  types <- summary_types(comm, x)
  numbers <- types %in% c("integer", "numeric", "Date", "POSIXct", "difftime")
  counts <- ring_allreduce(comm, as.double(c(nrow(x), vapply(x, function(x) sum(is.na(x)), 1))))
  missing <- counts[-1L]
  structure(class = "ring_summary", list(
    rows = counts[[1L]],
    numbers = summary_numbers(comm, x[numbers], types[numbers], missing[numbers]),
    values = summary_values(comm, x[!numbers], types[!numbers], missing[!numbers], top)
  ))
}

# The type of each column: that of the first rank that has values of it. A column without values may
# have any type, such as logical in a file of text.
summary_types <- function(comm, x) {
  known <- vapply(x, function(x) is.list(x) && length(x) > 0L || length(kind_known(x)) > 0L, NA)
  ranks <- allgather_strings(comm, as.character(rbind(vapply(x, summary_type, ""), known)))
  odd <- rep(c(TRUE, FALSE), length(x))
  types <- vapply(ranks, function(strings) strings[odd], character(length(x)))
  known <- vapply(ranks, function(strings) strings[!odd] == "TRUE", logical(length(x)))
  types <- matrix(types, length(x))
  known <- matrix(known, length(x))
  vapply(seq_along(x), FUN.VALUE = "", function(i) {
    found <- if (any(known[i, ])) types[i, known[i, ]] else types[i, ]
    if ("numeric" %in% found) "numeric" else found[[1L]] # beside integers
  })
}

summary_type <- function(x) if (is.list(x)) "list" else class(x)[[1L]]

summary_numbers <- function(comm, x, types, missing) {
  x[] <- lapply(x, function(x) if (all(is.na(x))) rep(NA_real_, length(x)) else as.double(x))
  found <- matrix(0, 0L, 7L)
  if (length(x) > 0L) {
    moments <- columns_moments(comm, columns_matrix(x, finite = FALSE))
    center <- ifelse(moments$counts > 0, moments$center, NA)
    deviation <- ifelse(moments$counts > 1, moments$scale, NA)
    quantiles <- ring_quantile(comm, x, na.rm = TRUE, names = FALSE)
    found <- cbind(center, deviation, t(quantiles))
  }
  found <- as.data.frame(unname(found))
  names(found) <- c("mean", "sd", "min", "q25", "median", "q75", "max")
  cbind(data.frame(variable = names(x), type = types, missing = missing), found)
}

summary_values <- function(comm, x, types, missing, top) {
  many <- vapply(x, function(x) !is.atomic(x) || length(unique(x)) > 10000L, NA)
  many <- ring_allreduce(comm, as.double(many)) > 0
  found <- lapply(seq_along(x), function(i) {
    if (many[[i]]) return(list(unique = NA_integer_, top = NA_character_))
    values <- if (all(is.na(x[[i]]))) rep(NA, length(x[[i]])) else x[[i]]
    counts <- unclass(ring_table(comm, values))
    counts <- counts[counts > 0]
    if (length(counts) == 0L) return(list(unique = 0L, top = ""))
    first <- utils::head(counts[order(-counts, names(counts))], top)
    list(unique = length(counts), top = paste(names(first), first, sep = ": ", collapse = ", "))
  })
  data.frame(
    variable = as.character(names(x)), type = types, missing = missing,
    unique = vapply(found, `[[`, 1L, "unique"), top = vapply(found, `[[`, "", "top")
  )
}

#' @export
print.ring_summary <- function(x, digits = 4L, ...) {
  check_print_dots(...)
  cat(format(x$rows, big.mark = ","), "rows on all ranks\n")
  for (part in list(summary_dated(x$numbers, digits), x$values)) {
    if (nrow(part) == 0L) next
    cat("\n")
    print(part, digits = digits, row.names = FALSE, right = FALSE)
  }
  invisible(x)
}

# The numbers with dates and times as text, if there are any.
summary_dated <- function(numbers, digits) {
  dates <- numbers$type == "Date"
  times <- numbers$type == "POSIXct"
  for (name in if (any(dates, times)) c("mean", "min", "q25", "median", "q75", "max")) {
    text <- format(numbers[[name]], digits = digits)
    text[dates] <- format(.Date(numbers[[name]][dates]))
    text[times] <- format(.POSIXct(numbers[[name]][times]))
    numbers[[name]] <- text
  }
  numbers
}
