# SPDX-License-Identifier: Apache-2.0
#
# Settings of frameworks that train on many processes. Python's sparkring.frameworks has the same,
# and explains how each framework binds its port. Ranks exchange numbers only: numbers need no
# token, and R and Python read them alike.

#' Configure TensorFlow, PyTorch, JAX, XGBoost or LightGBM for the ranks
#'
#' Frameworks that train on many processes need the addresses and ports of all processes. There is a
#' function for each framework. All ranks call it before the framework starts. Ports of servers are
#' reserved before any rank gets them, and held until the framework has bound them, as by
#' [ring_port_reserve()].
#'
#' * `ring_tf_config()` sets the variable `TF_CONFIG`, which TensorFlow's strategies for several
#'   workers read.
#' * `ring_torch_env()` sets the variables that PyTorch's `init_process_group()` reads. On several
#'   hosts it also sets `GLOO_SOCKET_IFNAME` and `TP_SOCKET_IFNAME` to the interface that reaches
#'   the other hosts, where it is known (Linux, IPv4). By themselves Gloo and TensorPipe take the
#'   address of the host's name, which other hosts often cannot reach (127.0.1.1). A variable that
#'   is set already is kept.
#' * `ring_jax_config()` returns the arguments of `jax.distributed.initialize()`.
#' * `ring_xgboost_config()` starts XGBoost's tracker on rank 0, in the Python of reticulate, and
#'   returns the arguments of Python's `xgboost.collective.CommunicatorContext()`. The tracker
#'   cannot bind a port that is held, so it runs before any rank gets its port. Rank 0 keeps it
#'   until the session's next call.
#' * `ring_lightgbm_config()` returns LightGBM's parameters of the network. LightGBM cannot bind a
#'   port that is held, so the port is released when all ranks have it: train soon. Hosts must have
#'   an IPv4 address.
#'
#' Variables are set in R's environment and, where reticulate runs Python in this session already,
#' in Python's `os.environ`, too.
#'
#' @param comm A communicator, from [ring_init()]. Or the `barrier` argument that
#'   `sparklyr::spark_apply(barrier = TRUE)` passes to its closure: then a communicator is opened
#'   for this call only. Its ports are held until the next such call, or the end of R.
#' @param role The role of this rank: `"worker"`, `"chief"`, `"ps"` (a parameter server) or
#'   `"evaluator"`. At most one rank is chief and one evaluator. Where none is chief, the first
#'   worker is. The evaluator gets the addresses of the other ranks, but they do not get its
#'   address.
#' @param ... With `barrier`: further arguments of [ring_init()], such as `token`. Else empty.
#' @returns A named list: the variables that were set, or the arguments. `ring_tf_config()` returns
#'   the list that it wrote as JSON: `cluster`, the addresses of every role, and `task`, the role of
#'   this rank and its `index` among the ranks of the same role.
#' @section Errors:
#' As for [ring_allreduce()]; `ring_error_system` when no port is free; `ring_error_invalid` for
#' impossible roles. An error on one rank, such as a missing port, is an error on all: on the other
#' ranks `ring_error_invalid`, with the rank, its host and its message.
#' @seealso [ring_ray_config()] for Ray, [ring_nccl_id()] for NCCL, and [ring_gpus()] for the GPUs
#'   of a rank.
#' @examples
#' comm <- ring_init()
#' str(ring_tf_config(comm))
#' str(ring_torch_env(comm))
#' ring_close(comm)
#'
#' \dontrun{
#' # Needs Spark and TensorFlow: one line configures a closure's TensorFlow.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' workers <- sparklyr::sdf_len(sc, 4, repartition = 4)
#' trained <- sparklyr::spark_apply(workers, function(df, barrier) {
#'   sparkring::ring_tf_config(barrier)
#'   strategy <- tensorflow::tf$distribute$MultiWorkerMirroredStrategy()
#'   # ... and what there is to return, as a data frame with these columns:
#'   data.frame(replicas = strategy$num_replicas_in_sync)
#' }, columns = c(replicas = "integer"), barrier = TRUE, packages = FALSE)
#' sparklyr::sdf_collect(trained)
#' }
#' @name ring_tf_config
NULL

