# SPDX-License-Identifier: Apache-2.0
#
# ring_mpi_run() and ring_mpi(), with MPICH and Open MPI where their compilers are there, and with
# programs without MPI.

skip_on_cran() # starts MPI

# nolint start: object_usage_linter. Names that testthat defines.
# A program of an MPI library.
mpi_program <- function(library = "mpich") {
  compiler <- Sys.which(paste0("mpicc.", library))
  skip_if(compiler == "", paste("there is no", library, "to compile a program with"))
  source <- test_path("mpi_program.c")
  program <- tempfile("mpi_program")
  expect_identical(system2(compiler, shQuote(c(source, "-o", program))), 0L)
  program
}

# The number of threads, descriptors and children of this process, when nothing changes any more: a
# thread leaves /proc after it was joined. Ranks call it.
remains <- function(expected = NULL) {
  before <- NULL
  for (i in 1:300) {
    tasks <- list.files("/proc/self/task")
    children <- file.path("/proc/self/task", tasks, "children")
    children <- lapply(children, function(file) if (file.exists(file)) scan(file, "", quiet = TRUE))
    now <- c(length(tasks), length(list.files("/proc/self/fd")), length(unlist(children)))
    if (identical(now, before) && (is.null(expected) || identical(now, expected))) break
    before <- now
    Sys.sleep(0.01)
  }
  now
}

# Runs a program on ranks, and returns the lines of each. Checks that nothing remains of it.
run_programs <- function(size, command, ...) {
  run_ring(size, {
    ring_mpi_run(comm, "true") # from now on nothing new is kept
    ring_barrier(comm)
    before <- remains()
    lines <- character()
    do.call(ring_mpi_run, c(list(comm, command, output = function(line) {
      lines <<- c(lines, line)
    }), arguments))
    stopifnot(identical(remains(before), before), ring_allreduce(comm, 1) == size)
    lines[order(substr(lines, 1L, 99L), method = "radix")] # it recurses once a character
  }, command = command, arguments = list(...), remains = remains)
}

# Runs a program that fails, and returns the error of each rank. Nothing remains, and the
# communicator is usable.
fail_programs <- function(size, command, ...) {
  run_ring(size, {
    ring_mpi_run(comm, "true")
    ring_barrier(comm)
    before <- remains()
    error <- tryCatch(ring_mpi_run(comm, command), error = identity)
    stopifnot(identical(remains(before), before), ring_allreduce(comm, 1) == size)
    list(class = class(error)[[1L]], rank = error$rank, text = conditionMessage(error))
  }, command = command, remains = remains)
}

expect_failures <- function(errors, rank, text, class = "ring_error_aborted") {
  for (error in errors) {
    expect_identical(error[c("class", "rank")], list(class = class, rank = rank))
    expect_match(error$text, paste0("rank ", rank, " (127.0.0.1): "), fixed = TRUE)
    expect_match(error$text, text, fixed = TRUE)
  }
}
# nolint end

test_that("programs of MPICH find each other", {
  program <- mpi_program()
  for (size in c(1L, 2L, 4L)) {
    lines <- sprintf("rank %d of %d: sum %d, %d on this host", seq_len(size) - 1L, size,
                    size * (size + 1L) / 2L, size)
    expect_identical(run_programs(size, program),
                     Map(c, c("a warning", rep(list(NULL), size - 1L)), lines, USE.NAMES = FALSE))
  }
  found <- as.list(sprintf("rank %d found tag#0$a$", 0:2))
  expect_identical(run_programs(3, program, args = "names"), found)
})

test_that("programs of Open MPI find each other, fail together, and leave nothing", {
  skip_if_not(file.exists(system.file("bin", "sparkring-pmix", package = "sparkring")),
              "sparkring was installed without PMIx")
  program <- mpi_program("openmpi")
  for (size in c(1L, 2L, 4L)) {
    lines <- sprintf("rank %d of %d: sum %d, %d on this host", seq_len(size) - 1L, size,
                    size * (size + 1L) / 2L, size)
    expect_identical(run_programs(size, program, pmix = TRUE),
                     Map(c, c("a warning", rep(list(NULL), size - 1L)), lines, USE.NAMES = FALSE))
  }
  expect_failures(fail_programs(2, c(program, "abort")), 1L, "called MPI_Abort with exit code 7")
  expect_failures(fail_programs(2, c(program, "kill")), 1L, "was killed by SIGKILL")
  expect_failures(fail_programs(2, c(program, "leave")), 1L, "ended without MPI_Finalize")
})

