# SPDX-License-Identifier: Apache-2.0
#
# The GPUs of a rank, by CUDA_VISIBLE_DEVICES. CUDA reads the variable once in a process, when CUDA
# is initialized, and then opens nvidia-uvm. Python's frameworks/_gpu.py and _device.py do the same;
# in Python a task can also read which GPUs Spark has assigned to it.

#' Choose the GPUs of this rank
#'
#' `ring_gpus()` sets the environment variable `CUDA_VISIBLE_DEVICES`, so that this rank sees only
#' its own GPUs. All ranks call it, before anything uses a GPU. Loading torch or tensorflow does not
#' use a GPU yet. In every rank the framework then counts the rank's GPUs from 0: the first is
#' `cuda:0`.
#'
#' @details
#' With `count`, the ranks of a host that see the same GPUs divide them: the first rank gets the
#' first `count` GPUs, and so on. Ranks that see different GPUs, because a launcher has assigned
#' them, keep their own GPUs.
#'
#' sparklyr does not pass the GPUs of a task to its closure. So where executors have
#' `spark.executor.resource.gpu.amount`, pass the value of `spark.task.resource.gpu.amount` as
#' `count`. If you know the GPUs of the task, pass them as `addresses`. If `CUDA_VISIBLE_DEVICES` is
#' set, an address is an index into it, from 0, as in Spark.
#'
#' @inheritParams ring_tf_config
#' @param count The number of GPUs of this rank, a whole number; 0 for none. `NULL`: all of
#'   `addresses`. Without `addresses`, `NULL` is all GPUs that this rank sees, and no variable is
#'   set.
#' @param addresses The GPUs that Spark has assigned to this task: whole numbers from 0, or UUIDs as
#'   strings. `NULL`: unknown.
#' @returns The names of the GPUs of this rank, as in `CUDA_VISIBLE_DEVICES`: a character vector.
#' @section Errors:
#' As for [ring_allreduce()]. In addition, `ring_error_invalid` on all ranks: when a rank sees too
#' few GPUs, when an address is not in `CUDA_VISIBLE_DEVICES`, and when a process has initialized
#' CUDA with other GPUs.
#' @seealso [ring_tf_config()], [ring_nccl_id()], [ring_device()]
#' @examples
#' comm <- ring_init()
#' ring_gpus(comm)
#' ring_close(comm)
#' @export
ring_gpus <- function(comm, count = NULL, addresses = NULL, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    before <- gpus_inherited()
    given <- agree(comm, {
      count <- check_whole(count, "count", least = 0, absent = NA_integer_)
      if (!is.null(addresses)) gpus_remap(check_gpus(addresses), before)
    })
    seen <- if (is.null(given)) gpus_named(before)
    lists <- allgather_strings(comm, c(as.character(max(count, 0L, na.rm = TRUE)), seen))
    agree(comm, gpus_take(comm, given, lists, count, before))
  })
}

# Chooses the GPUs of this rank, and sets the variable unless there is nothing to choose.
gpus_take <- function(comm, given, lists, count, before) {
  if (is.null(given) && is.na(count)) return(gpus_named(gpus_now()))
  if (is.null(given)) {
    names <- if (count > 0L) gpus_share(comm, lists, count, before) else character()
  } else {
    if (!is.na(count) && count > length(given)) {
      ring_stop("INVALID", sprintf(
        "`count` is %d, but `addresses` has %d: pass at least as many", count, length(given)
      ))
    }
    names <- if (is.na(count)) given else given[seq_len(count)]
  }
  gpus_use(names, before)
}

