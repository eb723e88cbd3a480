# SPDX-License-Identifier: Apache-2.0
#
# Exact quantiles of vectors that are spread over the ranks. A quantile lies between two order
# statistics. Each rank sorts its vector once. In each round the ranks propose values that divide
# the interval of each order statistic into equal parts of their own rows, and count the rows below
# every proposal. So the interval shrinks by the number of proposals; two rounds are enough for ten
# million rows. The last values are gathered.

#' Quantiles of vectors on all ranks
#'
#' `ring_quantile()` returns what [stats::quantile()] returns for the concatenated vectors of all
#' ranks. All ranks call it. The quantiles are exact. No rank needs memory for the rows of other
#' ranks: the ranks send some thousand numbers in a few rounds.
#'
#' @inheritParams ring_svd
#' @param x The numbers of this rank, which may be none: a numeric, logical, `Date`, `POSIXct` or
#'   `difftime` vector, in the same units and time zone on all ranks. Or a matrix or data frame of
#'   such columns, the same on all ranks.
#' @param probs,na.rm,names,type As for [stats::quantile()], the same on all ranks.
#' @returns For a vector, a vector with the quantiles, as from [stats::quantile()]. For a matrix or
#'   a data frame, a matrix with a row for each probability and a column for each column. If a
#'   column has dates, times or durations, a data frame of the same shape, in which that column has
#'   them, too. Types other than 1 and 3 interpolate dates as days and times as seconds. The same on
#'   every rank.
#' @inheritSection ring_svd Spark tables
#' @section Errors:
#' `ring_error_invalid` on every rank, if an argument is invalid on any rank, or if there are
#' missing values without `na.rm = TRUE`. The communicator stays usable. Other errors as for
#' [ring_allreduce()].
#' @seealso [ring_summary()], [ring_table()]
#' @examples
#' comm <- ring_init()
#' ring_quantile(comm, faithful$waiting)
#' ring_quantile(comm, faithful, probs = c(0.1, 0.9))
#' ring_close(comm)
#' @export
ring_quantile <- function(comm, x, probs = seq(0, 1, 0.25),
                          na.rm = FALSE, # nolint: object_name_linter. As in quantile().
                          names = TRUE, type = 7, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_quantile", match.call(), parent.frame()))
  call <- sys.call()
  parts <- agree(comm, {
    check_given(comm, x)
    check_no_dots(...)
    quantile_check(probs, type, call)
    check_flag(names, "names")
    quantile_parts(x)
  })
  columns <- agree(comm, quantile_columns(parts, check_flag(na.rm, "na.rm"), call))
  own <- c(names(parts), length(probs), format(probs, digits = 17L), type)
  quantile_check_alike(allgather_strings(comm, own))
  kinds <- kinds_agree(comm, lapply(parts, quantile_kind))
  counts <- ring_allreduce(comm, as.double(lengths(columns)))
  found <- quantile_values(comm, columns, counts, probs, type)
  labels <- if (names) quantile_labels(probs)
  classed <- lapply(seq_along(parts), function(i) {
    quantile_classed(found[, i], parts[[i]], kinds[[names(parts)[[i]]]])
  })
  if (length(dim(x)) != 2L) return(stats::setNames(classed[[1L]], labels))
  if (!any(vapply(classed, is.object, NA))) {
    return(array(found, dim(found), list(labels, colnames(x))))
  }
  rows <- if (names) make.unique(labels) else .set_row_names(length(probs))
  structure(classed, names = colnames(x), class = "data.frame", row.names = rows)
}

# Quantiles of a column with its class. A column without values may have another class than those of
# the ranks with values, which have agreed on `kind`.
quantile_classed <- function(found, column, kind) {
  of <- if (is.null(kind) || identical(kind_of(column), kind)) column else kind_make(kind)
  attributes(found) <- attributes(of)[c("class", "units", "tzone")]
  found
}

# The columns of `x`, with names for errors.
quantile_parts <- function(x) {
  if (length(dim(x)) != 2L) return(list(x = integer64_numbers(x, "x")))
  if (is.data.frame(x)) return(as.list(integer64_rows(x)))
  names <- if (is.null(colnames(x))) paste("column", seq_len(ncol(x))) else colnames(x)
  stats::setNames(asplit(x, 2L), names)
}

quantile_check <- function(probs, type, call) {
  if (!is.numeric(probs) || anyNA(probs) || any(probs < 0 | probs > 1)) {
    check_stop("`probs` must be numbers from 0 to 1, not ", describe(probs), call = call)
  }
  if (!is_whole(type) || !type %in% 1:9) {
    check_stop("`type` must be a number from 1 to 9, not ", describe(type), call = call)
  }
}

quantile_check_alike <- function(parts) {
  odd <- which(!vapply(parts, identical, NA, parts[[1L]]))
  if (length(odd) == 0L) return()
  ring_stop("INVALID", paste0(
    "rank ", odd[[1L]] - 1L, " passed other columns, `probs` or another `type` than rank 0 (",
    quantile_odd(parts[[odd[[1L]]]], parts[[1L]]), "): pass the same on all ranks"
  ), rank = odd[[1L]] - 1L, call = NULL)
}

# The first difference.
quantile_odd <- function(theirs, ours) {
  if (length(theirs) != length(ours)) return(paste(length(theirs), "parts, not", length(ours)))
  odd <- which(theirs != ours)[[1L]]
  paste0(theirs[[odd]], ", not ", ours[[odd]])
}

# The kind of a column, without values that agree with all kinds. Logicals count as numbers.
quantile_kind <- function(column) {
  kind_known(if (is.logical(column)) as.double(column) else column)
}

