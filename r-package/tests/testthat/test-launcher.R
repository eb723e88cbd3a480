# SPDX-License-Identifier: Apache-2.0
#
# ring_launch() and exec/sparkring-run: output, exit codes, signals, and that nothing survives them.

skip_on_cran() # starts and kills processes

launcher <- function() {
  script <- system.file("exec", "sparkring-run", package = "sparkring")
  c(file.path(R.home("bin"), "Rscript"), script)
}

# Runs the command line through a shell; `code` is of the launcher.
run_launcher <- function(...) {
  files <- c(tempfile(), tempfile())
  on.exit(unlink(files))
  words <- c(launcher(), ...)
  code <- suppressWarnings( # about code 127
    system2(words[[1L]], shQuote(words[-1L]), stdout = files[[1L]], stderr = files[[2L]])
  )
  list(code = code, out = readLines(files[[1L]]), err = readLines(files[[2L]]))
}

test_that("ring_launch() runs a script of R on all ranks", {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    "comm <- sparkring::ring_init()",
    "total <- sparkring::ring_allreduce(comm, 1 + sparkring::ring_rank(comm))",
    "cat(total, commandArgs(TRUE), format(comm), '\\n')",
    "sparkring::ring_close(comm)"
  ), script)
  printed <- capture.output(code <- ring_launch(script, n = 2, args = "x", encryption = TRUE))
  expect_identical(code, 0L)
  expect_match(printed, "^\\[[01]\\] 3 x <ring_comm> rank [01] of 2 .*encrypted")
  expect_setequal(substr(printed, 1, 3), c("[0]", "[1]"))
})

test_that("the environment is that of a job, and holds no token", {
  Sys.setenv(SPARKRING_TOKEN = "that of another job")
  on.exit(Sys.unsetenv("SPARKRING_TOKEN"))
  code <- paste(
    "echo $SPARKRING_RANK $SPARKRING_SIZE $SPARKRING_ADDRESSES $SPARKRING_TIMEOUT",
    "$SPARKRING_PORTS $SPARKRING_ENCRYPTION ${SPARKRING_TOKEN-none}",
    "$(wc -c <$SPARKRING_TOKEN_FILE) $(stat -L -c %a $SPARKRING_TOKEN_FILE)"
  )
  printed <- capture.output(ring_launch(
    c("sh", "-c", code), 2, timeout = 9, ports = c(5000, 5009), encryption = TRUE
  ))
  shared <- "2 127.0.0.1,127.0.0.1 9 5000-5009 1 none 64 400"
  expect_setequal(printed, paste0("[", 0:1, "] ", 0:1, " ", shared))
})

test_that("the first rank that fails ends the job with its exit code", {
  fails <- "[ $SPARKRING_RANK = 1 ] && exit 7; exec sleep 60"
  job <- run_launcher("-n", 3, "sh", "-c", fails)
  expect_identical(job$code, 7L)
  expect_identical(job$err, "sparkring-run: rank 1 failed with exit code 7; ending the others")
  killed <- run_launcher("-n", 1, "--", "sh", "-c", "echo out; echo err >&2; kill -9 $$")
  expect_identical(killed$code, 128L + 9L)
  expect_identical(killed$out, "[0] out")
  expect_identical(killed$err, c("[0] err", "sparkring-run: rank 0 was killed by SIGKILL"))
  absent <- run_launcher("-n", 2, "no-such-command")
  expect_identical(absent$code, 127L)
  expect_identical(
    absent$err, "sparkring-run: cannot run 'no-such-command': No such file or directory"
  )
})

test_that("much output passes unchanged, and rank 0 has the standard input", {
  file <- tempfile()
  on.exit(unlink(file))
  line <- strrep("x", 1e6)
  writeLines(rep(line, 3), file)
  words <- c(launcher(), "-n", "2", "cat")
  expect_identical(system2(words[[1L]], shQuote(words[-1L]), stdin = file, stdout = TRUE),
                   paste("[0]", rep(line, 3)))
})

test_that("nothing survives the launcher", {
  pids <- tempfile("pids")
  on.exit(unlink(pids))
  # A child that has left the process group and the session, as daemons do, and takes no SIGTERM.
  daemon <- "trap '' TERM INT; echo $$ >>\"$0\"; while :; do sleep 0.1; done"
  family <- sprintf("setsid sh -c %s \"$0\" & echo $$ >>\"$0\"; wait; sleep 60", shQuote(daemon))
  started <- function() length(if (file.exists(pids)) readLines(pids)) == 4L
  words <- c("-n", 2, "sh", "-c", family, pids)
  for (signal in c(tools::SIGTERM, tools::SIGKILL)) {
    unlink(pids)
    job <- parallel::mcparallel(.Call(C_child_become, as.character(c(launcher(), words))))
    for (i in 1:300) if (started()) break else Sys.sleep(0.05)
    expect_true(started())
    tools::pskill(job$pid, signal)
    expect_ended(readLines(pids), seconds = 10)
    suppressWarnings(parallel::mccollect(job))
  }
})

test_that("an interrupt ends the ranks", {
  driver <- Sys.getpid()
  # A rank handles it as it likes, and what it prints then is shown.
  code <- "trap 'echo ended; exit 3' INT; kill -INT %d; while :; do sleep 0.05; done"
  code <- sprintf(code, driver)
  printed <- capture.output(
    ended <- tryCatch(ring_launch(c("sh", "-c", code), 1), interrupt = function(it) "interrupted")
  )
  expect_identical(ended, "interrupted")
  expect_identical(printed, "[0] ended")
})

test_that("the command line's error names what is wrong", {
  refused <- function(...) {
    job <- run_launcher(...)
    expect_identical(job$code, 2L)
    expect_match(job$err[[1L]], "^usage: sparkring-run -n SIZE")
    sub("sparkring-run: error: ", "", job$err[[3L]])
  }
  expect_identical(refused(), "the following arguments are required: -n/--size")
  expect_identical(refused("-n", 0, "true"), "argument -n/--size: '0' is not 1 or more")
  expect_identical(
    refused("--size=2"),
    "the command is missing, as in: sparkring-run -n 4 Rscript train.R"
  )
  version <- run_launcher("--version")
  expect_identical(version$out, paste("sparkring", packageVersion("sparkring")))
  expect_error(ring_launch("absent.R", 2), class = "ring_error_invalid", "does not exist")
  expect_error(ring_launch("true"), class = "ring_error_invalid", "`n` is missing: pass the number")
  zero <- expect_error(ring_launch("true", 0), class = "ring_error_invalid", "`n` is 0")
  expect_identical(deparse(zero$call), "ring_launch(\"true\", 0)")
})
