# SPDX-License-Identifier: Apache-2.0

#' Initialise a communicator: find the other ranks of the job
#'
#' `ring_init()` opens a communicator: it finds the other processes of the job, proves that they
#' belong to it, and returns when the rendezvous of all is complete. Every rank calls it.
#'
#' There are three ways to name the other ranks:
#' * `barrier`: the argument that `sparklyr::spark_apply(barrier = TRUE)` passes to its closure.
#' * `rank` and `addresses`, or `rank`, `size` and `root_address`.
#' * Nothing: `ring_init()` reads the environment, as `sparkring-run`, Open MPI, MPICH, torchrun or
#'   Slurm set it. Where no launcher has set it, the process is a world of one, in which every call
#'   works as well. In a task of `spark_apply(barrier = TRUE)` that is an error, because the task
#'   forgot its `barrier`.
#'
#' A process opens one communicator at a time: close it before the next `ring_init()`.
#' [ring_comm_split()] makes others of it.
#'
#' @section Security:
#' With a `token`, only processes that know it can join. A communicator without a token shows that
#' when it is printed, and sends no objects ([ring_broadcast_object()]). Draw the token once for
#' each job, such as with `openssl::rand_bytes(32)`, and pass it to the closure as the `context` of
#' `sparklyr::spark_apply()`: variables of the top level are not sent with a closure.
#'
#' A token keeps other processes out, but anyone who can read the network traffic reads the data.
#' With `encryption = TRUE` links between hosts are TLS, and printing the communicator shows
#' `encrypted`. In the workers of a Spark that encrypts its own traffic that is the default. The
#' addresses, times and sizes of the traffic are visible in either case.
#'
#' @param barrier A list of `address`, a character vector or list of strings with the address of
#'   every task in order of their partitions, and `partition`, the number of this task, from 0.
#' @param ... Must be empty: give all further arguments by name.
#' @param rank The rank of this process, from 0 to `size - 1`.
#' @param size The number of ranks. `NULL`: the number of addresses.
#' @param addresses The host of every rank, in rank order: `"host"`, `"host:port"` or
#'   `"[v6]:port"`. Ports are ignored.
#' @param root_address The host of rank 0, where the hosts of the other ranks are unknown.
#' @param token The job's shared secret: a string or a raw vector, of at least 16 random bytes.
#'   `NULL`: none or, when the environment names the ranks, the content of the file
#'   `SPARKRING_TOKEN_FILE`, or `SPARKRING_TOKEN`.
#' @param job A string that tells jobs apart which share addresses and token.
#' @param ports The first and the last port to listen on, such as `c(5000, 5099)`. `NULL`: rank 0
#'   listens on a port from 21000 to 31999, and all other sockets on any free port; or, when the
#'   environment names the ranks, `SPARKRING_PORTS`.
#' @param timeout Seconds until the rendezvous of all ranks must be complete. `NULL`: 300 or, when
#'   the environment names the ranks, `SPARKRING_TIMEOUT`.
#' @param call_timeout Seconds that a later call may wait for other ranks without any progress.
#' @param warn_after Seconds after which a call that waits reports the ranks that it waits for and
#'   their last calls, and again after twice as long: a [message()] of class `ring_stall`, which R
#'   prints at once. 0 for none. `NULL`: the variable `SPARKRING_WARN_AFTER` or, if that is not set,
#'   60.
#' @param algorithms A string with rules for the choice of algorithms, the same on every rank:
#'   see [ring_comm_explain()]. `NULL`: those of the variable `SPARKRING_ALGORITHM`, if it is set.
#' @param shared_memory `FALSE`: ranks of the same host share no memory and send everything through
#'   sockets. The variable `SPARKRING_SHARED_MEMORY=0` does the same. By default large results are
#'   in shared memory.
#' @param connections The number of connections of a link between two hosts, 1 to 16, the same on
#'   every rank. Bytes go over all connections, because one connection is often held to a part of
#'   the network's bandwidth. `NULL`: the variable `SPARKRING_CONNECTIONS`, else 1. Within a host a
#'   link is one connection, unless `connections` is given and shared memory is turned off.
#' @param encryption Whether links over the network are encrypted, the same on every rank: TLS 1.3
#'   with a key that is derived from `token`, which is required. Memory that ranks of one host share
#'   is not encrypted. `NULL`: the variable `SPARKRING_ENCRYPTION`, 1 or 0, or, if that is not set,
#'   yes in a worker of a Spark that encrypts its own traffic (`spark.network.crypto.enabled`,
#'   `spark.ssl.rpc.enabled` or `spark.authenticate.enableSaslEncryption`), else no.
#'
#' @returns A communicator, of class `ring_comm`. It belongs to this process. A communicator that is
#'   dropped without [ring_close()] is aborted when the garbage collector finds it, or when R ends.
#'
#' @section Interrupts:
#' Ctrl-C, and a limit of [setTimeLimit()], end every wait in calls on the communicator;
#' `tryCatch(interrupt = )` sees it. The communicator is broken then, and the calls of the other
#' ranks fail. A handler that leaves the wait, such as `tryCatch(ring_stall = )`, has the same
#' effect.
#'
#' With `barrier` every wait also ends when the process that has started this one ends (the parent
#' when sparkring was loaded). Without its executor a worker of Spark need not wait. Calls and
#' requests then fail with `ring_error_aborted`.
#'
#' @section Errors:
#' `ring_error_invalid` for invalid arguments or variables and for a second communicator;
#' `ring_error_timeout`, which names the missing ranks and the usual causes; `ring_error_auth` when
#' a peer cannot prove that it belongs to the job; `ring_error_mismatch` when the ranks have
#' different `algorithms`, `connections` or `encryption`. See [ring_error].
#'
#' @inheritSection ring_alloc Forked processes
#'
#' @seealso [ring_apply()] and [ring_run()], which open and close the communicator on Spark;
#'   [ring_allreduce()], [ring_rank()], [ring_close()], [ring_comm_split()];
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
      call = quote(ring_init()) # without its arguments, which may hold the token
    )
  }
  if (!is.null(barrier)) {
    if (!is.null(c(rank, size, addresses, root_address))) {
      ring_stop("INVALID", paste(
        "`barrier` has rank, size and addresses: give either `barrier`, or `rank`, `size`,",
        "`addresses` and `root_address`"
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

# Refuses a world of one in a barrier task of sparklyr: each task would compute a sum of its own.
check_no_barrier <- function() {
  if (run_state$supervised || nzchar(Sys.getenv("SPARKRING_RANK"))) return()
  closure <- sparklyr_closure(sys.calls(), sys.frames())
  if (!closure$barrier) return()
  call <- sys.call(-1)
  check_closure(closure, call)
  check_stop(
    "this is a task of spark_apply(barrier = TRUE), but nothing names the other ranks: take ",
    "`barrier`, function(df, ", if (closure$context) "context, ", "barrier), and pass it on, ",
    "ring_init(barrier)", call = call
  )
}

# Refuses closures that sparklyr calls more than once in a task: no ring can form from them.
check_closure <- function(closure, call) {
  if (length(closure$groups) > 0L) {
    check_stop(
      "the closure is called once for each group of ", toString(closure$groups), ", and a task ",
      "has any number of groups, so no ring can form: leave out `group_by` of spark_apply(), ",
      "and group the rows in the closure", call = call
    )
  }
  if (closure$arrow) {
    check_stop(
      "the closure is called once for each batch of Arrow, and a task has any number of batches, ",
      "so no ring can form: pass `arrow = FALSE` to spark_apply(), or use ring_apply()",
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

# How sparklyr has called this closure, from the variables of its worker. Without sparklyr all is
# empty.
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
