# SPDX-License-Identifier: Apache-2.0
#
# Records are rows in the order of stratum and time, of which each rank has an interval. Records of
# the same stratum and time are on the same rank, and are a group. A row with a start time has a
# second record, of sign -1, at its start: so the rows at risk at a time are the records from that
# time on. A record is a column of a matrix, so that it is sent and read from one place.

# Sends the rows of all ranks to their places.
records_make <- function(comm, own) {
  moments <- records_means(comm, own)
  rows <- length(own$stop)
  id <- seq_len(rows) + ring_exscan(comm, as.double(rows))
  clustered <- ring_allreduce(comm, as.double(!is.null(own$cluster))) > 0
  cluster <- as.double(if (clustered) own$cluster else id)
  numbers <- list(own$stratum, own$stop, rep(1, rows), as.double(own$event), own$weights,
                  own$offset, cluster)
  if (!is.null(own$start)) {
    starts <- list(own$start, rep(-1, rows), double(rows))
    numbers <- Map(c, numbers, replace(numbers, 2:4, starts))
  }
  key <- records_key(comm, numbers[[1L]], numbers[[2L]], length(own$levels))
  part <- records_part(comm, key)
  packed <- .Call(C_records_pack, c(list(key), numbers), own$x, moments$means, moments$scale,
                  order(part))
  packed <- ring_alltoallv(comm, packed, tabulate(part, ring_size(comm)))
  records <- records_unpack(packed, order(packed[1L, ]))
  c(records, list(means = moments$means, scale = moments$scale, mean_offset = moments$mean_offset,
                  rows = as.integer(moments$rows), events = as.integer(moments$events)))
}

# The means of the columns, as survival has them, and their scale, the mean distance from the mean:
# 0 and 1 for columns of -1, 0 and 1, and without weights where rows have start times. And the mean
# of the offset.
records_means <- function(comm, own) {
  agree(comm, tsqr_check(own$x))
  code <- .Call(C_columns_codes, own$x)
  sums <- ring_allreduce(comm, unname(c(
    length(own$stop), sum(own$event), sum(own$weights), sum(own$offset * own$weights), !code,
    .Call(C_columns_sums, own$x, NULL, if (is.null(own$start)) own$weights)[2L, ]
  )))
  if (sums[[1L]] == 0) check_stop("there are no rows with a weight on any rank", call = NULL)
  width <- ncol(own$x)
  total <- sums[[if (is.null(own$start)) 3L else 1L]]
  plain <- sums[4L + seq_len(width)] == 0
  means <- replace(sums[-seq_len(4L + width)] / total, plain, 0)
  scale <- records_scale(comm, own, means) / total
  list(rows = sums[[1L]], events = sums[[2L]], mean_offset = sums[[4L]] / sums[[3L]], means = means,
       scale = replace(scale, plain | scale == 0, 1))
}

# The sum of the distances of each column from its mean.
records_scale <- function(comm, own, means) {
  weights <- if (is.null(own$start)) own$weights else 1
  gaps <- vapply(seq_along(means), function(k) sum(weights * abs(own$x[, k] - means[[k]])), 0)
  ring_allreduce(comm, gaps)
}

# Numbers in the order of stratum and time, which are equal for equal strata and times.
records_key <- function(comm, stratum, time, strata) {
  if (strata < 2L) return(time)
  total <- ring_allreduce(comm, as.double(length(time)))
  stratum * (total + 1) + ranks_of(comm, time)
}

# The part of the keys of all ranks that each key belongs to: parts have about equal sizes.
records_part <- function(comm, key) {
  size <- ring_size(comm)
  total <- ring_allreduce(comm, as.double(length(key)))
  places <- unique(ceiling(total * seq_len(size - 1L) / size))
  cuts <- if (size > 1L) order_statistics(comm, list(sort(key)), list(places))[[1L]]
  findInterval(key, unique(cuts), left.open = TRUE) + 1L
}

records_unpack <- function(packed, order) {
  key <- packed[1L, order]
  stratum <- packed[2L, order]
  count <- length(key)
  new_group <- c(TRUE, key[-1L] != key[-count])[seq_len(count)]
  group <- cumsum(new_group)
  first <- which(new_group)
  event <- packed[5L, order] > 0
  weights <- packed[6L, order]
  x <- packed[-seq_len(8L), order, drop = FALSE]
  list(
    stratum = stratum, time = packed[3L, order], sign = packed[4L, order], event = event,
    weights = weights, offset = packed[7L, order], cluster = packed[8L, order], x = x,
    dead = event * weights, group = group, first = first, strata = stratum[first],
    deaths = tabulate(group[event], length(first)),
    died = records_sums(weights[event], group[event], length(first))
  )
}

