# SPDX-License-Identifier: Apache-2.0
#
# XGBoost: its tracker, through which the workers connect. The tracker cannot bind a reserved port,
# so it runs before other ranks receive its port. The port is reserved first only to get a port of
# the right range. A worker connects to the tracker when it starts and when it finalizes. So the end
# of rank 0's R session waits until every worker has finalized. A worker that was killed never
# finalizes, so the wait has a limit. Python's frameworks/_xgboost.py does the same.

#' @rdname ring_tf_config
#' @order 4
#' @export
ring_xgboost_config <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    former <- frameworks_kept$tracker # other ranks may use it until they make this call
    rows <- frameworks_gather(comm, 1L, function() {
      if (ring_rank(comm) == 0L) xgboost_start_tracker(comm) else 0L
    })
    rm(former)
    list(
      dmlc_tracker_uri = ring_hosts(comm)[[1L]],
      dmlc_tracker_port = as.integer(rows[[1L]]),
      dmlc_task_id = sprintf("%08d", ring_rank(comm))
    )
  })
}

xgboost_start_tracker <- function(comm) {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    ring_stop("UNSUPPORTED", paste(
      "XGBoost's tracker runs in Python on rank 0, and the package reticulate is not installed",
      "there: install.packages(\"reticulate\")"
    ))
  }
  tracking <- tryCatch(reticulate::import("xgboost.tracker"), error = function(error) {
    python_missing(error, "XGBoost's tracker runs in Python on rank 0", "xgboost")
  })
  port <- ring_port_reserve(comm)
  ring_port_release(comm, port)
  tracker <- tracking$RabitTracker(
    n_workers = ring_size(comm), host_ip = ring_hosts(comm)[[1L]], port = port, sortby = "task"
  )
  tracker$start()
  if (is.null(frameworks_kept$tracker)) {
    reg.finalizer(frameworks_kept, xgboost_wait_for_other_ranks, onexit = TRUE)
  }
  frameworks_kept$tracker <- tracker
  tracker$worker_args()$dmlc_tracker_port
}

# Seconds that the end of the session waits for other ranks, as in Python.
xgboost_end_limit <- 60L

xgboost_wait_for_other_ranks <- function(kept) {
  tryCatch(kept$tracker$wait_for(timeout = xgboost_end_limit), error = function(error) NULL)
}
