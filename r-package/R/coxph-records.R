# SPDX-License-Identifier: Apache-2.0
#
# Records are rows in the order of stratum and time, of which each rank has an interval. Records of
# the same stratum and time are on the same rank, and are a group. A row with a start time has a
# second record, of sign -1, at its start: so the rows at risk at a time are the records from that
# time on.

# Sends the rows of all ranks to their places.
records_make <- function(comm, own) {
  moments <- records_means(comm, own)
  rows <- length(own$stop)
  id <- seq_len(rows) + ring_exscan(comm, as.double(rows))
  clustered <- ring_allreduce(comm, as.double(!is.null(own$cluster))) > 0
  cluster <- if (clustered) own$cluster else id
  x <- sweep(own$x, 2L, moments$means)
  packed <- cbind(own$stratum, own$stop, rep(1, rows), own$event, own$weights, own$offset, cluster,
                  x, deparse.level = 0L)
  if (!is.null(own$start)) {
    entry <- packed
    entry[, 2:4] <- cbind(own$start, rep(-1, rows), rep(0, rows))
    packed <- rbind(packed, entry)
  }
  ranked <- ranks_of(comm, packed[, 2L])
  total <- ring_allreduce(comm, as.double(nrow(packed)))
  key <- packed[, 1L] * (total + 1) + ranked
  part <- records_part(comm, key, total)
  order <- order(part)
  counts <- tabulate(part, ring_size(comm))
  packed <- t(cbind(key, packed)[order, , drop = FALSE])
  packed <- ring_alltoallv(comm, unname(packed), counts)
  records <- records_unpack(packed[, order(packed[1L, ]), drop = FALSE])
  c(records, list(means = moments$means, mean_offset = moments$mean_offset,
                  rows = as.integer(moments$rows), events = as.integer(moments$events)))
}

# The means of the columns, as survival has them: 0 for columns of -1, 0 and 1. And that of the
# offset.
records_means <- function(comm, own) {
  agree(comm, tsqr_check(own$x))
  code <- vapply(seq_len(ncol(own$x)), function(i) !all(own$x[, i] %in% -1:1), NA)
  sums <- ring_allreduce(comm, unname(c(
    length(own$stop), sum(own$event), sum(own$weights), sum(own$offset * own$weights), code,
    colSums(own$x * own$weights)
  )))
  width <- ncol(own$x)
  means <- sums[-seq_len(4L + width)] / sums[[3L]]
  list(rows = sums[[1L]], events = sums[[2L]], mean_offset = sums[[4L]] / sums[[3L]],
       means = ifelse(sums[4L + seq_len(width)] > 0, means, 0))
}

records_part <- function(comm, key, total) {
  size <- ring_size(comm)
  places <- unique(ceiling(total * seq_len(size - 1L) / size))
  cuts <- if (size > 1L) order_statistics(comm, list(sort(key)), list(places))[[1L]]
  findInterval(key, unique(cuts), left.open = TRUE) + 1L
}

records_unpack <- function(packed) {
  key <- packed[1L, ]
  stratum <- packed[2L, ]
  count <- length(key)
  new_group <- c(TRUE, key[-1L] != key[-count])[seq_len(count)]
  new_segment <- c(TRUE, stratum[-1L] != stratum[-count])[seq_len(count)]
  group <- cumsum(new_group)
  event <- packed[5L, ] > 0
  weights <- packed[6L, ]
  first <- which(new_group)
  deaths <- tabulate(group[event], length(first))
  died <- double(length(first))
  sums <- rowsum(weights[event], group[event])
  died[as.integer(rownames(sums))] <- sums
  list(
    stratum = stratum, time = packed[3L, ], sign = packed[4L, ], event = event, weights = weights,
    offset = packed[7L, ], cluster = packed[8L, ], x = t(packed[-seq_len(8L), , drop = FALSE]),
    group = group, first = first, deaths = deaths, died = died,
    segments = split(seq_len(count), cumsum(new_segment))
  )
}

