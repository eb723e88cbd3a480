# SPDX-License-Identifier: Apache-2.0
#
# ring_mpi(): an MPI program as a Spark job, without a function around it. Python's spark/_mpi.py
# does the same.

#' @rdname ring_mpi_run
#' @export
ring_mpi <- function(.sc, command, args = character(), num_proc = NULL, env = character(),
                     wd = NULL, allow_plain = FALSE, pmix = NULL, ...) {
  check_given(.sc, command)
  command <- mpi_command(command, args)
  mpi_check_env(env)
  wd <- check_string(wd, "wd")
  allow_plain <- check_flag(allow_plain, "allow_plain")
  if (!is.null(pmix)) pmix <- check_flag(pmix, "pmix")
  ring_run(.sc, ring_mpi_run, command = command, env = env, wd = wd, allow_plain = allow_plain,
           pmix = pmix, num_proc = num_proc, ...)
  invisible(NULL)
}