test_that("PMIx is served where hosts can, unless it is switched off", {
  folder <- c("sh", "-c", "test -z \"$PMIX_NAMESPACE\" || echo \"$PMIX_SERVER_TMPDIR\"")
  expect_identical(run_programs(2, folder, pmix = FALSE), list(character(), character()))
  Sys.setenv(SPARKRING_PMIX_SERVER = "/no/such/server")
  on.exit(Sys.unsetenv("SPARKRING_PMIX_SERVER"))
  expect_identical(run_programs(2, folder), list(character(), character()))
  errors <- run_ring(2, tryCatch(ring_mpi_run(comm, "true", pmix = TRUE), error = identity))
  for (error in errors) {
    expect_s3_class(error, "ring_error_unsupported")
    expect_match(conditionMessage(error), fixed = TRUE,
                 "cannot be served: rank 0 (127.0.0.1): /no/such/server: No such file")
  }
})

test_that("a program has its variables and its directory, and no variables of other launchers", {
  Sys.setenv(PMI_PORT = "somewhere:1", OMPI_COMM_WORLD_RANK = "5")
  on.exit(Sys.unsetenv(c("PMI_PORT", "OMPI_COMM_WORLD_RANK")))
  show <- paste(
    "echo \"$MINE $PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS\"; pwd;",
    "echo \"${PMI_PORT-none} ${OMPI_COMM_WORLD_RANK-none} $1\"; echo \"$R_LIBS\""
  )
  wd <- normalizePath(tempdir())
  lines <- run_programs(2, c("sh", "-c", show, "sh"), "last", c(MINE = "yes = no"), wd)
  libraries <- paste(.libPaths(), collapse = ":")
  for (rank in 0:1) {
    mine <- c(paste("yes = no", rank, 2, rank, 2), wd, "none none last", libraries)
    expect_identical(lines[[rank + 1L]], sort(mine, method = "radix"))
  }
})

test_that("secrets of sparkring and Spark are kept, and signals are those of the rank", {
  names <- c("PYTHON_WORKER_FACTORY_SECRET", "_SPARK_AUTH_SECRET", "SPARKRING_TOKEN_FILE")
  secrets <- rep("hidden", length(names))
  do.call(Sys.setenv, as.list(stats::setNames(secrets, names)))
  on.exit(Sys.unsetenv(names))
  kept <- run_programs(1, "env")[[1L]]
  expect_false(any(grepl("hidden", kept)))
  shown <- run_programs(1, "env", env = c("_SPARK_AUTH_SECRET" = "shown"))[[1L]]
  expect_true("_SPARK_AUTH_SECRET=shown" %in% shown)

  signals <- "^Sig(Blk|Ign)"
  masks <- run_ring(1, {
    lines <- character()
    ring_mpi_run(comm, c("grep", "-E", signals, "/proc/self/status"),
                 output = function(line) lines <<- c(lines, line))
    list(lines, grep(signals, readLines("/proc/self/status"), value = TRUE))
  }, signals = signals)[[1L]]
  expect_length(masks[[1L]], 2L)
  expect_identical(masks[[1L]], masks[[2L]])
})

test_that("lines pass whole, as valid text, and with the rank before them once", {
  long <- strrep("x", 6e4)
  code <- paste0("printf '", long, "\\n\\n\\303\\251 \\377\\r\\nrest'; echo oops >&2")
  lines <- run_programs(1, c("sh", "-c", code))[[1L]]
  expected <- sort(c("", long, "\u00e9 <ff>\r", "rest", "oops"), method = "radix")
  expect_true(identical(lines, expected))
  endless <- run_programs(1, c("sh", "-c", "yes | head -c 2000000 | tr -d '\\n'"))[[1L]]
  expect_true(identical(paste(endless, collapse = ""), strrep("y", 1e6)))
  expect_lt(max(nchar(endless)), 2^18)

  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    "comm <- sparkring::ring_init()", "sparkring::ring_mpi_run(comm, 'echo', 'hello')",
    "sparkring::ring_close(comm)"
  ), script)
  printed <- capture.output(expect_identical(ring_launch(script, n = 2), 0L))
  expect_setequal(printed, c("[0] hello", "[1] hello"))
  alone <- local_world()
  expect_identical(capture.output(ring_mpi_run(alone, "echo", "hello")), "[0] hello")
})

