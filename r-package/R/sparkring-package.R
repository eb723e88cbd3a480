# SPDX-License-Identifier: Apache-2.0

#' sparkring: collective operations for the tasks of a Spark barrier stage
#'
#' The tasks of a Spark barrier stage, or processes under another launcher, form a ring: a group of
#' processes that sum, broadcast and gather vectors. A process of the group is a *rank*. Ranks count
#' from 0, like Spark's partitions.
#'
#' * [ring_apply()] and [ring_run()] run a function on the ranks of a ring, from the driver. Without
#'   Spark they run it in several processes of this machine.
#' * Elsewhere, open a communicator with [ring_init()], and close it with [ring_close()].
#' * Collectives, such as [ring_allreduce()], [ring_broadcast()], [ring_allgather()] and
#'   [ring_barrier()], take vectors and arrays. All ranks make the same calls in the same order.
#' * [ring_broadcast_object()] and the other functions with `_object` in the name take any R value.
#' * [ring_allreduce_start()] and the other functions with `_start` in the name run a collective in
#'   the background.
#' * [ring_glm()], [ring_lm()], [ring_coxph()], [ring_glmnet()], [ring_kmeans()], [ring_mlp()] and
#'   [ring_optim()] fit models to the rows of all ranks. [ring_prcomp()], [ring_svd()],
#'   [ring_summary()], [ring_quantile()], [ring_cor()] and [ring_bootstrap()] describe them.
#' * [ring_comm_split()] makes communicators for some of the ranks, and [ring_shrink()] for those
#'   that live after a loss. [ring_alloc()] allocates memory that the ranks of a host share.
#'
#' A process opens one communicator at a time, and calls it from the main thread of R only. An error
#' is a condition with a class for its cause: see [ring_error].
#'
#' `vignette("sparkring")` is an introduction. `vignette("rendezvous")` explains how the ranks
#' connect to each other, `vignette("performance")` has measurements, and `vignette("failures")` has
#' the errors and their remedies.
#'
#' @keywords internal
#' @useDynLib sparkring, .registration = TRUE, .fixes = "C_"
"_PACKAGE"
