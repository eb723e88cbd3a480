# SPDX-License-Identifier: Apache-2.0
#
# Checks that a barrier stage has enough slots: as many, at the same time, as it has tasks. Spark
# itself retries for ten minutes before it fails such a stage. slots_wait() checks first, with the
# method that Spark uses, and its error has the arithmetic. Python's spark/_slot_check.py has the
# same texts.

slots_missing <- 60 # seconds for executors that are known to be missing
slots_registration <- 30 # seconds after the start of an application in which executors register
slots_interval <- 0.25 # seconds between two checks
slots_report <- 20 # seconds until a message says that other tasks hold the slots

# Reads slots, executors and settings from Spark. `slots` is NULL where Spark does not report it.
slots_read <- function(sc) {
  context <- sparklyr::spark_context(sc)
  ask <- function(...) tryCatch(sparklyr::invoke(...), error = function(error) NULL)
  profile <- ask(ask(context, "resourceProfileManager"), "defaultResourceProfile")
  conf <- function(name, absent) slots_conf(context, name, absent)
  # Before the slots: an executor that registers in between would seem to have none.
  cores <- tryCatch(slots_cores(context), error = function(error) integer())
  list(
    master = sparklyr::invoke(context, "master"),
    slots = ask(context, "maxNumConcurrentTasks", profile),
    cores = cores,
    running = tryCatch(slots_running(context), error = function(error) 0L),
    task_cpus = as.integer(conf("spark.task.cpus", "1")),
    expected = suppressWarnings(as.integer(conf("spark.executor.instances", "0"))),
    gpus = as.double(conf("spark.task.resource.gpu.amount", "0")),
    dynamic = identical(conf("spark.dynamicAllocation.enabled", "false"), "true"),
    age = slots_age(ask(context, "startTime"))
  )
}

slots_conf <- function(context, name, absent) {
  sparklyr::invoke(sparklyr::invoke(context, "conf"), "get", name, absent)
}

# The seconds since the application started, at `started` in milliseconds. 0 where Spark does not
# report it, so that executors get all of `slots_registration`.
slots_age <- function(started) {
  if (is_number(started)) as.numeric(Sys.time()) - started / 1000 else 0
}

# The cores of each executor.
slots_cores <- function(context) {
  store <- sparklyr::invoke(context, "statusStore")
  found <- sparklyr::invoke(store, "executorList", TRUE)
  cores <- vapply(seq_len(sparklyr::invoke(found, "size")), function(i) {
    as.integer(sparklyr::invoke(sparklyr::invoke(found, "apply", i - 1L), "totalCores"))
  }, 0L)
  cores[cores > 0L]
}

# Counts the tasks that hold a slot, those of a cancelled job included. Asks the scheduler, because
# the statusStore may have missed the end of a task.
slots_running <- function(context) {
  scheduler <- sparklyr::invoke(context, "taskScheduler")
  sum(as.integer(unlist(sparklyr::invoke(scheduler, "runningTasksByExecutors"))))
}

slots_local <- function(master) grepl("^local(\\[[^]]*\\])?$", master)

# The number of executors that were requested; NA where it is unknown.
slots_expected <- function(cluster) {
  pseudo <- regmatches(cluster$master, regexec("^local-cluster\\[ *([0-9]+)", cluster$master))[[1L]]
  if (length(pseudo) > 0L) return(as.integer(pseudo[[2L]]))
  if (isTRUE(cluster$expected > 0L)) cluster$expected else NA_integer_
}

# Waits until the registered executors have slots for all ranks, and returns the number of ranks.
slots_wait <- function(sc, size, timeout, attempt = 0L) {
  begin <- .Call(C_clock_seconds)
  repeat {
    cluster <- slots_read(sc)
    slots_check_settings(cluster)
    if (is.null(cluster$slots)) { # Spark raises its own error later
      return(if (is.null(size)) max(1L, length(cluster$cores)) else size)
    }
    enough <- !is.null(size) && cluster$slots >= size
    waited <- .Call(C_clock_seconds) - begin
    if (enough || waited >= min(timeout, slots_patience(cluster, attempt))) break
    Sys.sleep(slots_interval)
  }
  wanted <- slots_choose(cluster, size)
  slots_wait_free(cluster, wanted, timeout, function() slots_read(sc))
  wanted
}

