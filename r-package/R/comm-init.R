# SPDX-License-Identifier: Apache-2.0

#' Initialise a communicator: find the other ranks of the job
#'
#' `ring_init()` opens a communicator: it finds the other processes of the job, proves that they
#' belong to it, and returns when all of them have met. Every rank calls it.
#'
#' There are three ways to say who the others are:
#' * `barrier`: the argument that `sparklyr::spark_apply(barrier = TRUE)` hands to its closure.
#' * `rank` and `addresses`, or `rank`, `size` and `root_address`.
#' * Nothing: the environment tells, as `sparkring-run`, Open MPI, MPICH, torchrun or Slurm set it
#'   up. Where none of them did, the process is a world of one, in which every call works as well;
#'   but for a task of `spark_apply(barrier = TRUE)` that is an error, as it forgot its `barrier`.
#'
#' A process opens one communicator at a time: close it before the next `ring_init()`.
#' [ring_comm_split()] makes others of it.
#'
#' @section Security:
#' With a `token`, only processes that know it can join. A communicator that was formed without one
#' says so when it is printed, and sends no objects ([ring_broadcast_object()]). Draw the token
#' once for each job, such as with `openssl::rand_bytes(32)`, and hand it to the closure as the
#' `context` of `sparklyr::spark_apply()`: variables of the top level are not sent with a closure.
#'
#' A token keeps strangers out, but whoever can listen on the network reads the data. With
#' `encryption = TRUE` they cannot: links between hosts are then TLS, and printing the communicator
#' shows `encrypted`; in the workers of a Spark that encrypts its own traffic that is the default.
#' Who talks to whom, when and how much is no secret in either case.
#'
#' @param barrier A list of `address`, a character vector or list of strings with the address of
#'   every task in order of their partitions, and `partition`, the number of this one, from 0.
#' @param ... Must be empty: what follows is given by name.
#' @param rank This process, from 0 to `size - 1`.
#' @param size The number of ranks. `NULL`: the number of addresses.
#' @param addresses The host of every rank, in rank order: `"host"`, `"host:port"` or
#'   `"[v6]:port"`. Ports are ignored.
#' @param root_address The host of rank 0, where those of the others are unknown.
#' @param token The job's shared secret: a string or a raw vector, of at least 16 random bytes.
#'   `NULL`: none or, when the environment tells who the ranks are, that of the file which
#'   `SPARKRING_TOKEN_FILE` names, or that in `SPARKRING_TOKEN`.
#' @param job A string that tells jobs apart which share addresses and token.
#' @param ports The first and the last port to listen on, such as `c(5000, 5099)`. `NULL`: rank 0
#'   is found on a port from 21000 to 31999, and everything else uses any free port; or, when the
#'   environment tells who the ranks are, `SPARKRING_PORTS`.
#' @param timeout Seconds until all ranks must have met. `NULL`: 300 or, when the environment tells
#'   who the ranks are, `SPARKRING_TIMEOUT`.
#' @param call_timeout Seconds that a later call may wait for other ranks with nothing moving.
#' @param warn_after Seconds after which a call that waits says so, with the ranks that it waits for
#'   and what they did last, and again after twice as long: a [message()] of class `ring_stall`,
#'   which R prints at once. 0 for none. `NULL`: the variable `SPARKRING_WARN_AFTER` or, if that is
#'   not set, 60.
#' @param algorithms A string with rules for the choice of algorithms, the same on every rank:
#'   see [ring_comm_explain()]. `NULL`: those of the variable `SPARKRING_ALGORITHM`, if it is set.
#' @param shared_memory `FALSE`: ranks of the same host do not share memory, in which large results
#'   are otherwise, and send everything through sockets. So does the variable
#'   `SPARKRING_SHARED_MEMORY=0`.
#' @param connections Connections of a link between two hosts, 1 to 16, the same on every rank: its bytes
#'   go over all of them, because one connection is often held to a part of what the network
#'   carries. `NULL`: the variable `SPARKRING_CONNECTIONS` or, if that is not set, 1. Within a host a
#'   link is one connection, unless connections are given and shared memory is turned off.
#' @param encryption Whether what ranks say to each other over the network is encrypted, the same on
#'   every rank: TLS 1.3 with a key that comes from `token`, which it needs. Memory that ranks of
#'   one host share is not the network. `NULL`: the variable `SPARKRING_ENCRYPTION`, 1 or 0, or, if
#'   that is not set, yes in a worker of a Spark that encrypts its own traffic
#'   (`spark.network.crypto.enabled`, `spark.ssl.rpc.enabled` or
#'   `spark.authenticate.enableSaslEncryption`), else no.
#'
#' @returns A communicator, of class `ring_comm`. It belongs to this process; one that is dropped
#'   without [ring_close()] is aborted when the garbage collector finds it, or when R ends.
#'
#' @section Interrupts:
#' Ctrl-C, and a limit of [setTimeLimit()], end every wait, here and in all that is called on the
#' communicator; `tryCatch(interrupt = )` sees it. The communicator is broken then, and the other
#' ranks are told. So does a handler that leaves the wait, such as `tryCatch(ring_stall = )`.
#'
#' With `barrier` every wait also ends when the process does that has started this one, which was
#' its parent when sparkring was loaded: without its executor a worker of Spark waits for nobody.
#' Calls and requests then fail with `ring_error_aborted`.
#'
#' @section Errors:
#' `ring_error_invalid` for arguments or variables that make no sense and for a second communicator;
#' `ring_error_timeout`, which names the ranks that are missing and the usual causes;
#' `ring_error_auth` when what answers cannot prove that it belongs to the job;
#' `ring_error_mismatch` when the ranks have different `algorithms`, `connections` or `encryption`. See
#' [ring_error].
#'
#' @inheritSection ring_alloc Forked processes
#'
#' @seealso [ring_apply()] and [ring_run()], which do it all on Spark; [ring_allreduce()],
#'   [ring_rank()], [ring_close()], [ring_comm_split()];
#'   `vignette("rendezvous")`, which lists all variables of the environment; `vignette("failures")`.
#' @examples
#' comm <- ring_init() # a world of one, unless a launcher says otherwise
#' comm
#' ring_allreduce(comm, c(a = 1, b = 2))
#' ring_close(comm)
#'
#' \dontrun{
#' # Needs Spark: the tasks of a barrier stage add up what each of them has.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' totals <- sparklyr::spark_apply(
#'   sparklyr::sdf_len(sc, 8, repartition = 4),
#'   function(df, context, barrier) {
#'     comm <- sparkring::ring_init(barrier, token = context$token)
#'     total <- sparkring::ring_allreduce(comm, as.double(sum(df$id))) # as in `columns`
#'     sparkring::ring_close(comm)
#'     data.frame(total = total)
#'   },
#'   context = list(token = openssl::rand_bytes(32)),
#'   columns = c(total = "double"),
#'   barrier = TRUE,
#'   packages = FALSE # the executors have sparkring
#' )
#' sparklyr::sdf_collect(totals)
#' }
#' @export
ring_init <- function(barrier = NULL, ..., rank = NULL, size = NULL, addresses = NULL,
                      root_address = NULL, token = NULL, job = NULL, ports = NULL,
                      timeout = NULL, call_timeout = 600, warn_after = NULL, algorithms = NULL,
                      shared_memory = TRUE, connections = NULL, encryption = NULL) {
  if (...length() > 0L) {
    ring_stop(
      "INVALID", "`...` must be empty: give every argument but `barrier` by its full name",
      call = quote(ring_init()) # what is in it may be the token
    )
  }
  if (!is.null(barrier)) {
    if (!is.null(c(rank, size, addresses, root_address))) {
      ring_stop("INVALID", paste(
        "`barrier` tells rank, size and addresses: give either it, or `rank`, `size`, `addresses`",
        "and `root_address`"
      ))
    }
    check_barrier(barrier)
    rank <- check_whole(barrier$partition, "barrier$partition", least = 0)
    addresses <- check_addresses(barrier$address, "barrier$address")
  } else if (is.null(c(rank, size, addresses, root_address))) {
    check_no_barrier()
  }
  if (is.null(encryption) && spark_encrypts_by_default()) {
    spark_check_token(token, rank, size, addresses)
    encryption <- TRUE
  }
  .Call(
    C_comm_open,
    check_whole(rank, "rank", least = 0, absent = -1L),
    check_whole(size, "size", least = 1, absent = 0L),
    check_addresses(addresses),
    check_string(root_address, "root_address"),
    check_token(token),
    check_string(job, "job"),
    check_ports(ports),
    check_seconds(timeout, "timeout"),
    check_seconds(call_timeout, "call_timeout"),
    check_warn_after(warn_after),
    check_string(algorithms, "algorithms"),
    check_flag(shared_memory, "shared_memory"),
    check_whole(connections, "connections", least = 1, absent = 0L),
    if (!is.null(encryption)) check_flag(encryption, "encryption"),
    !is.null(barrier)
  )
}

