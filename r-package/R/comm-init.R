# SPDX-License-Identifier: Apache-2.0

#' Initialize a communicator: find the other ranks of the job
#'
#' `ring_init()` opens a communicator. It connects to the other processes of the job, the ranks, and
#' checks that they belong to the job. It returns when all ranks have connected; that phase is
#' called the rendezvous. Every rank calls it.
#'
#' There are three ways to specify the ranks:
#' * `barrier`: the argument that `sparklyr::spark_apply(barrier = TRUE)` passes to its closure.
#' * `rank` and `addresses`, or `rank`, `size` and `root_address`.
#' * None of these arguments: `ring_init()` reads the environment variables that `sparkring-run`,
#'   Open MPI, MPICH, torchrun or Slurm sets. Without a launcher the communicator has one rank, and
#'   every call works. In a task of `spark_apply(barrier = TRUE)`, a call without arguments is an
#'   error: each task would be alone.
#'
#' A process opens one communicator at a time: close it before the next `ring_init()`.
#' [ring_comm_split()] makes further communicators from an open one.
#'
#' @section Security:
#' With a `token`, only processes that have the token can join. A communicator without a token shows
#' `NOT authenticated` when it is printed, and sends no objects ([ring_broadcast_object()]). Draw
#' the token once for each job, such as with `openssl::rand_bytes(32)`. Pass it to the closure as
#' the `context` of `sparklyr::spark_apply()`, because variables of the global environment are not
#' sent with a closure.
#'
#' A token keeps other processes out. It does not hide the data: every program that can read the
#' network traffic can read them. With `encryption = TRUE`, links between hosts are TLS, and the
#' communicator shows `encrypted` when it is printed. Encryption is the default in the workers of a
#' Spark that encrypts its own traffic. The addresses, times and sizes of the traffic are visible in
#' either case.
#'
#' @param barrier A list with two elements. `address` is a character vector, or a list of strings,
#'   with the address of every task in the order of the partitions. `partition` is the number of
#'   this task, from 0. `NULL`: the ranks are specified in another way.
#' @param ... Must be empty. All further arguments must be named.
#' @param rank The rank of this process, a whole number from 0 to `size - 1`. `NULL`: from `barrier`
#'   or the environment.
#' @param size The number of ranks, a whole number. `NULL`: the number of addresses.
#' @param addresses The hosts of all ranks, in rank order, a character vector: `"host"`,
#'   `"host:port"` or `"[v6]:port"`. Ports are ignored. `NULL`: from `barrier` or the environment.
#' @param root_address The host of rank 0, a string. For use without `addresses`, with `rank` and
#'   `size`.
#' @param token The shared secret of the job: a string or a raw vector, with at least 16 random
#'   bytes. `NULL`: no token. If the ranks are specified by the environment, `NULL` is the content
#'   of the file that `SPARKRING_TOKEN_FILE` names, or else `SPARKRING_TOKEN`.
#' @param job A string that distinguishes jobs with the same addresses and token. `NULL`: empty.
#' @param ports The ports to listen on: the first and the last port of a range, such as
#'   `c(5000, 5099)`. `NULL`: rank 0 listens on a port from 21000 to 31999, and all other sockets
#'   use any free port. If the ranks are specified by the environment, `NULL` is `SPARKRING_PORTS`.
#' @param timeout The time limit of the rendezvous, in seconds. `NULL`: 300. If the ranks are
#'   specified by the environment, `NULL` is `SPARKRING_TIMEOUT`.
#' @param call_timeout The time limit of a later call, in seconds: how long the call may wait for
#'   other ranks without any progress.
#' @param warn_after The seconds after which a call that still waits reports the missing ranks and
#'   their last calls. It reports again after twice as long each time. A report is a [message()] of
#'   class `ring_stall`, which R prints at once. 0: no reports. `NULL`: the variable
#'   `SPARKRING_WARN_AFTER` or, if it is not set, 60.
#' @param algorithms A string with rules for the choice of algorithms, the same on every rank: see
#'   [ring_comm_explain()]. `NULL`: the rules of the variable `SPARKRING_ALGORITHM`, if it is set.
#' @param shared_memory `TRUE`: ranks of the same host share memory, which holds large results.
#'   `FALSE`: ranks of the same host send everything through sockets. The variable
#'   `SPARKRING_SHARED_MEMORY=0` has the effect of `FALSE`.
#' @param connections The number of TCP connections of a link between two hosts, a whole number from
#'   1 to 16, the same on every rank. A link uses all its connections at once. Several connections
#'   help where the network limits the bandwidth of one. `NULL`: the variable
#'   `SPARKRING_CONNECTIONS` or, if it is not set, 1. Within a host a link has one connection,
#'   unless `connections` is given and `shared_memory` is `FALSE`.
#' @param encryption Whether links between hosts are encrypted, `TRUE` or `FALSE`, the same on every
#'   rank. Encryption is TLS 1.3 with a key from `token`, so it requires a token. Shared memory is
#'   not encrypted. `NULL`: the variable `SPARKRING_ENCRYPTION`, 1 or 0. If it is not set, `NULL` is
#'   `TRUE` in a worker of a Spark that encrypts its own traffic (`spark.network.crypto.enabled`,
#'   `spark.ssl.rpc.enabled` or `spark.authenticate.enableSaslEncryption`), else `FALSE`.
#' @param backend What carries collectives out, the same on every rank: `"native"`, or `"mpi"` for
#'   the MPI library of the `mpirun` or `srun` that has started the ranks, on networks that
#'   sparkring does not drive itself. MPI is loaded at run time, and initialized where the program
#'   has not done so. Messages, and all else that is no collective, use the links of sparkring in
#'   any case. With MPI `call_timeout` is for the whole call, and MPI encrypts nothing. After an
#'   error of a communicator end the process: MPI may still use the vectors of the call, whose
#'   result is not freed any more. `NULL`: the variable `SPARKRING_BACKEND` or, if it is not set,
#'   `"native"`.
#' @param timeline A directory for the timelines of the ranks, the same on every rank, as for
#'   [ring_timeline_start()]. `NULL`: the variable `SPARKRING_TIMELINE`, if it is set. `""`: none.
#'
#' @returns A communicator, an object of class `ring_comm`. It belongs to this process. A
#'   communicator that was not closed by [ring_close()] is aborted when the garbage collector finds
#'   it, or when R ends.
#'
#' @section Interrupts:
#' Ctrl-C, or a time limit of [setTimeLimit()], ends a call that waits. `tryCatch(interrupt = )`
#' catches the interrupt. The communicator is broken then, and the calls of the other ranks fail. A
#' handler that leaves the call, such as `tryCatch(ring_stall = )`, has the same effect.
#'
#' With `barrier`, every call that waits also ends when the parent of this process ends, such as the
#' executor of a Spark worker. Calls and requests then fail with `ring_error_aborted`. The parent is
#' the parent process at the time when sparkring was loaded.
#'
#' @section Errors:
#' * `ring_error_invalid`: an argument or environment variable is invalid, or this process has an
#'   open communicator already.
#' * `ring_error_timeout`: the rendezvous was not complete in time. The message has the missing
#'   ranks and the usual causes.
#' * `ring_error_auth`: a peer cannot prove that it belongs to the job.
#' * `ring_error_mismatch`: the ranks have different `algorithms`, `connections`, `encryption` or
#'   `backend`.
#' * `ring_error_unsupported`: `backend` is `"mpi"` and a rank has no MPI library, not that of the
#'   launcher, or no launcher of MPI.
#'
#' See [ring_error] for the other classes.
#'
#' @inheritSection ring_alloc Forked processes
#'
#' @seealso [ring_apply()] and [ring_run()], which open and close the communicator on Spark;
#'   [ring_allreduce()], [ring_rank()], [ring_close()], [ring_comm_split()];
#'   `vignette("rendezvous")`, which lists all variables of the environment; `vignette("failures")`.
#' @examples
#' comm <- ring_init() # one rank, without a launcher
#' comm
#' ring_allreduce(comm, c(a = 1, b = 2))
#' ring_close(comm)
#'
#' \dontrun{
#' # Needs Spark: the tasks of a barrier stage sum the values of all tasks.
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
                      shared_memory = TRUE, connections = NULL, encryption = NULL,
                      backend = NULL, timeline = NULL) {
  if (...length() > 0L) {
    ring_stop(
      "INVALID", "`...` must be empty: name all arguments except `barrier`, by their full names",
      call = quote(ring_init()) # without its arguments, which may hold the token
    )
  }
  if (!is.null(barrier)) {
    if (!is.null(c(rank, size, addresses, root_address))) {
      ring_stop("INVALID", paste(
        "`barrier` has rank, size and addresses already: pass either `barrier`, or `rank`, `size`,",
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
  timeline <- timeline_directory(timeline)
  comm <- .Call(
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
    !is.null(barrier),
    check_string(backend, "backend")
  )
  timeline_begin(comm, timeline)
  comm
}

is_barrier <- function(x) is.list(x) && all(c("address", "partition") %in% names(x))

# Refuses a communicator of one rank in a barrier task of sparklyr: each task would compute a sum of
# its own.
check_no_barrier <- function() {
  if (run_state$supervised || nzchar(Sys.getenv("SPARKRING_RANK"))) return()
  closure <- sparklyr_closure(sys.calls(), sys.frames())
  if (!closure$barrier) return()
  call <- sys.call(-1)
  check_closure(closure, call)
  check_stop(
    "this is a task of spark_apply(barrier = TRUE), and ring_init() has no `barrier`: give the ",
    "closure the argument, function(df, ", if (closure$context) "context, ", "barrier), and call ",
    "ring_init(barrier)", call = call
  )
}

# Refuses closures that sparklyr calls more than once in a task: no ring can form from them.
check_closure <- function(closure, call) {
  if (length(closure$groups) > 0L) {
    check_stop(
      "spark_apply() calls the closure once for each group of ", toString(closure$groups),
      ", and tasks differ in their number of groups, so no ring can form: leave out `group_by` of ",
      "spark_apply(), and group the rows in the closure", call = call
    )
  }
  if (closure$arrow) {
    check_stop(
      "spark_apply() calls the closure once for each batch of Arrow, and tasks differ in their ",
      "number of batches, so no ring can form: pass `arrow = FALSE` to spark_apply(), or use ",
      "ring_apply()", call = call
    )
  }
}

check_barrier <- function(barrier) {
  closure <- sparklyr_closure(sys.calls(), sys.frames())
  call <- sys.call(-1)
  check_closure(closure, call)
  if (is_barrier(barrier)) return(NULL)
  check_stop(
    "`barrier` must be a list with `address` and `partition`. spark_apply(barrier = TRUE) passes ",
    "it as the last argument of the closure: ",
    if (closure$context) "write function(df, context, barrier), as `context` is given" else
      "write function(df, barrier), or function(df, context, barrier) if `context` is given",
    call = call
  )
}

# How sparklyr has called this closure, by the variables of its worker. Without sparklyr all
# elements are empty.
sparklyr_closure <- function(calls, frames) {
  ours <- vapply(calls, function(call) is.name(call[[1L]]), NA)
  names <- rep("", length(calls))
  names[ours] <- vapply(calls[ours], function(call) as.character(call[[1L]]), "")
  at <- match("spark_worker_execute_closure", names)
  if (is.na(at)) return(list(groups = NULL, arrow = FALSE, context = FALSE, barrier = FALSE))
  variable <- function(name) get0(name, frames[[at]], inherits = FALSE)
  list(
    groups = unlist(variable("grouped_by")),
    arrow = "spark_worker_apply_arrow" %in% names,
    context = !is.null(variable("funcContext")$user_context),
    barrier = length(variable("barrier_map")) > 0L
  )
}
