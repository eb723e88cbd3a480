# SPDX-License-Identifier: Apache-2.0
#
# An attempt as processes of this machine, without Spark: ring_run() with a negative num_proc. Each
# process is a new R that runs the same functions as a worker of Spark (spark-task.R). The job
# and the results of the ranks go through a directory that only this user can read. The files are
# not compressed, because gzip takes 2 s for 20 MiB. The processes end when this process ends or is
# interrupted. Python's spark/_local.py does the same.

local_attempts <- function(job, columns, max_restarts) {
  display <- progress_bar(job$progress)
  on.exit(display$close())
  launch <- function(attempt) {
    job$token <- random_bytes(32)
    job$attempt <- attempt
    display$restart()
    local_launch(job, display)
  }
  values <- function(rank_results) rank_result_values(rank_results, columns)
  barrier_job_attempts(launch, function() job$size, values, max_restarts)
}

# Returns the results of the ranks.
local_launch <- function(job, display) {
  folder <- folder_create()
  on.exit(folder_remove(folder))
  saveRDS(job, file.path(folder, "job.rds"), compress = FALSE)
  writeLines(deparse(call(".libPaths", .libPaths())), file.path(folder, "main.R"))
  cat("sparkring:::local_main(commandArgs(TRUE))\n", file = file.path(folder, "main.R"),
      append = TRUE)
  ranks <- seq_len(job$size) - 1L
  children <- list()
  on.exit(for (child in children) {
    child_kill(child)
    child_close_output(child)
  }, add = TRUE, after = FALSE)
  for (rank in ranks) children <- c(children, local_start(rank, folder))
  readers <- lapply(ranks, function(rank) {
    lines_reader(
      take = function(lines) display$line(rank, lines),
      report = function(report) display$report(rank, report)
    )
  })
  local_watch(children, readers)
  rank_results <- lapply(ranks, local_rank_result, folder, children)
  results_fetch(rank_results, list(size = job$size, folder = folder))
}

local_start <- function(rank, folder) {
  rscript <- file.path(R.home("bin"), "Rscript")
  command <- c(rscript, file.path(folder, "main.R"), folder, as.character(rank))
  list(child_start(function() .Call(C_child_become, command)))
}

# Shows the output of the children until all have ended.
local_watch <- function(children, readers) {
  quiet <- TRUE
  repeat {
    ended <- quiet && all(vapply(children, child_ended, NA)) # before the last of their output
    open <- which(!vapply(children, function(child) is.na(child$output), NA))
    outputs <- vapply(children[open], function(child) child$output, 0L)
    pieces <- .Call(C_stdio_read, outputs, if (ended) 0 else launcher_poll)
    for (i in seq_along(open)) {
      if (is.null(pieces[[i]])) child_close_output(children[[open[[i]]]])
      readers[[open[[i]]]]$feed(pieces[[i]])
    }
    quiet <- sum(lengths(pieces)) == 0L
    if (ended && quiet) break
  }
  for (reader in readers) reader$finish()
}

# The result of a rank that has ended: from its file, or a failure.
local_rank_result <- function(rank, folder, children) {
  file <- file.path(folder, paste0("rank-result-", rank, ".rds"))
  if (file.exists(file)) return(readRDS(file))
  value <- children[[rank + 1L]]$value
  if (inherits(value, "try-error")) stop(attr(value, "condition"))
  how <- paste("its R process", child_how(children[[rank + 1L]]))
  rank_result_lost(rank, rank_result_advise(how, TRUE))
}

# Runs in the process of a rank, for its script.
local_main <- function(arguments) {
  folder <- arguments[[1L]]
  rank <- as.integer(arguments[[2L]])
  job <- readRDS(file.path(folder, "job.rds"))
  job$folder <- folder
  barrier <- list(address = rep("127.0.0.1", job$size), partition = rank)
  library("sparkring", character.only = TRUE)
  rank_result <- task_run(NULL, job, barrier)
  new <- file.path(folder, paste0("new-", rank, ".rds"))
  saveRDS(rank_result, new)
  invisible(file.rename(new, file.path(folder, paste0("rank-result-", rank, ".rds"))))
}