# Waits until `size` slots are free, and reports a long wait. Spark would wait without a limit and
# without a message. read() returns the cluster.
slots_wait_free <- function(cluster, size, timeout, read, report_after = slots_report) {
  begin <- .Call(C_clock_seconds)
  reported <- FALSE
  while (isTRUE(cluster$slots - cluster$running < size)) {
    waited <- .Call(C_clock_seconds) - begin
    if (waited > timeout) ring_stop("TIMEOUT", slots_held(cluster, size, waited), call = NULL)
    if (waited > report_after && !reported) {
      reported <- TRUE
      message("sparkring: ", slots_held(cluster, size, waited), "; still waiting")
    }
    Sys.sleep(slots_interval)
    cluster <- read()
  }
}

slots_held <- function(cluster, size, waited) {
  sprintf(
    paste(
      "the %d tasks of the ranks have not all started after %.0f s: they need as many free slots",
      "at the same time, and %s has %d slots (%s), of which running tasks hold %d. Usual causes:",
      "other jobs of this application hold slots, or R processes of an interrupted call still run"
    ),
    size, waited, cluster$master, cluster$slots, slots_arithmetic(cluster), cluster$running
  )
}

# The seconds that executors may take to register. After the first attempt, lost executors may take
# all of the timeout.
slots_patience <- function(cluster, attempt) {
  complete <- slots_complete(cluster)
  if (isTRUE(complete)) return(0)
  if (attempt > 0L) return(Inf)
  if (isFALSE(complete)) slots_missing else max(2, slots_registration - cluster$age)
}

# Whether all executors that were requested have registered; NA when their number is unknown.
slots_complete <- function(cluster) {
  if (slots_local(cluster$master)) return(TRUE)
  if (length(cluster$cores) == 0L) return(FALSE)
  length(cluster$cores) >= slots_expected(cluster)
}

# The number of ranks, or an error.
slots_choose <- function(cluster, size) {
  wanted <- if (is.null(size)) cluster$slots else size
  if (wanted > cluster$slots || wanted < 1L) {
    ring_stop("INVALID", slots_explain(cluster, max(wanted, 1L)), call = NULL)
  }
  wanted
}

slots_check_settings <- function(cluster) {
  if (slots_local(cluster$master)) return(slots_check_local(cluster))
  if (!cluster$dynamic) return()
  ring_stop("UNSUPPORTED", call = NULL, paste(
    "spark.dynamicAllocation.enabled is true: Spark then runs no barrier stage, because it cannot",
    "know when all tasks have slots. Set it to false, and ask for a fixed number of executors",
    "(spark.executor.instances, or spark.cores.max on a standalone cluster)"
  ))
}

# A local master has no GPUs to assign, so tasks that request a GPU would never start.
slots_check_local <- function(cluster) {
  if (!isTRUE(cluster$gpus > 0)) return()
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "each task is to have a GPU (spark.task.resource.gpu.amount), but ", cluster$master, " has ",
    "none to assign, so no task would ever start. Leave that setting out, and call ",
    "ring_gpus(comm, ", ceiling(cluster$gpus), ") in the function to share out the GPUs of this ",
    "machine"
  ))
}

# Writes the error: how many slots there are, why, and what to do.
slots_explain <- function(cluster, size) {
  text <- paste0(
    size, if (size == 1L) " rank needs" else " ranks need", " as many free task slots at the same ",
    "time, but ", cluster$master, " has ", cluster$slots, ": ", slots_arithmetic(cluster), "."
  )
  if (length(cluster$cores) == 0L) {
    return(paste(text, "Wait for executors, or look at why none has started"))
  }
  more <- if (slots_local(cluster$master)) {
    paste0("connect to local[", size * cluster$task_cpus, "]")
  } else {
    "start more or larger executors (spark.executor.instances, spark.executor.cores)"
  }
  fewer <- if (cluster$slots > 0L) paste0("pass num_proc = ", cluster$slots, " or less, or ")
  paste0(text, " To go on, ", fewer, more)
}

# Explains the number of slots, as in "2 executors x (8 cores / 2 per task) = 8".
slots_arithmetic <- function(cluster) {
  cores <- cluster$cores
  count <- length(cores)
  if (count == 0L) return("no executor has registered")
  needs <- paste(cluster$task_cpus, "per task")
  text <- if (slots_local(cluster$master)) {
    paste0(cores[[1L]], " cores / ", needs)
  } else if (length(unique(cores)) == 1L) {
    paste0(count, if (count > 1L) " executors" else " executor", " x (", cores[[1L]], " cores / ",
           needs, ")")
  } else {
    paste0("executors with ", paste(cores, collapse = " + "), " cores / ", needs,
           ", each rounded down")
  }
  missing <- slots_expected(cluster) - count
  if (!isTRUE(missing > 0L)) return(text)
  paste0(text, ", and ", missing, if (missing == 1L) " executor is" else " executors are",
         " missing")
}
