# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints: rank 0 writes states, and after a restart all ranks restore the newest state.
# core/bindings/checkpoint.h has the names and the format of the files, and writes them. A state is
# an encoded object (object-codec.R). Python's spark/_checkpoint.py does the same.
#
# A new attempt may have its rank 0 on another host. So every rank reads the directory of its own
# host, and the rank with the newest state broadcasts it.

#' Checkpoints: save a state that survives a failure, and restore it
#'
#' With `max_restarts`, [ring_apply()] and [ring_run()] launch all ranks again after a rank has
#' failed. The values in the memory of the ranks are lost then. A checkpoint keeps a state in a
#' directory.
#'
#' @details
#' * `ring_checkpoint()` opens a checkpoint. It sends nothing.
#' * `ring_save()` writes a state on rank 0, and does nothing on the other ranks. It is not
#'   collective. When it returns, the state is on the disk.
#' * `ring_restore()` returns the newest complete state on every rank. All ranks call it.
#'
#' A file gets its name when it is complete, so an incomplete state is never restored. The last two
#' states are kept. [readRDS()] reads the files, too.
#'
#' @section Security:
#' [unserialize()] reads a state, so every user with write access to the directory can make the
#' ranks run code. `ring_restore()` needs a token, like [ring_broadcast_object()].
#'
#' @inheritParams ring_rank
#' @param path The path of a directory, a string. The directory is made if it does not exist. It is
#'   for this job only. It is a directory that the hosts share, such as by NFS or a mounted object
#'   store, or a directory of each host. A state on one host is found after a restart only if a rank
#'   runs on that host. On Spark the path must be absolute, because each executor has a working
#'   directory of its own.
#' @param checkpoint A checkpoint, from `ring_checkpoint()`.
#' @param state Any R value. Ranks other than rank 0 ignore it.
#' @param default The value to return if there is no state.
#' @returns `ring_checkpoint()` returns an object of class `ring_checkpoint`. `ring_save()` returns
#'   `NULL`, invisibly. `ring_restore()` returns the state, or `default`.
#' @section Errors:
#' `ring_error_invalid` for a path that a later attempt could not find. `ring_error_system` on rank
#' 0 if a state cannot be written; the communicator stays usable. If a state cannot be read, all
#' ranks get an error.
#' @seealso [ring_attempt()], for the number of the attempt; [ring_apply()]; `vignette("failures")`.
#' @examples
#' # In two processes of this machine. Rank 1 is killed in the first attempt.
#' train <- function(comm, path) {
#'   checkpoint <- ring_checkpoint(comm, path)
#'   state <- ring_restore(checkpoint, default = list(epoch = 0, weight = 0))
#'   while (state$epoch < 4) {
#'     gradient <- ring_allreduce(comm, ring_rank(comm) - state$weight)
#'     state <- list(epoch = state$epoch + 1, weight = state$weight + 0.1 * gradient)
#'     ring_save(checkpoint, state)
#'     dies <- state$epoch == 2 && ring_attempt(comm) == 0 && ring_rank(comm) == 1
#'     if (dies) tools::pskill(Sys.getpid())
#'   }
#'   state$weight
#' }
#' \donttest{
#' ring_run(NULL, train, path = tempfile(), num_proc = -2, max_restarts = 1)
#' }
#' @export
ring_checkpoint <- function(comm, path) {
  check_given(comm, path)
  ring_rank(comm)
  folder <- checkpoint_folder(path)
  structure(list2env(list(comm = comm, folder = folder, last = NULL)), class = "ring_checkpoint")
}

#' @rdname ring_checkpoint
#' @export
ring_save <- function(checkpoint, state) {
  check_given(checkpoint, state)
  check_checkpoint(checkpoint)
  if (ring_rank(checkpoint$comm) != 0L) return(invisible())
  if (is.null(checkpoint$last)) checkpoint$last <- max(-1, checkpoint_numbers(checkpoint))
  number <- checkpoint$last + 1
  bytes <- codec_of_value(state)
  dir.create(checkpoint$folder, showWarnings = FALSE, recursive = TRUE)
  .Call(C_checkpoint_write, checkpoint$folder, number, bytes)
  checkpoint$last <- number
  for (found in checkpoint_numbers(checkpoint)) {
    if (.Call(C_checkpoint_is_old, found, number)) unlink(checkpoint_path(checkpoint, found))
  }
  invisible()
}

#' @rdname ring_checkpoint
#' @export
ring_restore <- function(checkpoint, default = NULL) {
  check_given(checkpoint)
  call <- sys.call()
  check_checkpoint(checkpoint)
  comm <- checkpoint$comm
  check_object_comm(comm, call)
  below <- Inf
  repeat {
    numbers <- checkpoint_numbers(checkpoint)
    newest <- ring_allgather(comm, max(-1, numbers[numbers < below]))
    owner <- which.max(newest) - 1L
    below <- max(newest)
    if (below < 0) {
      checkpoint_warn_missing(checkpoint)
      return(default)
    }
    mine <- agree(comm, {
      if (ring_rank(comm) == owner) checkpoint_read(checkpoint_path(checkpoint, below))
    })
    length <- ring_broadcast(comm, as.double(length(mine)), owner)
    if (length > 0) break
  }
  checkpoint$last <- below
  bytes <- ring_broadcast(comm, if (ring_rank(comm) == owner) mine else raw(length), owner)
  codec_open(bytes, owner, call)
}

# ---- Files ---------------------------------------------------------------------------------------

checkpoint_folder <- function(path) {
  if (!is_string(path) || !nzchar(path)) {
    check_stop("`path` must be the directory of the checkpoint, as one string, not ",
               describe(path))
  }
  if (grepl("^[A-Za-z][A-Za-z0-9+.-]+:/", path)) {
    check_stop("`path` is the URL ", path, ": pass the path of a directory, such as the directory ",
               "where the URL is mounted")
  }
  path <- path.expand(path)
  if (startsWith(path, "/")) return(path)
  if (run_state$executor) {
    check_stop(
      "the path ", path, " is relative, and each executor has a working directory of its own, so ",
      "a new attempt would not find it: pass an absolute path, best of a directory that the hosts ",
      "share"
    )
  }
  file.path(getwd(), path)
}

check_checkpoint <- function(x) {
  if (inherits(x, "ring_checkpoint")) return()
  check_stop("`checkpoint` must be what ring_checkpoint() returns, not ", describe(x))
}

checkpoint_path <- function(checkpoint, number) {
  file.path(checkpoint$folder, .Call(C_checkpoint_name, number))
}

# The numbers of the states in the directory of this rank's host.
checkpoint_numbers <- function(checkpoint) {
  numbers <- .Call(C_checkpoint_numbers, list.files(checkpoint$folder))
  numbers[!is.na(numbers)]
}

# Reads the state in a file; NULL when the file is not complete.
checkpoint_read <- function(path) {
  bytes <- tryCatch(
    readBin(path, "raw", file.size(path)),
    warning = function(warning) ring_stop("SYSTEM", conditionMessage(warning), call = NULL)
  )
  length <- .Call(C_checkpoint_length, bytes)
  if (!is.null(length)) bytes[seq_len(length)]
}

# Warns if a restart finds no state, because the state may be on a host without ranks.
checkpoint_warn_missing <- function(checkpoint) {
  attempt <- ring_attempt(checkpoint$comm)
  if (attempt == 0L || ring_rank(checkpoint$comm) != 0L) return()
  warning(
    "attempt ", attempt, " found no state in ", checkpoint$folder, " on its hosts. States of an ",
    "earlier attempt are on a host without a rank now: pass a directory that the hosts share",
    call. = FALSE
  )
}
