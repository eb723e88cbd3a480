# SPDX-License-Identifier: Apache-2.0
#
# The GPUs of its host that a rank uses, by CUDA_VISIBLE_DEVICES. Python's sparkring.frameworks has
# the same, in gpu and device; there a Spark task can read which GPUs Spark has assigned. CUDA reads
# the variable once in a process, when it is initialised; then it opens nvidia-uvm.

#' Choose the GPUs of this rank
#'
#' `ring_gpus()` sets `CUDA_VISIBLE_DEVICES`, so that this rank sees no other GPUs. All ranks call
#' it before anything uses a GPU; loading torch or tensorflow does not use one yet. The rank's first
#' GPU is then the first that its framework sees (`cuda:0`), whatever its local rank is.
#'
#' `count` divides the GPUs that the ranks of a host see: the first rank gets the first `count`
#' GPUs, and so on. Ranks that see different GPUs, because their launcher has assigned them, keep
#' their own. In closures of sparklyr, where executors have `spark.executor.resource.gpu.amount`,
#' pass the `count` that is `spark.task.resource.gpu.amount`: sparklyr does not pass the GPUs of a
#' task to its closure. Where you know them, pass them as `addresses`; if `CUDA_VISIBLE_DEVICES` is
#' set, addresses are indexes into it, as Spark counts.
#'
#' @inheritParams ring_tf_config
#' @param count The number of GPUs, 0 for none. `NULL`: all that are in `addresses` or, without
#'   addresses, all that this rank sees; then nothing is set.
#' @param addresses The GPUs that Spark has given this task: whole numbers from 0, or UUIDs.
#' @returns The names in `CUDA_VISIBLE_DEVICES`, or that it would have if it were set: a character
#'   vector.
#' @section Errors:
#' As for [ring_allreduce()]; `ring_error_invalid`, on all ranks, when a rank finds too few GPUs,
#' for an address that is not in `CUDA_VISIBLE_DEVICES`, and when CUDA was initialised in a process
#' with other GPUs.
#' @examples
#' comm <- ring_init()
#' ring_gpus(comm)
#' ring_close(comm)
#' @export
ring_gpus <- function(comm, count = NULL, addresses = NULL, ...) {
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
        "`count` is %d, but `addresses` has %d: give as many", count, length(given)
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
      "CUDA was initialised in this process while CUDA_VISIBLE_DEVICES was %s, so it will not use",
      "the GPUs \"%s\" of this rank: call ring_gpus() before anything uses a GPU"
    ), was, value))
  }
  variables <- list(CUDA_VISIBLE_DEVICES = value)
  by_number <- length(names) > 0L && all(grepl("^[0-9]+$", names))
  if (is.na(before) && by_number && is.na(Sys.getenv("CUDA_DEVICE_ORDER", NA))) {
    variables$CUDA_DEVICE_ORDER <- "PCI_BUS_ID" # that of nvidia-smi, which Spark's discovery asks
  }
  frameworks_set(variables)
  frameworks_kept$gpus <- list(value = value, before = before)
  names
}

gpus_open_files <- function() Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
