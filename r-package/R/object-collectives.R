# SPDX-License-Identifier: Apache-2.0
#
# Collectives for any R value. Each makes two calls of the core: one for the lengths of the encoded
# objects, one for the objects. A rank detects an error of its value before the first call and
# raises it after the second call. So all ranks make the same calls, and the communicator stays
# usable.

#' Broadcast, gather or send any R object
#'
#' These functions send any R value: data frames, lists, models, functions, `NULL`. Vectors and
#' arrays of numbers are sent faster by the functions without `_object`, such as [ring_broadcast()].
#'
#' @details
#' * `ring_broadcast_object()`: every rank gets the value of `root`.
#' * `ring_allgather_object()`: every rank gets the values of all ranks. `ring_gather_object()`:
#'   only `root` gets them.
#' * `ring_scatter_object()`: rank r gets the value `r + 1` of the list `xs` of `root`.
#' * `ring_alltoall_object()`: rank r gets the value `r + 1` of the list `xs` of every rank.
#' * `ring_allreduce_object()`: every rank gets the values of all ranks, and computes
#'   `op(op(x0, x1), x2)` and so on, in rank order.
#' * `ring_send_object()` sends a value to one other rank, and `ring_recv_object()` receives it
#'   there.
#'
#' Values are sent as the bytes of [serialize()], with its limits. Connections and external pointers
#' cannot be used on the other rank. A function is sent with its environment, unless that is the
#' global environment. Ranks in R and ranks in Python cannot read each other's objects, and neither
#' can machines of different byte order: the receiver gets an error.
#'
#' @section Security:
#' Reading a value can run code of the sender. So all ranks need a token: see [ring_init()]. Without
#' a token these functions raise an error. Ranks with the same token must trust each other.
#'
#' @inheritParams ring_rank
#' @param x Any R value. `ring_broadcast_object()` ignores it on ranks other than `root`.
#' @param root The rank that sends the value or gets the result, a whole number from 0.
#' @param xs A list with one value for each rank, in rank order. `ring_scatter_object()` ignores it
#'   on ranks other than `root`.
#' @param op A function of two values that returns one value, the same function on every rank.
#' @param peer The other rank, a whole number from 0.
#' @returns `ring_allgather_object()`, `ring_gather_object()` and `ring_alltoall_object()` return a
#'   list with one value of each rank, in rank order. `ring_gather_object()` returns `NULL` on the
#'   ranks other than `root`. `ring_send_object()` returns `NULL`, invisibly. The other functions
#'   return one value.
#' @section Errors:
#' `ring_error_invalid` for an invalid argument, or without a token. Nothing was sent then. If a
#' rank cannot serialize its value, that rank gets the error of [serialize()], and its receivers get
#' `ring_error_invalid`. So does a rank that cannot read a value. In the condition `rank` is the
#' rank of the value. The communicator stays usable. So it does after the `ring_error_mismatch` of
#' `ring_allreduce_object()` with functions that differ. Other errors as for [ring_allreduce()].
#' @seealso [ring_broadcast()], [ring_allgather()], [ring_scatter()], [ring_alltoall()],
#'   [ring_allreduce()] and [ring_send()], for vectors and arrays.
#' @examples
#' comm <- ring_init()
#' ring_broadcast_object(comm, list(rate = 0.1, layers = c("a", "b")))
#' ring_allgather_object(comm, letters[seq_len(ring_rank(comm))])
#' ring_gather_object(comm, data.frame(rank = ring_rank(comm)), root = 0)
#' ring_scatter_object(comm, as.list(seq_len(ring_size(comm))))
#' ring_alltoall_object(comm, as.list(seq_len(ring_size(comm))))
#' ring_allreduce_object(comm, data.frame(rank = ring_rank(comm)), op = rbind)
#' ring_close(comm)
#' @export
ring_broadcast_object <- function(comm, x, root = 0) {
  check_given(comm, x)
  call <- sys.call()
  root <- check_whole(root, "root", least = 0)
  check_object_comm(comm, call)
  mine <- object_pack_on_root(comm, list(x), 1L, root, call)
  count <- ring_broadcast(comm, mine$counts, root)
  bytes <- ring_broadcast(comm, if (ring_rank(comm) == root) mine$bytes else raw(count), root)
  codec_unpack(bytes, root, call, mine$failure)[[1L]]
}