# Cumulative sums of the columns of `x` within each stratum, from the end if `backward`. Adds the
# sums of the other ranks that have parts of the stratum.
records_cumulate <- function(comm, records, x, backward) {
  for (segment in records$segments) {
    at <- if (backward) rev(segment) else segment
    if (length(at) > 1L) x[at, ] <- apply(x[at, , drop = FALSE], 2L, cumsum)
  }
  # The strata of this rank, from the edge that ranks before it in this direction see, and the sums.
  edges <- if (backward) c(1L, nrow(x)) else c(nrow(x), 1L)
  own <- if (nrow(x) > 0L) c(records$stratum[edges], x[edges[[1L]], ]) else rep(-1, ncol(x) + 2L)
  all <- matrix(ring_allgather(comm, matrix(as.double(own), ncol = 1L)), ncol(x) + 2L)
  if (nrow(x) == 0L) return(x)
  me <- ring_rank(comm) + 1L
  beyond <- seq_len(ring_size(comm))
  beyond <- if (backward) beyond[beyond > me] else rev(beyond[beyond < me])
  carried <- records_carried(all[, beyond, drop = FALSE], own[[2L]])
  segment <- records$segments[[if (backward) length(records$segments) else 1L]]
  if (any(carried != 0)) x[segment, ] <- sweep(x[segment, , drop = FALSE], 2L, carried, "+")
  x
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

# The likelihood, its derivatives, and on request the score residuals of the records. Efron's
# treatment of `d` equal times takes the fraction `l / d` of these records from the rows at risk.
coxph_pass <- function(comm, records, beta, efron, residuals = FALSE) {
  x <- records$x
  width <- ncol(x)
  eta <- drop(x %*% beta) + records$offset
  hazard <- exp(eta)
  risk <- records$weights * hazard
  signed <- records$sign * risk
  at_risk <- records_cumulate(comm, records, cbind(signed, signed * x, deparse.level = 0L), TRUE)
  groups <- coxph_groups(records, at_risk, risk, efron)
  hazards <- matrix(0, nrow(x), 1L)
  hazards[records$first[groups$with], 1L] <- groups$sum
  hazards <- records_cumulate(comm, records, hazards, FALSE)[, 1L]
  tied <- double(length(records$first))
  tied[groups$with] <- groups$tied
  tied <- ifelse(records$event, tied[records$group], 0)
  dead <- records$event * records$weights
  means <- crossprod(groups$s1, groups$c0 * groups$s1 - groups$c1 * groups$d1) +
    crossprod(groups$d1, groups$c2 * groups$d1 - groups$c1 * groups$s1)
  squares <- crossprod(x, (signed * hazards - risk * tied) * x) - means
  score <- colSums(dead * x) - colSums(groups$sum * groups$s1 - groups$tied * groups$d1)
  total <- ring_allreduce(comm, c(sum(dead * eta) - sum(groups$log), unname(score), squares))
  found <- list(loglik = total[[1L]], score = total[1L + seq_len(width)],
                information = matrix(total[-seq_len(1L + width)], width), groups = groups)
  if (residuals) found$residuals <- coxph_residuals(comm, records, groups, hazard, hazards, tied)
  found
}

# For each group with deaths: `s0` and `s1`, the sums over the rows at risk of the risk and of the
# risk times the covariates; `d0` and `d1`, the same over the deaths; the sums over the steps of
# Efron's treatment of the hazard (`sum`), of the hazard times the fraction (`tied`), of the
# logarithm of the denominator, and `c0`, `c1` and `c2`, of the squared denominators.
coxph_groups <- function(records, at_risk, risk, efron) {
  with <- which(records$deaths > 0)
  event <- which(records$event)
  sums <- rowsum(cbind(risk, risk * records$x, deparse.level = 0L)[event, , drop = FALSE],
                 records$group[event])
  at_risk <- at_risk[records$first[with], , drop = FALSE]
  found <- list(with = with, s0 = at_risk[, 1L], s1 = at_risk[, -1L, drop = FALSE],
                d0 = sums[, 1L], d1 = unname(sums[, -1L, drop = FALSE]))
  deaths <- records$deaths[with]
  mean <- records$died[with] / deaths
  zero <- double(length(with))
  found[c("sum", "tied", "log", "c0", "c1", "c2")] <- list(zero)
  steps <- if (efron) deaths else pmin(deaths, 1)
  if (!efron) mean <- records$died[with]
  for (step in seq_len(max(0, steps)) - 1L) {
    at <- which(steps > step)
    share <- if (efron) step / deaths[at] else 0
    denominator <- found$s0[at] - share * found$d0[at]
    hazard <- mean[at] / denominator
    squared <- hazard / denominator
    new <- list(sum = hazard, tied = share * hazard, log = mean[at] * log(denominator),
                c0 = squared, c1 = share * squared, c2 = share^2 * squared)
    for (name in names(new)) found[[name]][at] <- found[[name]][at] + new[[name]]
  }
  found$steps <- steps
  found$mean <- mean
  found
}

# The score residuals of the records, without weights.
coxph_residuals <- function(comm, records, groups, hazard, hazards, tied) {
  x <- records$x
  width <- ncol(x)
  moved <- matrix(0, nrow(x), width)
  moved[records$first[groups$with], ] <- groups$c0 * groups$s1 - groups$c1 * groups$d1
  moved <- records_cumulate(comm, records, moved, FALSE)
  of <- match(records$group, groups$with)[records$event]
  means <- (groups$sum * groups$s1 - groups$tied * groups$d1) / (groups$mean * groups$steps)
  shared <- groups$c1 * groups$s1 - groups$c2 * groups$d1
  found <- -records$sign * hazard * (x * hazards - moved)
  event <- which(records$event)
  found[event, ] <- found[event, , drop = FALSE] + x[event, , drop = FALSE] -
    means[of, , drop = FALSE] +
    hazard[event] * (x[event, , drop = FALSE] * tied[event] - shared[of, , drop = FALSE])
  found
}
