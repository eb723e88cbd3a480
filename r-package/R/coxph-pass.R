# SPDX-License-Identifier: Apache-2.0
#
# Passes over the records of all ranks (numerics/cox.h). Ranks have intervals of the times, so the
# rows at risk at a time, and the hazard up to it, are those of this rank and of the ranks beyond.

# The likelihood and its derivatives by the coefficients of scaled covariates: `sums`, and parts of
# it. With `details`, the list has also what survfit() and residuals need: `pass`, for C; `rows`, a
# column for each group with events, as in numerics/cox.h; and `carried`, the sums of other ranks
# before them.
coxph_pass <- function(comm, records, beta, efron, details = FALSE) {
  width <- records$width
  pass <- replace(records, c("efron", "details"), list(efron, details))
  pass <- coxph_with(pass, .Call(C_coxph_risks, pass, beta))
  carried <- records_carry(comm, 1L + width, TRUE, .Call(C_coxph_edge, pass, TRUE))
  pass <- coxph_with(pass, .Call(C_coxph_back, pass, records$groups, carried))
  size <- if (details) 1L + width else 1L
  carried <- records_carry(comm, size, FALSE, .Call(C_coxph_edge, pass, FALSE))
  sums <- ring_allreduce(comm, .Call(C_coxph_forward, pass, carried))
  found <- list(loglik = sums[[1L]], score = sums[2L + seq_len(width)], sums = sums)
  if (details) found <- c(found, list(pass = pass, rows = pass$rows, carried = carried))
  found
}

coxph_with <- function(pass, found) replace(pass, names(found), found)

# The sums of the score residuals over the rows of each cluster, of which each rank gets some, in
# columns below the clusters. `beta` and the residuals are those of scaled covariates.
coxph_clusters <- function(comm, records, beta, efron) {
  pass <- coxph_pass(comm, records, beta, efron, details = TRUE)
  add <- function(rows) .Call(C_coxph_clusters, .Call(C_records_sort, rows, 1L))
  own <- add(.Call(C_coxph_residuals, pass$pass, pass$carried))
  owner <- abs(trunc(own[1L, ])) %% ring_size(comm)
  received <- ring_alltoallv(comm, own[, order(owner), drop = FALSE],
                             tabulate(owner + 1, ring_size(comm)))
  add(received)
}