#' @rdname ring_broadcast_object
#' @export
ring_allgather_object <- function(comm, x) {
  check_given(comm, x)
  object_allgather(comm, x, sys.call())
}

object_allgather <- function(comm, x, call) {
  check_object_comm(comm, call)
  mine <- codec_pack(list(x), 1L, call)
  gathered <- ring_allgatherv(comm, mine$bytes)
  codec_unpack(gathered, object_ranks(comm), call, mine$failure)
}

#' @rdname ring_broadcast_object
#' @export
ring_gather_object <- function(comm, x, root = 0) {
  check_given(comm, x)
  call <- sys.call()
  root <- check_whole(root, "root", least = 0)
  check_object_comm(comm, call)
  mine <- codec_pack(list(x), 1L, call)
  gathered <- ring_gatherv(comm, mine$bytes, root)
  if (is.null(gathered) && is.null(mine$failure)) return(NULL)
  codec_unpack(gathered, object_ranks(comm), call, mine$failure)
}

#' @rdname ring_broadcast_object
#' @export
ring_scatter_object <- function(comm, xs = NULL, root = 0) {
  check_given(comm)
  call <- sys.call()
  root <- check_whole(root, "root", least = 0)
  check_object_comm(comm, call)
  mine <- object_pack_on_root(comm, xs, ring_size(comm), root, call)
  counts <- ring_broadcast(comm, mine$counts, root)
  part <- ring_scatterv(comm, mine$bytes, counts, root)
  codec_unpack(part, root, call, mine$failure)[[1L]]
}

#' @rdname ring_broadcast_object
#' @export
ring_alltoall_object <- function(comm, xs) {
  check_given(comm, xs)
  call <- sys.call()
  check_object_comm(comm, call)
  mine <- codec_pack(xs, ring_size(comm), call)
  received <- ring_alltoallv(comm, mine$bytes, mine$counts)
  codec_unpack(received, object_ranks(comm), call, mine$failure)
}

#' @rdname ring_broadcast_object
#' @export
ring_allreduce_object <- function(comm, x, op = `+`) {
  check_given(comm, x)
  if (!is.function(op)) {
    ring_stop("INVALID", paste0("`op` must be a function of two values, not ", describe(op)))
  }
  call <- sys.call()
  source <- paste(deparse(op, control = NULL), collapse = "\n")
  given <- object_allgather(comm, list(op = source, x = x), call)
  other <- which(vapply(given, `[[`, "", "op") != given[[1L]]$op)
  if (length(other) > 0L) {
    rank <- other[[1L]] - 1L
    text <- paste0("rank ", rank, " passes another function as `op` than rank 0: pass the same ",
                   "function on every rank")
    ring_stop("MISMATCH", text, rank, call = call)
  }
  Reduce(op, lapply(given, `[[`, "x"))
}

#' @rdname ring_broadcast_object
#' @export
ring_send_object <- function(comm, x, peer) {
  check_given(comm, x, peer)
  call <- sys.call()
  peer <- check_whole(peer, "peer", least = 0)
  check_object_comm(comm, call)
  mine <- codec_pack(list(x), 1L, call)
  ring_send(comm, mine$counts, peer)
  ring_send(comm, mine$bytes, peer)
  if (!is.null(mine$failure)) stop(mine$failure)
  invisible(NULL)
}

#' @rdname ring_broadcast_object
#' @export
ring_recv_object <- function(comm, peer) {
  check_given(comm, peer)
  call <- sys.call()
  peer <- check_whole(peer, "peer", least = 0)
  check_object_comm(comm, call)
  count <- ring_recv(comm, double(1), peer)
  bytes <- ring_recv(comm, raw(count), peer)
  codec_unpack(bytes, peer, call)[[1L]]
}

object_ranks <- function(comm) seq_len(ring_size(comm)) - 1L

object_pack_on_root <- function(comm, xs, count, root, call) {
  if (ring_rank(comm) == root) return(codec_pack(xs, count, call))
  list(bytes = raw(), counts = double(count))
}

check_object_comm <- function(comm, call) {
  if (ring_size(comm) == 1L || .Call(C_comm_authenticated, comm)) return(NULL)
  check_stop(
    "the ranks have no token, so any program that reaches their ports could send an object, and ",
    "reading an object can run any code: pass the same `token` to ring_init() on every rank or, ",
    "under a launcher, in the file that SPARKRING_TOKEN_FILE names",
    call = call
  )
}