test_that("a program that fails ends the programs of all ranks", {
  program <- mpi_program()
  ends <- c(abort = "called MPI_Abort with exit code 7", kill = "was killed by SIGKILL",
            leave = "ended without MPI_Finalize")
  for (what in names(ends)) for (size in c(2L, 4L)) {
    last <- size - 1L
    expect_failures(fail_programs(size, c(program, what)), last, paste0(
      "the program '", program, "' ", ends[[what]], "; its last lines:\nrank ", last, " begins to ",
      what
    ))
  }
  script <- paste("test $PMI_RANK = 1 || exec", program)
  expect_failures(fail_programs(2, c("sh", "-c", script)), 1L, class = "ring_error_mismatch",
                  "its program ended, and the program of rank 0 waits for it in MPI_Init")
})

test_that("programs without MPI fail in the same way", {
  script <- "echo some; echo words >&2; test $PMI_RANK != 1 || exit 3; sleep 3600"
  expect_failures(fail_programs(3, c("sh", "-c", script)), 1L,
                  "the program 'sh' failed with exit code 3; its last lines:\n")
  script <- "test $PMI_RANK != 0 || kill -BUS $$; sleep 3600"
  expect_failures(fail_programs(2, c("sh", "-c", script)), 0L,
                  "the program 'sh' was killed by SIGBUS; it has printed nothing")
  script <- "test $PMI_RANK != 1 || exec /no/such/program"
  for (error in fail_programs(2, "/no/such/program")) {
    expect_match(error$text, "the program '/no/such/program' cannot be started: No such file")
  }
  alone <- local_world()
  expect_error(ring_mpi_run(alone, "true", wd = "/no/such"), class = "ring_error_aborted",
               "the program 'true' cannot be started in '/no/such': No such file")
})

test_that("the descendants of a program end with it", {
  # One of them has left the process group and the session, as daemons do.
  leaves <- "sleep 3600 & echo $!; setsid sleep 3600 & echo $! >&2; "
  comm <- local_world()
  for (end in c("exit 0", "exit 3", "kill -9 $$")) {
    pids <- character()
    run <- function() {
      ring_mpi_run(comm, c("sh", "-c", paste0(leaves, end)),
                   output = function(line) pids <<- c(pids, line))
    }
    if (end == "exit 0") run() else expect_error(run(), class = "ring_error_aborted")
    expect_length(pids, 2L)
    expect_false(any(vapply(pids, is_running, NA)))
  }
})

test_that("a killed guardian ends the program, and a program that aborts its children", {
  results <- run_ring(2, {
    pids <- character()
    kill <- function(line) {
      pids <<- c(pids, line)
      if (rank == 1 && length(pids) == 3L) tools::pskill(as.integer(pids[[1L]]), tools::SIGKILL)
    }
    script <- "echo $PPID; sleep 3600 & echo $!; echo $$; wait"
    error <- tryCatch(ring_mpi_run(comm, c("sh", "-c", script), output = kill), error = identity)
    for (i in 1:3000) if (any(vapply(pids, is_running, NA))) Sys.sleep(0.01) else break
    list(error = error, running = any(vapply(pids, is_running, NA)))
  }, is_running = is_running)
  for (result in results) {
    expect_s3_class(result$error, "ring_error_aborted")
    expect_match(conditionMessage(result$error), fixed = TRUE,
                 "rank 1 (127.0.0.1): the program 'sh' was ended, because its guardian was killed")
    expect_false(result$running)
  }
  script <- paste("test $PMI_RANK = 0 || yes & exec", mpi_program(), "abort")
  expect_failures(fail_programs(2, c("sh", "-c", script)), 1L,
                  "called MPI_Abort with exit code 7; its last lines:")
})