# The sum of the values of each group.
records_sums <- function(values, group, groups) {
  found <- double(groups)
  sums <- rowsum(values, group, reorder = FALSE)
  found[as.integer(rownames(sums))] <- sums
  found
}

# Cumulative sums of the columns of `values` within each stratum, from the end if `backward`, with
# the sums of the other ranks that have parts of the stratum. `strata` has the stratum of each
# column.
records_cumulate <- function(comm, strata, values, backward) {
  own <- drop(values %*% records_edge(strata, backward))
  carried <- records_beyond(comm, strata, own, backward)
  .Call(C_records_cumulate, values, strata, carried, backward)
}

# 1 for what belongs to the stratum that other ranks see first: that at the near edge.
records_edge <- function(strata, backward) {
  if (length(strata) == 0L) return(double())
  as.double(strata == strata[[if (backward) 1L else length(strata)]])
}

# The sums of ranks beyond the far edge that belong to its stratum. `own` are the sums of this rank
# over the stratum at its near edge.
records_beyond <- function(comm, strata, own, backward) {
  count <- length(strata)
  edges <- if (count == 0L) c(-1, -1) else strata[if (backward) c(1L, count) else c(count, 1L)]
  all <- ring_allgather(comm, matrix(c(edges, unname(own)), ncol = 1L))
  all <- matrix(all, length(own) + 2L)
  me <- ring_rank(comm) + 1L
  beyond <- seq_len(ring_size(comm))
  beyond <- if (backward) beyond[beyond > me] else rev(beyond[beyond < me])
  records_carried(all[, beyond, drop = FALSE], edges[[2L]])
}

# The sums of the ranks beyond that belong to `stratum`: of each rank the strata at its near and far
# edge, and the sums.
records_carried <- function(beyond, stratum) {
  carried <- double(nrow(beyond) - 2L)
  for (rank in which(beyond[1L, ] != -1)) {
    if (beyond[1L, rank] != stratum) break
    carried <- carried + beyond[-(1:2), rank]
    if (beyond[2L, rank] != stratum) break
  }
  carried
}

# The likelihood and its derivatives by the coefficients of scaled covariates. With `detail`, the
# list has also what survfit() and residuals need: `sweep`, the numbers of groups of src/coxph.h;
# `hazard`, that of each record; and `total`, the cumulative hazard of each group.
coxph_pass <- function(comm, records, beta, efron, detail = FALSE) {
  x <- records$x
  width <- nrow(x)
  eta <- drop(crossprod(x, beta)) + records$offset
  hazard <- exp(eta)
  risk <- records$weights * hazard
  signed <- records$sign * risk
  edge <- signed * records_edge(records$stratum, TRUE)
  carried <- records_beyond(comm, records$stratum, c(sum(edge), x %*% edge), TRUE)
  sweep <- .Call(C_coxph_sweep, records, risk, carried, efron, detail)
  total <- records_cumulate(comm, records$strata, t(sweep$hazard), FALSE)[1L, ]
  curvature <- signed * total[records$group]
  if (efron) curvature <- curvature - risk * (records$event * sweep$tied[records$group])
  squares <- .Call(C_gram_of, x, curvature) - sweep$squares
  score <- drop(x %*% records$dead) - sweep$score
  sums <- ring_allreduce(comm, c(sum(records$dead * eta) - sweep$log, score, squares))
  found <- list(loglik = sums[[1L]], score = sums[1L + seq_len(width)],
                information = matrix(sums[-seq_len(1L + width)], width))
  if (detail) found <- c(found, list(sweep = sweep, hazard = hazard, total = total))
  found
}

# The score residuals of the records, without weights: a column each. `beta` is of the scaled
# covariates, as in coxph_pass(); the residuals are those of the covariates as they were.
coxph_residuals <- function(comm, records, beta, efron) {
  pass <- coxph_pass(comm, records, beta, efron, detail = TRUE)
  moved <- records_cumulate(comm, records$strata, pass$sweep$moved, FALSE)
  .Call(C_coxph_residuals, records, pass$sweep, pass$hazard, pass$total, moved) * records$scale
}
