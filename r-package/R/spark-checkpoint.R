# SPDX-License-Identifier: Apache-2.0
#
# What outlives an attempt: rank 0 writes states, and after a restart all ranks get the last one. A
# folder has the last states, one a file, with a rising number in its name. A file is a parcel,
# which tells at its end what it is and how long, so one that was not written to its end, on a file
# system that cannot rename, is told from a whole one, and the one before it counts.
#
# A new attempt may have its rank 0 on another host. So every rank looks into the folder as it sees
# it, and the one with the newest state sends it. Python's sparkring.spark.Checkpoint does the same.

checkpoint_kept <- 2L # states in a folder
checkpoint_names <- "^state-([0-9]{12})[.]rds$"

#' Checkpoints: save a state that outlives a failure, and restore it
#'
#' With `max_restarts`, [ring_apply()] and [ring_run()] launch all ranks again after one has failed,
#' and what they had computed is lost. A checkpoint keeps it:
#' * `ring_save()` writes a state; rank 0 does, and the others return at once. The state before
#'   stays until this one is whole, and nothing waits for the other ranks.
#' * `ring_restore()` gives every rank the newest state that is whole, from the same bytes. All
#'   ranks call it.
#'
#' A state is on the disk when `ring_save()` returns, in a file that gets its name when it is whole.
#' The last two stay; [readRDS()] reads them, too.
#'
#' @section Security:
#' States are read as [unserialize()] does, so whoever can write to the folder can have the ranks
#' run code. Ranks without a token cannot restore, as with [ring_broadcast_object()].
#'
#' @inheritParams ring_rank
#' @param path A folder, which need not exist: of this host, or shared by the hosts, such as one of
#'   NFS, or a mounted object store. It is for this job alone. A folder of one host is found again
#'   while a rank runs there. On Spark the path is absolute, as each executor has a working
#'   directory of its own.
#' @param checkpoint What `ring_checkpoint()` has returned.
#' @param state Any R value; looked at on rank 0 only.
#' @param default What to return when there is no state.
#' @returns `ring_checkpoint()`: an object of class `ring_checkpoint`. `ring_save()`: `NULL`,
#'   invisibly. `ring_restore()`: the state.
#' @section Errors:
#' `ring_error_invalid` for a path that no later attempt could find. `ring_error_system` where a
#' state cannot be written, on rank 0; the communicator goes on. Where one cannot be read, all ranks
#' get an error.
#' @seealso [ring_attempt()]
#' @examples
#' # Two processes of this machine; rank 1 is killed in the first attempt.
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
  ring_rank(comm)
  folder <- checkpoint_folder(path)
  structure(list2env(list(comm = comm, folder = folder, last = NULL)), class = "ring_checkpoint")
}

#' @rdname ring_checkpoint
#' @export
ring_save <- function(checkpoint, state) {
  check_checkpoint(checkpoint)
  if (ring_rank(checkpoint$comm) != 0L) return(invisible())
  if (is.null(checkpoint$last)) checkpoint$last <- max(-1, checkpoint_numbers(checkpoint))
  number <- checkpoint$last + 1
  bytes <- codec_of_value(state)
  dir.create(checkpoint$folder, showWarnings = FALSE, recursive = TRUE)
  path <- checkpoint_path(checkpoint, number)
  begun <- file.path(checkpoint$folder, paste0("new-", basename(path)))
  .Call(C_checkpoint_write, checkpoint$folder, begun, path, bytes)
  checkpoint$last <- number
  numbers <- checkpoint_numbers(checkpoint)
  unlink(checkpoint_path(checkpoint, numbers[numbers <= number - checkpoint_kept]))
  invisible()
}

#' @rdname ring_checkpoint
#' @export
ring_restore <- function(checkpoint, default = NULL) {
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
      checkpoint_doubt(checkpoint)
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
    check_stop("`path` must be the folder of the checkpoint, as one string, not ", describe(path))
  }
  if (grepl("^[A-Za-z][A-Za-z0-9+.-]+:/", path)) {
    check_stop("the path ", path, " is a URL: pass a folder, such as one where that is mounted")
  }
  path <- path.expand(path)
  if (startsWith(path, "/")) return(path)
  if (rank_state$executor) {
    check_stop(
      "the path ", path, " is relative, and each executor has a working directory of its own, ",
      "which a new attempt would not find: pass an absolute path, best of a folder that the hosts ",
      "share"
    )
  }
  file.path(getwd(), path)
}

check_checkpoint <- function(x) {
  if (inherits(x, "ring_checkpoint")) return()
  check_stop("`checkpoint` must be what ring_checkpoint() returns, not ", describe(x))
}

checkpoint_path <- function(checkpoint, numbers) {
  file.path(checkpoint$folder, sprintf("state-%012.0f.rds", numbers))
}

# Of the states that this rank sees.
checkpoint_numbers <- function(checkpoint) {
  names <- list.files(checkpoint$folder, checkpoint_names)
  as.double(sub(checkpoint_names, "\\1", names))
}

# NULL for a file that is not whole.
checkpoint_read <- function(path) {
  bytes <- tryCatch(
    readBin(path, "raw", file.size(path)),
    warning = function(warning) ring_stop("SYSTEM", conditionMessage(warning), call = NULL)
  )
  if (isTRUE(codec_start(bytes, length(bytes)) == 1)) bytes
}

# A state may be on a host without ranks.
checkpoint_doubt <- function(checkpoint) {
  attempt <- ring_attempt(checkpoint$comm)
  if (attempt == 0L || ring_rank(checkpoint$comm) != 0L) return()
  warning(
    "attempt ", attempt, " found no state in ", checkpoint$folder, " on its hosts. If an earlier ",
    "one has saved some, they are on a host without a rank now: pass a folder that the hosts share",
    call. = FALSE
  )
}