is_barrier <- function(x) is.list(x) && all(c("address", "partition") %in% names(x))

# Nothing tells this process who the others are, while sparklyr could: each task would be a world of
# one, and its sums its own.
check_no_barrier <- function() {
  if (rank_state$supervised || nzchar(Sys.getenv("SPARKRING_RANK"))) return()
  closure <- sparklyr_closure(sys.calls(), sys.frames())
  if (!closure$barrier) return()
  call <- sys.call(-1)
  check_closure(closure, call)
  check_stop(
    "this is a task of spark_apply(barrier = TRUE), but nothing says who the others are: take ",
    "`barrier`, function(df, ", if (closure$context) "context, ", "barrier), and pass it on, ",
    "ring_init(barrier)", call = call
  )
}

# What closures are called with from which no ring can come.
check_closure <- function(closure, call) {
  if (length(closure$groups) > 0L) {
    check_stop(
      "the closure is called once for each group of ", toString(closure$groups), ", and a task ",
      "has any number of these, so there can be no ring: leave out `group_by` of spark_apply(), ",
      "and group the rows in the closure", call = call
    )
  }
  if (closure$arrow) {
    check_stop(
      "the closure is called once for each batch of Arrow, and a task has any number of these, so ",
      "there can be no ring: pass `arrow = FALSE` to spark_apply(), or use ring_apply()",
      call = call
    )
  }
}

