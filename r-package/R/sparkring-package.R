# SPDX-License-Identifier: Apache-2.0

#' sparkring: the tasks of a Spark barrier stage form a ring
#'
#' Open a communicator with [ring_init()], let every rank make the same calls in the same order
#' ([ring_allreduce()], [ring_broadcast()], [ring_allgather()], [ring_barrier()]), and close it with
#' [ring_close()]. Any R value goes with [ring_broadcast_object()] and its kin. Ranks count from 0,
#' like Spark's partitions. What goes wrong is a condition whose class says what: see [ring_error].
#'
#' [ring_allreduce_start()] and its kin go on while R does other things, [ring_comm_split()] makes
#' communicators of some of the ranks, and ranks of one host share memory ([ring_alloc()]).
#'
#' A process opens one communicator at a time, and R calls it from its main thread only.
#'
#' `vignette("sparkring")` is a first tour; `vignette("rendezvous")` tells how the tasks find each
#' other, `vignette("performance")` how fast they are, and why, and `vignette("failures")` what to
#' do when things go wrong.
#'
#' @keywords internal
#' @useDynLib sparkring, .registration = TRUE, .fixes = "C_"
"_PACKAGE"