#' @rdname ring_tf_config
#' @export
ring_tf_config <- function(comm, role = "worker", ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    rows <- frameworks_gather(comm, 2L, function() {
      number <- match(check_string(role, "role"), frameworks_roles)
      if (length(number) != 1L || is.na(number)) {
        ring_stop("INVALID", paste0(
          "`role` must be one of ", toString(frameworks_roles), ", not ", describe(role)
        ))
      }
      c(number - 1L, if (role == "evaluator") 0L else ring_port_reserve(comm))
    })
    config <- tf_config(comm, frameworks_roles[rows[1L, ] + 1L], rows[2L, ])
    frameworks_set(list(TF_CONFIG = tf_config_json(config)))
    config
  })
}

#' @rdname ring_tf_config
#' @export
ring_torch_env <- function(comm, ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    port <- frameworks_root_port(comm)
    hosts <- unique(ring_hosts(comm))
    variables <- list(
      MASTER_ADDR = hosts[[1L]],
      MASTER_PORT = port,
      RANK = ring_rank(comm),
      WORLD_SIZE = ring_size(comm),
      LOCAL_RANK = ring_local_rank(comm),
      LOCAL_WORLD_SIZE = ring_local_size(comm),
      GROUP_RANK = match(ring_hosts(comm)[[ring_rank(comm) + 1L]], hosts) - 1L,
      GROUP_WORLD_SIZE = length(hosts)
    )
    frameworks_set(c(lapply(variables, as.character), torch_interfaces(comm)))
  })
}

#' @rdname ring_tf_config
#' @export
ring_jax_config <- function(comm, ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    port <- frameworks_root_port(comm)
    list(
      coordinator_address = frameworks_address(ring_hosts(comm)[[1L]], port),
      num_processes = ring_size(comm),
      process_id = ring_rank(comm)
    )
  })
}

#' @rdname ring_tf_config
#' @export
ring_xgboost_config <- function(comm, ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    former <- frameworks_kept$tracker # some may train with it until they call this
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

#' @rdname ring_tf_config
#' @export
ring_lightgbm_config <- function(comm, ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    rows <- frameworks_gather(comm, 1L, function() {
      lightgbm_hosts(comm)
      ring_port_reserve(comm)
    })
    port <- as.integer(rows[[ring_rank(comm) + 1L]])
    ring_port_release(comm, port)
    machines <- mapply(frameworks_address, lightgbm_hosts(comm), rows)
    list(
      machines = paste(machines, collapse = ","),
      local_listen_port = port,
      num_machines = ring_size(comm)
    )
  })
}

# ---- What they share -----------------------------------------------------------------------------

frameworks_kept <- new.env(parent = emptyenv())

# Calls `code` with the communicator, or with one that is made of a barrier for the moment. That one
# is kept when it is closed, as it holds the ports.
with_frameworks_comm <- function(comm, ..., code) {
  call <- sys.call(-1)
  given <- inherits(comm, "ring_comm")
  if (given && ...length() > 0L) {
    ring_stop("INVALID", "`...` is for a `barrier`: a communicator has its options", call = call)
  }
  if (!given) {
    if (!is_barrier(comm)) {
      ring_stop("INVALID", paste(
        "`comm` must be a communicator, as ring_init() returns it, or the `barrier` of",
        "spark_apply(barrier = TRUE): a list with `address` and `partition`"
      ), call = call)
    }
    comm <- ring_init(comm, ...)
    on.exit(ring_abort(comm, "its framework could not be configured"))
  }
  result <- tryCatch(code(comm), ring_error = function(error) {
    ring_stop(error$status, conditionMessage(error), error$rank, error$errno, call = call)
  })
  if (!given) {
    ring_close(comm)
    frameworks_kept$comm <- comm
  }
  result
}

# The rows of all ranks, `width` numbers each, as the columns of a matrix. Where one rank cannot
# make its own, none gets any.
frameworks_gather <- function(comm, width, row) {
  matrix(ring_allgather(comm, as.double(agree(comm, row()))), nrow = width)
}

# A port that rank 0 has reserved.
frameworks_root_port <- function(comm) {
  rows <- frameworks_gather(comm, 1L, function() {
    if (ring_rank(comm) == 0L) ring_port_reserve(comm) else 0L
  })
  as.integer(rows[[1L]])
}

frameworks_address <- function(host, port) {
  sprintf(if (grepl(":", host, fixed = TRUE)) "[%s]:%d" else "%s:%d", host, as.integer(port))
}

