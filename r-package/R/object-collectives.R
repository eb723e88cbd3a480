# SPDX-License-Identifier: Apache-2.0
#
# Collectives for any R value. Each makes two collective calls of the core: one for the lengths of
# the encoded objects, one for the objects. An error of a value is found before the first call and
# raised after the second, so the ranks stay in step and the communicator stays usable.

#' Broadcast, gather or send any R object
#'
#' These do with any R value what their namesakes do with vectors: data frames, lists, models,
#' functions, `NULL`.
#'
#' * `ring_broadcast_object()` gives every rank the value of `root`.
#' * `ring_allgather_object()` gives every rank the values of all, and `ring_gather_object()` gives
#'   them to `root`.
#' * `ring_scatter_object()` gives every rank a value of its own, which `root` has.
#' * `ring_alltoall_object()` gives every rank a value of each.
#' * `ring_allreduce_object()` gives every rank the values of all and works out
#'   `op(op(x0, x1), x2)` and so on, in rank order, on every rank. For numbers
#'   [ring_allreduce()] is far faster.
#' * `ring_send_object()` sends a value to one other rank, which calls `ring_recv_object()`.
#'
#' Values travel as [serialize()] makes them, so the usual exceptions apply: connections and
#' external pointers do not survive the journey, and a function takes its environment along, but
#' for the global one. Ranks in R and in Python cannot read each other's objects, and say so;
#' neither can machines of different byte order.
#'
#' @section Security:
#' Reading a value can run code that its sender chose. So ranks without a token, where nobody knows
#' who they are, cannot send objects; those with one should trust each other.
#'
#' @inheritParams ring_rank
#' @param x Any R value. `ring_broadcast_object()` looks at it on `root` only.
#' @param root The rank that sends, or gets the result.
#' @param xs A list with one value for each rank, in rank order. `ring_scatter_object()` looks at it
#'   on `root` only.
#' @param op A function of two values, the same on every rank.
#' @param peer The other rank.
#' @returns A value, or for `ring_allgather_object()`, `ring_gather_object()` and
#'   `ring_alltoall_object()` a list with one of each rank, in rank order. `ring_gather_object()`
#'   returns `NULL` on the ranks other than `root`, and `ring_send_object()`, invisibly, always.
#' @section Errors:
#' `ring_error_invalid` for arguments that make no sense and without a token, before anything is
#' sent. Also where the value of another rank is missing, as that rank could not serialise it, or
#' cannot be read: `rank` tells whose. The rank that could not serialise gets the error of
#' [serialize()]. The communicator goes on. All others as for [ring_allreduce()].
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
ring_allgather_object <- function(comm, x) object_allgather(comm, x, sys.call())

object_allgather <- function(comm, x, call) {
  check_object_comm(comm, call)
  mine <- codec_pack(list(x), 1L, call)
  gathered <- ring_allgatherv(comm, mine$bytes)
  codec_unpack(gathered, object_ranks(comm), call, mine$failure)
}

#' @rdname ring_broadcast_object
#' @export
ring_gather_object <- function(comm, x, root = 0) {
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
ring_scatter_object <- function(comm, xs, root = 0) {
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
  call <- sys.call()
  check_object_comm(comm, call)
  mine <- codec_pack(xs, ring_size(comm), call)
  received <- ring_alltoallv(comm, mine$bytes, mine$counts)
  codec_unpack(received, object_ranks(comm), call, mine$failure)
}

#' @rdname ring_broadcast_object
#' @export
ring_allreduce_object <- function(comm, x, op = `+`) {
  if (!is.function(op)) {
    ring_stop("INVALID", paste0("`op` must be a function of two values, not ", describe(op)))
  }
  Reduce(op, object_allgather(comm, x, sys.call()))
}

#' @rdname ring_broadcast_object
#' @export
ring_send_object <- function(comm, x, peer) {
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
