# SPDX-License-Identifier: Apache-2.0
#
# TensorFlow: TF_CONFIG, which its strategies for several workers read. TensorFlow's server sets
# SO_REUSEADDR before it binds, so it can bind a reserved port. Python's frameworks/_tensorflow.py
# does the same.

#' Configure TensorFlow, PyTorch, JAX, XGBoost or LightGBM for the ranks
#'
#' Frameworks that train on many processes need the addresses and ports of all processes. Each
#' function collects them from the ranks, for one framework. All ranks call the function, before the
#' framework starts.
#'
#' @details
#' * `ring_tf_config()` sets the environment variable `TF_CONFIG`, which TensorFlow's strategies for
#'   several workers read.
#' * `ring_torch_env()` sets the environment variables that PyTorch's `init_process_group()` reads.
#'   On several hosts it also sets `GLOO_SOCKET_IFNAME` and `TP_SOCKET_IFNAME` to the network
#'   interface that reaches the other hosts. The interface is known on Linux with IPv4 only. Without
#'   these variables Gloo and TensorPipe use the address of the host's name, which is often a
#'   loopback address (127.0.1.1). If the PyTorch of reticulate has only the CPU, it sets
#'   `ACCELERATE_USE_CPU`, by which Accelerate uses all ranks. A variable that is set already keeps
#'   its value.
#' * `ring_jax_config()` returns the arguments of `jax.distributed.initialize()`.
#' * `ring_xgboost_config()` starts XGBoost's tracker on rank 0, in the Python of reticulate. It
#'   returns the arguments of Python's `xgboost.collective.CommunicatorContext()`. The tracker runs
#'   on rank 0 until the next call of `ring_xgboost_config()` in this R session. The end of the
#'   session waits for at most 60 seconds until all ranks have finalized XGBoost's communicator.
#' * `ring_lightgbm_config()` returns LightGBM's network parameters. LightGBM cannot bind a reserved
#'   port, so the port is released before the function returns: start the training soon. Each host
#'   needs an IPv4 address.
#'
#' The functions reserve the ports, as [ring_port_reserve()] does, before any rank gets them. A port
#' stays reserved until the framework has bound it. XGBoost and LightGBM are the exceptions above.
#'
#' Environment variables are set in R. If reticulate runs Python in this session, they are also set
#' in Python's `os.environ`.
#'
#' @param comm A communicator, from [ring_init()]; or the `barrier` argument that
#'   `sparklyr::spark_apply(barrier = TRUE)` passes to its closure. With `barrier` the function
#'   opens a communicator for this call. That communicator's ports stay reserved until the next such
#'   call, or until R ends.
#' @param role The role of this rank, a string: `"worker"`, `"chief"`, `"ps"` (parameter server) or
#'   `"evaluator"`. At most one rank is the chief, and at most one is the evaluator. Without a
#'   chief, the first worker is the chief. The evaluator gets the addresses of the other ranks; the
#'   other ranks do not get the address of the evaluator.
#' @param ... With `barrier`: further arguments of [ring_init()], such as `token`. With a
#'   communicator `...` must be empty.
#' @returns A named list. `ring_torch_env()` returns the variables that it has set, as strings.
#'   `ring_jax_config()`, `ring_xgboost_config()` and `ring_lightgbm_config()` return arguments, as
#'   strings and integers. `ring_tf_config()` returns the content of `TF_CONFIG`: `cluster`, a list
#'   with a character vector of addresses for each role, and `task`, a list of `type`, the role of
#'   this rank, and `index`, its number among the ranks of the same role, from 0.
#' @section Errors:
#' As for [ring_allreduce()]. In addition, `ring_error_system` when no port is free,
#' `ring_error_invalid` for roles that cannot be combined, and `ring_error_unsupported` when rank 0
#' cannot run XGBoost's tracker. An error on one rank is an error on all ranks. On the other ranks
#' it is a `ring_error_invalid` with the rank, its host and its message.
#' @seealso [ring_ray_config()] for Ray, [ring_nccl_id()] for NCCL, [ring_gpus()] for the GPUs of a
#'   rank, and [ring_port_reserve()] for the ports of other servers.
#' @examples
#' comm <- ring_init()
#' str(ring_tf_config(comm))
#' str(ring_torch_env(comm))
#' ring_close(comm)
#'
#' \dontrun{
#' # Needs Spark and TensorFlow.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' workers <- sparklyr::sdf_len(sc, 4, repartition = 4)
#' trained <- sparklyr::spark_apply(workers, function(df, barrier) {
#'   sparkring::ring_tf_config(barrier)
#'   strategy <- tensorflow::tf$distribute$MultiWorkerMirroredStrategy()
#'   # Train here. Return a data frame with the columns of `columns`:
#'   data.frame(replicas = strategy$num_replicas_in_sync)
#' }, columns = c(replicas = "integer"), barrier = TRUE, packages = FALSE)
#' sparklyr::sdf_collect(trained)
#' }
#' @name ring_tf_config
NULL

#' @rdname ring_tf_config
#' @order 1
#' @export
ring_tf_config <- function(comm, role = "worker", ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    rows <- frameworks_gather(comm, 2L, function() {
      number <- match(check_string(role, "role"), tf_roles)
      if (length(number) != 1L || is.na(number)) {
        ring_stop("INVALID", paste0(
          "`role` must be one of ", toString(tf_roles), ", not ", describe(role)
        ))
      }
      c(number - 1L, if (role == "evaluator") 0L else ring_port_reserve(comm))
    })
    config <- tf_config(comm, tf_roles[rows[1L, ] + 1L], rows[2L, ])
    frameworks_set(list(TF_CONFIG = tf_config_json(config)))
    config
  })
}

tf_roles <- c("chief", "worker", "ps", "evaluator") # sent as numbers from 0

tf_config <- function(comm, roles, ports) {
  tf_check_roles(roles)
  serves <- roles != "evaluator"
  addresses <- mapply(frameworks_address, ring_hosts(comm), ports, USE.NAMES = FALSE)
  cluster <- split(addresses[serves], factor(roles[serves], unique(roles[serves])))
  rank <- ring_rank(comm)
  role <- roles[[rank + 1L]]
  list(cluster = cluster, task = list(type = role, index = sum(roles[seq_len(rank)] == role)))
}

tf_check_roles <- function(roles) {
  for (role in c("chief", "evaluator")) {
    ranks <- which(roles == role) - 1L
    if (length(ranks) > 1L) {
      ring_stop("INVALID", sprintf(
        "ranks %d and %d are both %s: only one can be", ranks[[1L]], ranks[[2L]], role
      ))
    }
  }
  if (!any(c("chief", "worker") %in% roles)) {
    ring_stop("INVALID", "no rank is chief or worker: at least one must be")
  }
}

tf_config_json <- function(config) {
  quoted <- function(x) paste0("\"", gsub("([\\\\\"])", "\\\\\\1", x), "\"")
  jobs <- vapply(config$cluster, function(job) paste(quoted(job), collapse = ", "), "")
  sprintf(
    "{\"cluster\": {%s}, \"task\": {\"type\": %s, \"index\": %d}}",
    paste0(quoted(names(jobs)), ": [", jobs, "]", collapse = ", "),
    quoted(config$task$type), config$task$index
  )
}