# Chooses among the GPUs that this rank sees. `lists` has the count and the visible GPUs of each
# rank.
gpus_share <- function(comm, lists, count, before) {
  mine <- ring_rank(comm) + 1L
  hosts <- ring_hosts(comm)
  names <- lists[[mine]][-1L]
  if (length(names) == 0L) {
    value <- sprintf("CUDA_VISIBLE_DEVICES is \"%s\"", before)
    ring_stop("INVALID", sprintf(
      "`count` is %d, but rank %d sees no GPU on %s: %s", count, mine - 1L, hosts[[mine]],
      if (is.na(before)) "there is no /dev/nvidia0" else value
    ))
  }
  shares <- hosts == hosts[[mine]] &
    vapply(lists, function(list) identical(list[-1L], names), NA)
  wants <- ifelse(shares, as.integer(vapply(lists, `[[`, "", 1L)), 0L)
  if (sum(wants) > length(names)) {
    ring_stop("INVALID", sprintf(paste0(
      "on %s ranks ask for %d GPUs, but see %d (%s): start fewer ranks there, or ask for fewer GPUs"
    ), hosts[[mine]], sum(wants), length(names), paste(names, collapse = ",")))
  }
  names[sum(wants[seq_len(mine - 1L)]) + seq_len(count)]
}

# Translates addresses to names where CUDA_VISIBLE_DEVICES was `visible`.
gpus_remap <- function(addresses, visible) {
  if (is.na(visible) || visible == paste(addresses, collapse = ",")) return(addresses)
  names <- gpus_named(visible)
  by_number <- grepl("^[0-9]+$", addresses)
  numbers <- as.integer(addresses[by_number])
  if (any(numbers >= length(names))) {
    ring_stop("INVALID", sprintf(paste(
      "`addresses` has the GPU %d, but CUDA_VISIBLE_DEVICES is \"%s\": of the %d GPUs there the",
      "first has the address 0"
    ), max(numbers), visible, length(names)))
  }
  addresses[by_number] <- names[numbers + 1L]
  addresses
}

check_gpus <- function(x) {
  if (is.numeric(x) && all(is.finite(x)) && all(x >= 0 & x == trunc(x))) return(sprintf("%.0f", x))
  if (is.character(x) && !anyNA(x)) return(as.vector(x))
  check_stop("`addresses` must be whole numbers from 0, or UUIDs, not ", describe(x), call = NULL)
}

# The GPUs that a process sees, as CUDA reads the variable; NA where it is not set.
gpus_named <- function(visible) {
  if (is.na(visible)) return(as.character(seq_along(list.files("/dev", "^nvidia[0-9]+$")) - 1L))
  names <- trimws(strsplit(visible, ",", fixed = TRUE)[[1L]])
  names[cumsum(names %in% c("", "-1", "NoDevFiles")) == 0L]
}

gpus_now <- function() Sys.getenv("CUDA_VISIBLE_DEVICES", NA_character_)

# The value of the variable before it was set here.
gpus_inherited <- function() {
  now <- gpus_now()
  chosen <- frameworks_kept$gpus
  if (!is.null(chosen) && identical(chosen$value, now)) chosen$before else now
}

gpus_use <- function(names, before) {
  value <- paste(names, collapse = ",")
  now <- gpus_now()
  if (!identical(value, now) && "nvidia-uvm" %in% basename(gpus_open_files())) {
    was <- if (is.na(now)) "unset" else paste0("\"", now, "\"")
    ring_stop("INVALID", sprintf(paste(
      "CUDA was initialized in this process while CUDA_VISIBLE_DEVICES was %s, so it will not use",
      "the GPUs \"%s\" of this rank: call ring_gpus() before anything uses a GPU"
    ), was, value))
  }
  variables <- list(CUDA_VISIBLE_DEVICES = value)
  by_number <- length(names) > 0L && all(grepl("^[0-9]+$", names))
  if (is.na(before) && by_number && is.na(Sys.getenv("CUDA_DEVICE_ORDER", NA))) {
    variables$CUDA_DEVICE_ORDER <- "PCI_BUS_ID" # as nvidia-smi, by which Spark discovers GPUs
  }
  frameworks_set(variables)
  frameworks_kept$gpus <- list(value = value, before = before)
  names
}

gpus_open_files <- function() Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