check_barrier <- function(barrier) {
  closure <- sparklyr_closure(sys.calls(), sys.frames())
  call <- sys.call(-1)
  check_closure(closure, call)
  if (is_barrier(barrier)) return(NULL)
  check_stop(
    "`barrier` must be a list with `address` and `partition`, as spark_apply(barrier = TRUE) ",
    "hands it to a closure of two arguments, function(df, barrier), or where `context` is given, ",
    "of three, function(df, context, barrier)",
    if (closure$context) ", and here it is given", call = call
  )
}

# How sparklyr has called this closure, as its worker's variables have it; nothing is known of them
# where it has not.
sparklyr_closure <- function(calls, frames) {
  ours <- vapply(calls, function(call) is.name(call[[1L]]), NA)
  names <- rep("", length(calls))
  names[ours] <- vapply(calls[ours], function(call) as.character(call[[1L]]), "")
  at <- match("spark_worker_execute_closure", names)
  if (is.na(at)) return(list(groups = NULL, arrow = FALSE, context = FALSE, barrier = FALSE))
  told <- function(name) get0(name, frames[[at]], inherits = FALSE)
  list(
    groups = unlist(told("grouped_by")),
    arrow = "spark_worker_apply_arrow" %in% names,
    context = !is.null(told("funcContext")$user_context),
    barrier = length(told("barrier_map")) > 0L
  )
}
