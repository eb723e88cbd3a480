# SPDX-License-Identifier: Apache-2.0
#
# Records are rows in the order of stratum and time, of which each rank has an interval. Records of
# the same stratum and time are on the same rank, and are a group. A row with a start time has a
# second record, of sign -1, at its start: so the rows at risk at a time are the records from that
# time on. A record is a column of a matrix: its fields, and then its covariates
# (numerics/cox_records.h).

records_fields <- c("stratum", "time", "sign", "event", "weight", "offset", "cluster")

# A field of the records of this rank.
records_field <- function(records, name) records$all[match(name, records_fields), ]

# Sends the rows of all ranks to their places.
records_make <- function(comm, own) {
  moments <- records_means(comm, own)
  rows <- length(own$stop)
  id <- seq_len(rows) - 1 + ring_exscan(comm, as.double(rows))
  clustered <- ring_allreduce(comm, as.double(!is.null(own$cluster))) > 0
  cluster <- as.double(if (clustered) own$cluster else id)
  fields <- cbind(own$stratum - 1, own$stop, rep(1, rows), as.double(own$event), own$weights,
                  own$offset, cluster)
  if (!is.null(own$start)) {
    starts <- fields
    starts[, 2:4] <- cbind(own$start, rep(-1, rows), double(rows))
    fields <- rbind(fields, starts)
  }
  all <- .Call(C_records_pack, fields, own$x, moments$means, moments$scale)
  if (ring_size(comm) > 1L) {
    all <- ring_alltoallv(comm, all, records_divide(comm, all))
    all <- .Call(C_records_sort, all, 2L)
  }
  records <- list(all = all, width = ncol(own$x), means = moments$means, scale = moments$scale,
                  mean_offset = moments$mean_offset, rows = as.integer(moments$rows),
                  events = as.integer(moments$events), efron = TRUE, details = FALSE)
  records$groups <- .Call(C_coxph_groups, records)
  records
}

# The means of the columns, as survival has them, and their scale, the mean distance from the mean:
# 0 and 1 for columns of -1, 0 and 1, and without weights where rows have start times. And the mean
# of the offset.
records_means <- function(comm, own) {
  agree(comm, tsqr_check(own$x))
  weights <- if (is.null(own$start)) own$weights
  code <- .Call(C_columns_codes, own$x)
  sums <- ring_allreduce(comm, c(length(own$stop), sum(own$event), sum(own$weights),
                                 sum(own$offset * own$weights), !code))
  if (sums[[1L]] == 0) check_stop("there are no rows with a weight on any rank", call = NULL)
  found <- columns_known(comm, own$x, weights)
  plain <- sums[-seq_len(4L)] == 0
  means <- replace(found$means, plain, 0)
  distances <- ring_allreduce(comm, .Call(C_records_distances, own$x, weights, means))
  scale <- distances / found$weights
  list(rows = sums[[1L]], events = sums[[2L]], mean_offset = sums[[4L]] / sums[[3L]], means = means,
       scale = replace(scale, plain | !(scale > 0), 1))
}

# How many of the sorted keys belong to each rank: see numerics/cox_records.h.
records_divide <- function(comm, keys) {
  proposals <- ring_allgatherv(comm, .Call(C_records_propose, keys))
  .Call(C_records_divide, keys, proposals, ring_size(comm))
}

# The `size` sums of the ranks beyond this one that belong to its stratum at that side. `edge` is
# what this rank has at its other side.
records_carry <- function(comm, size, back, edge) {
  if (ring_size(comm) == 1L) return(double(size))
  edges <- ring_allgather(comm, matrix(edge, ncol = 1L))
  .Call(C_records_carry, matrix(edges, size + 2L), ring_rank(comm), back)
}