# The columns, each sorted.
quantile_columns <- function(columns, drop_missing, call) {
  lapply(unname(columns), function(column) {
    times <- inherits(column, c("Date", "POSIXct", "difftime"))
    plain <- !is.object(column) && (is.numeric(column) || is.logical(column))
    if (!times && !plain) {
      check_stop("`x` must be numbers, not ", describe(column), call = call)
    }
    column <- as.double(column)
    if (!drop_missing && anyNA(column)) {
      check_stop("missing values are not allowed if `na.rm` is FALSE", call = call)
    }
    sort.int(column, method = if (length(column) < 2^31) "radix" else "quick")
  })
}

quantile_labels <- function(probs) {
  if (length(probs) == 0L) return()
  digits <- max(2L, getOption("digits"))
  paste0(formatC(100 * probs, format = "fg", width = 1, digits = digits), "%")
}

# A matrix with a row for each probability.
quantile_values <- function(comm, columns, counts, probs, type) {
  probs <- as.double(probs)
  places <- lapply(counts, function(count) {
    if (count > 0) .Call(C_quantile_places, count, probs, type) else matrix(0, 3L, 0L)
  })
  wanted <- lapply(places, function(place) sort(unique(c(place[1L, ], place[2L, ]))))
  found <- order_statistics(comm, columns, wanted)
  values <- vapply(seq_along(columns), FUN.VALUE = double(length(probs)), function(i) {
    if (counts[[i]] == 0) return(rep(NA_real_, length(probs)))
    of <- function(row) found[[i]][match(places[[i]][row, ], wanted[[i]])]
    .Call(C_quantile_between, of(1L), of(2L), places[[i]][3L, ])
  })
  matrix(values, length(probs))
}

# ---- Order statistics ----------------------------------------------------------------------------

order_few <- 20000 # values that are gathered at most
order_pivots <- 1000 # proposals of all ranks for one order statistic

# The order statistics `wanted` (a vector for each column) of sorted columns.
order_statistics <- function(comm, columns, wanted) {
  column <- rep(seq_along(wanted), lengths(wanted))
  search <- list(
    column = column, place = unlist(wanted), value = rep(NA_real_, length(column)),
    # Rows `from` + 1 to `to` of this rank are candidates; `before` rows of all ranks are smaller.
    from = double(length(column)), to = as.double(lengths(columns))[column],
    before = double(length(column))
  )
  repeat {
    open <- which(is.na(search$value))
    left <- ring_allreduce(comm, (search$to - search$from)[open])
    if (length(open) == 0L || sum(left) <= order_few) break
    search <- order_narrow(comm, columns, search, open)
  }
  if (length(open) > 0L) search$value[open] <- order_gather(comm, columns, search, open)
  unname(split(search$value, factor(column, seq_along(wanted))))
}

# One round. Every rank has the same proposals, so all ranks decide the same.
order_narrow <- function(comm, columns, search, open) {
  most <- max(1, ceiling(order_pivots / ring_size(comm)))
  own <- vapply(open, FUN.VALUE = double(most), function(i) {
    order_propose(columns[[search$column[[i]]]], search$from[[i]], search$to[[i]], most)
  })
  all <- array(ring_allgather(comm, matrix(own, most)), c(most, length(open), ring_size(comm)))
  pivots <- lapply(seq_along(open), function(j) sort(unique(as.vector(all[, j, ]))))
  counts <- Map(function(i, pivots) {
    values <- columns[[search$column[[i]]]]
    c(findInterval(pivots, values, left.open = TRUE), findInterval(pivots, values))
  }, open, pivots)
  totals <- ring_allreduce(comm, as.double(unlist(counts)))
  totals <- split(totals, rep(seq_along(counts), lengths(counts)))
  for (j in seq_along(open)) {
    search <- order_decide(search, open[[j]], pivots[[j]], totals[[j]], counts[[j]])
  }
  search
}

# Values at equal distances among the candidates; NaN where there are fewer.
order_propose <- function(values, from, to, most) {
  count <- to - from
  if (count <= most) return(c(values[from + seq_len(count)], rep(NaN, most - count)))
  values[from + floor((seq_len(most) - 0.5) / most * count) + 1]
}

# `totals` and `own` are the rows below each pivot, then the rows up to each pivot.
order_decide <- function(search, i, pivots, totals, own) {
  under <- seq_along(pivots)
  place <- search$place[[i]]
  upper <- which(totals[-under] >= place)[1L]
  if (!is.na(upper) && totals[[upper]] < place) {
    search$value[[i]] <- pivots[[upper]]
    return(search)
  }
  if (!is.na(upper)) search$to[[i]] <- own[[upper]]
  lower <- if (is.na(upper)) length(pivots) else upper - 1L
  if (lower > 0L) {
    search$from[[i]] <- own[-under][[lower]]
    search$before[[i]] <- totals[-under][[lower]]
  }
  search
}

# Every rank gets all candidates and picks the values.
order_gather <- function(comm, columns, search, open) {
  own <- lapply(open, function(i) {
    columns[[search$column[[i]]]][search$from[[i]] + seq_len(search$to[[i]] - search$from[[i]])]
  })
  counts <- ring_allgather(comm, matrix(as.double(lengths(own)), ncol = 1L))
  counts <- matrix(counts, length(open))
  all <- ring_allgatherv(comm, as.double(unlist(own)))
  of <- rep(rep(seq_along(open), ring_size(comm)), as.vector(counts))
  candidates <- split(all, factor(of, seq_along(open)))
  vapply(seq_along(open), FUN.VALUE = 0, function(j) {
    sort(candidates[[j]])[[search$place[[open[[j]]]] - search$before[[open[[j]]]]]]
  })
}
