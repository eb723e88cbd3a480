# SPDX-License-Identifier: Apache-2.0

#' sparkring: the tasks of a Spark barrier stage form a ring
#'
#' Open a communicator with [ring_init()], make the same calls in the same order on every rank
#' ([ring_allreduce()], [ring_broadcast()], [ring_allgather()], [ring_barrier()]), and close it with
#' [ring_close()]. [ring_broadcast_object()] and its kin send any R value. Ranks count from 0, like
#' Spark's partitions. An error is a condition whose class names its cause: see [ring_error].
#'
#' [ring_allreduce_start()] and its kin run while R does other things, [ring_comm_split()] makes
#' communicators of some of the ranks, and ranks of one host share memory ([ring_alloc()]).
#'
#' A process opens one communicator at a time, and R calls it from its main thread only.
#'
#' `vignette("sparkring")` is a first tour. `vignette("rendezvous")` explains how the tasks find
#' each other, `vignette("performance")` how fast they are and why, and `vignette("failures")` has
#' the errors and what to do.
#'
#' @keywords internal
#' @useDynLib sparkring, .registration = TRUE, .fixes = "C_"
"_PACKAGE"