test_that("a killed rank leaves no program", {
  pids <- tempfile("pids")
  on.exit(unlink(pids))
  family <- "setsid sleep 3600 & echo $! >>\"$0\"; echo $$ >>\"$0\"; echo; wait"
  results <- run_ranks(2, {
    comm <- open()
    # Rank 1 is killed when all programs have started. It leaves a child with all its descriptors.
    die <- function(line) {
      if (rank == 0) return()
      while (length(readLines(pids)) < 4L) Sys.sleep(0.01)
      parallel::mcparallel(Sys.sleep(20), detached = TRUE)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    tryCatch(ring_mpi_run(comm, c("sh", "-c", family, pids), output = die), error = identity)
  }, pids = pids, family = family, lost = 1)
  expect_s3_class(results[[1L]], "ring_error_peer_lost")
  expect_identical(results[[1L]]$rank, 1L)
  expect_length(readLines(pids), 4L)
  expect_ended(readLines(pids), seconds = 10)
})

test_that("an interrupt and an error of `output` end the programs of all ranks", {
  results <- run_ring(2, {
    ring_mpi_run(comm, "true")
    before <- remains()
    pids <- character()
    begin <- function(line) {
      pids <<- c(pids, line)
      if (rank == 0) tools::pskill(Sys.getpid(), tools::SIGINT)
    }
    # Rank 1 waits for the end of the program of rank 0.
    script <- "echo $$; test $PMI_RANK = 1 || exec sleep 3600"
    ended <- tryCatch(ring_mpi_run(comm, c("sh", "-c", script), output = begin),
                      interrupt = identity, error = identity)
    fail <- function(line) if (rank == 0) stop("no")
    failed <- tryCatch(ring_mpi_run(comm, c("sh", "-c", script), output = fail), error = identity)
    stopifnot(identical(remains(before), before), !any(vapply(pids, is_running, NA)))
    list(ended = ended, failed = failed)
  }, remains = remains, is_running = is_running)
  expect_s3_class(results[[1L]]$ended, "interrupt")
  expect_s3_class(results[[1L]]$failed, "simpleError")
  for (text in list(c("ended", "interrupted"), c("failed", "no"))) {
    error <- results[[2L]][[text[[1L]]]]
    expect_s3_class(error, "ring_error_aborted")
    expect_identical(conditionMessage(error), paste0("rank 0 (127.0.0.1): ", text[[2L]]))
  }
})

test_that("a silent program is interrupted, too", {
  pid <- Sys.getpid()
  comm <- local_world()
  script <- sprintf("sleep 0.2; kill -INT %d; exec sleep 3600", pid)
  ended <- tryCatch(ring_mpi_run(comm, c("sh", "-c", script)), interrupt = function(it) "so")
  expect_identical(ended, "so")
})

test_that("communicators that encrypt refuse", {
  results <- run_ring(2, {
    refused <- tryCatch(ring_mpi_run(comm, "true"), error = identity)
    ring_mpi_run(comm, "true", allow_plain = TRUE)
    refused
  }, options = list(token = fresh_token(), timeout = 30, encryption = TRUE))
  for (error in results) {
    expect_s3_class(error, "ring_error_unsupported")
    expect_match(conditionMessage(error), "pass allow_plain = TRUE")
  }
})

test_that("arguments are checked, for the user's call", {
  comm <- local_world()
  refused <- function(message, ...) {
    error <- expect_error(ring_mpi_run(comm, ...), message, class = "ring_error_invalid")
    expect_identical(error$call[[1L]], quote(ring_mpi_run))
    error <- expect_error(ring_mpi(NULL, ..., num_proc = -1), message, class = "ring_error_invalid")
    expect_identical(error$call[[1L]], quote(ring_mpi))
  }
  for (command in list(3, NULL, NA_character_, list("true"))) {
    refused("`command` and `args`", command)
  }
  for (command in list(character(), "")) refused("`command` is empty", command)
  refused("`command` and `args`", "true", args = 1)
  for (env in list("A=1", c(A = 1), c(A = NA_character_), c("A=" = "1"), list(A = "1"))) {
    refused("`env` must be a character vector with names", "true", env = env)
  }
  refused("`wd` must be one string", "true", wd = 1)
  refused("`allow_plain` must be TRUE or FALSE", "true", allow_plain = NA)
  refused("`pmix` must be TRUE or FALSE", "true", pmix = "yes")
  expect_error(ring_mpi_run(comm, "true", output = 1), "`output` must be a function",
               class = "ring_error_invalid")
  expect_error(ring_mpi_run(1, "true"), "`comm` must be a", class = "ring_error_invalid")
  expect_null(ring_mpi_run(comm, "true", wd = "~", env = c(A = "")))
})

test_that("ring_mpi() runs programs as a job", {
  program <- mpi_program()
  printed <- capture.output(expect_null(ring_mpi(NULL, program, num_proc = -2)))
  expect_true(all(sprintf("[%d] rank %d of 2: sum 3, 2 on this host", 0:1, 0:1) %in% printed))
  capture.output({
    error <- expect_error(ring_mpi(NULL, program, "kill", num_proc = -2),
                          class = "ring_error_aborted")
  })
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 1L)
  expect_match(conditionMessage(error), fixed = TRUE,
               "was killed by SIGKILL; its last lines:\nrank 1 begins to kill")
  expect_error(ring_mpi(NULL, "true", num_proc = -2, options = list(encryption = TRUE)),
               class = "ring_error_unsupported")
})