# Sets variables. Python has a copy of the environment, which it has made when it started.
frameworks_set <- function(variables) {
  do.call(Sys.setenv, variables)
  if (isNamespaceLoaded("reticulate") && reticulate::py_available()) {
    environ <- reticulate::import("os", convert = FALSE)$environ
    for (name in names(variables)) environ$`__setitem__`(name, variables[[name]])
  }
  variables
}

# ---- TensorFlow ----------------------------------------------------------------------------------

frameworks_roles <- c("chief", "worker", "ps", "evaluator") # they travel as numbers from 0

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

# ---- PyTorch -------------------------------------------------------------------------------------

# The interface to the next host of the ring, for what asks for one.
torch_interfaces <- function(comm) {
  hosts <- ring_hosts(comm)
  rank <- seq_along(hosts) - 1L
  others <- hosts[order((rank - ring_rank(comm)) %% length(hosts))]
  others <- others[others != others[[1L]]]
  if (length(others) == 0L || !file.exists("/proc/net/route")) return(NULL)
  address <- suppressWarnings(utils::nsl(others[[1L]]))
  if (!is_string(address)) return(NULL)
  interface <- torch_route(address, readLines("/proc/net/route"))
  if (is.null(interface)) return(NULL)
  names <- c("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
  as.list(Sys.getenv(names, interface, names = TRUE))
}

# The way to an IPv4 address in the kernel's table: of the most specific routes the first.
torch_route <- function(address, lines) {
  if (startsWith(address, "127.")) return(NULL)
  wanted <- as.integer(strsplit(address, ".", fixed = TRUE)[[1L]])
  routes <- utils::read.table(text = lines, header = TRUE, colClasses = "character")
  flags <- strtoi(routes$Flags, 16L)
  routes <- routes[bitwAnd(flags, 1L) != 0L & bitwAnd(flags, 0x200L) == 0L, ] # up, not rejected
  bits <- mapply(function(target, mask) {
    mask <- torch_octets(mask)
    if (!identical(bitwAnd(wanted, mask), torch_octets(target))) return(-1L)
    sum(vapply(mask, function(octet) sum(bitwAnd(octet, 2L^(0:7)) != 0L), 0L))
  }, routes$Destination, routes$Mask)
  if (length(bits) == 0L || max(bits) < 0L) NULL else routes$Iface[[which.max(bits)]]
}

# The table has addresses as numbers of this machine.
torch_octets <- function(hex) {
  octets <- strtoi(substring(hex, c(1L, 3L, 5L, 7L), c(2L, 4L, 6L, 8L)), 16L)
  if (.Platform$endian == "little") rev(octets) else octets
}

# ---- XGBoost -------------------------------------------------------------------------------------

xgboost_start_tracker <- function(comm) {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    ring_stop("UNSUPPORTED", "XGBoost's tracker runs in Python: install the R package reticulate")
  }
  tracking <- tryCatch(reticulate::import("xgboost.tracker"), error = xgboost_missing)
  port <- ring_port_reserve(comm)
  ring_port_release(comm, port)
  tracker <- tracking$RabitTracker(
    n_workers = ring_size(comm), host_ip = ring_hosts(comm)[[1L]], port = port, sortby = "task"
  )
  tracker$start()
  frameworks_kept$tracker <- tracker
  tracker$worker_args()$dmlc_tracker_port
}

# An error of reticulate has a class of Rcpp and does not name the Python that was asked.
xgboost_missing <- function(error) {
  python <- tryCatch(reticulate::py_config()$python, error = function(error) NULL)
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "XGBoost's tracker runs in Python on rank 0, and ",
    if (is.null(python)) "reticulate finds no Python there" else paste(python, "cannot import it"),
    " (", sub("\\s+$", "", conditionMessage(error)), "): install xgboost in the Python that ",
    "reticulate is to use, and name that, as in ",
    "Sys.setenv(RETICULATE_PYTHON = \"/usr/bin/python3\")"
  ))
}

# ---- LightGBM ------------------------------------------------------------------------------------

# It finds its own rank by looking for an IPv4 address of its own.
lightgbm_hosts <- function(comm) {
  vapply(ring_hosts(comm), function(host) {
    address <- suppressWarnings(utils::nsl(host))
    if (is_string(address)) return(address)
    ring_stop("INVALID", paste("LightGBM needs an IPv4 address of the host", host))
  }, "")
}
