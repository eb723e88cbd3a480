# SPDX-License-Identifier: Apache-2.0
#
# Lines that ranks print, and the reports of progress among them.

test_that("lines come out whole, whatever the pieces were", {
  lines <- character()
  reader <- lines_reader(function(new) lines <<- c(lines, new))
  text <- c(charToRaw("one\r\ntw\u00e9\n"), as.raw(c(0xff, 0x0a)), charToRaw("\nlast"))
  for (byte in text) reader$feed(as.raw(byte))
  expect_identical(lines, c("one", "tw\u00e9", "<ff>", ""))
  reader$finish()
  expect_identical(reader$last(), c("one", "tw\u00e9", "<ff>", "", "last"))
  reader$feed(charToRaw(paste0(strrep("x", 2e5), "\n", paste0(1:100, "\n", collapse = ""))))
  expect_identical(reader$last(), as.character(81:100))
  expect_true(all(nchar(lines, "bytes") <= lines_longest))
})

test_that("reports go through lines, exactly", {
  metrics <- list("a b%" = pi, n = NA_real_, inf = -Inf, "\u00e9" = 1L)
  report <- progress_check(0.1 + 0.2, 10, metrics)
  expect_identical(progress_read(progress_write(report)), report)
  none <- progress_check(5L, NULL, list())
  expect_identical(progress_read(progress_write(none)), none)
  for (line in c("", "x", "1", "a b", "Inf 2", "1 2 3")) expect_null(progress_read(line))
  reports <- list()
  reader <- lines_reader(report = function(report) reports <<- c(reports, list(report)))
  for (line in c("begun ", "", "nonsense")) {
    text <- if (line == "nonsense") line else progress_write(report)
    reader$feed(charToRaw(paste0(line, lines_mark, text, "\n")))
  }
  expect_identical(reports, list(report, report))
  expect_identical(reader$last(), c("begun ", "nonsense"))
})

# A report with bytes changed, or cut off.
change_report <- function(report) {
  bytes <- charToRaw(progress_write(report))
  likely <- charToRaw("%0Af -+.e9IN")
  for (at in sample(length(bytes), sample(3L, 1L))) {
    bytes[[at]] <- if (runif(1) < 0.5) sample(likely, 1L) else as.raw(sample(255L, 1L))
  }
  if (runif(1) < 0.3) bytes <- bytes[seq_len(sample(length(bytes), 1L))]
  rawToChar(bytes)
}

is_report <- function(x) {
  identical(names(x), c("step", "total", "metrics")) && is.finite(x$step) &&
    !is.infinite(x$total) && is.double(x$metrics) && length(names(x$metrics)) == length(x$metrics)
}

test_that("bytes that were changed are another report, or none", {
  set.seed(1)
  report <- progress_check(3, 10, list(loss = 0.25, "a b%" = -1e300))
  read <- none <- 0L
  for (i in 1:3000) {
    line <- change_report(report)
    got <- tryCatch(progress_read(line), condition = identity)
    if (!is.null(got) && !is_report(got)) fail(line)
    if (is.null(got)) none <- none + 1L else read <- read + 1L
  }
  expect_gt(min(none, read), 500L)
})

test_that("a report that makes no sense is refused, and one without a run goes nowhere", {
  comm <- local_world()
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_progress(1, 1), "`comm` must be a communicator")
  invalid(ring_progress(comm, "1"), "`step` must be one finite number, not \"1\"")
  invalid(ring_progress(comm, 1, Inf), "`total` must be one finite number, not Inf")
  invalid(ring_progress(comm, 1, 2, 3), "`...` must have names")
  invalid(ring_progress(comm, 1, 2, loss = "low"), "`loss` must be one number, not \"low\"")
  invalid(ring_progress(comm, 1, a = strrep("x", 2)), "`a` must be one number")
  many <- stats::setNames(as.list(runif(500)), paste0("metric", 1:500))
  invalid(do.call(ring_progress, c(list(comm, 1), many)), "500 metrics takes more than 4000 bytes")
  expect_output(expect_null(ring_progress(comm, 1, 2, loss = 0.5)), NA)
})

test_that("the reports of ranks are shown, by a bar where there is a terminal", {
  f <- of_script(function(comm) {
    for (step in 1:3) {
      ring_progress(comm, step + ring_rank(comm), 4, loss = step)
      if (step == 2) cat("a line {x}\n")
      Sys.sleep(0.15)
    }
  })
  shown <- function(..., run = f) {
    before <- options(..., cli.num_colors = 1L)
    on.exit(options(before))
    messages <- capture.output(type = "message", {
      printed <- capture.output(try(ring_run(NULL, run, num_proc = -2), TRUE))
    })
    c(messages, printed)
  }
  plain <- paste(shown(cli.dynamic = FALSE), collapse = "\n")
  expect_match(plain, "sparkring: step [12] of 4, loss 1")
  expect_match(plain, "[0] a line {x}", fixed = TRUE)
  expect_no_match(plain, lines_mark, fixed = TRUE)
  skip_if_not_installed("cli")
  bar <- paste(shown(cli.dynamic = TRUE, cli.progress_show_after = 0), collapse = "\n")
  expect_match(bar, "3/4 loss 3")
  expect_match(bar, "[1] a line {x}", fixed = TRUE)
  stops <- of_script(function(comm) {
    ring_progress(comm, 1, 3)
    stop("enough")
  })
  bar <- paste(shown(cli.dynamic = TRUE, cli.progress_show_after = 0, run = stops), collapse = "\n")
  expect_match(bar, "1/3")
  expect_no_match(bar, "3/3") # where it has not come to
})

test_that("the progress of Spark's ranks reaches a process of the driver", {
  server <- log_server_start("127.0.0.1", captured = TRUE)
  f <- of_script(function(df, comm) {
    for (step in 1:3) {
      ring_progress(comm, step + ring_rank(comm), 4, loss = step)
      ring_barrier(comm)
      Sys.sleep(0.3)
    }
    ring_progress(comm, 4, 4, loss = 0)
  })
  rank_results <- play(3L, f, log_server = server$endpoint)
  expect_null(rank_result_judge(rank_results, 3L, 0L))
  shown <- raw()
  while (!is.null(bytes <- child_output(server$child, 5))) shown <- c(shown, bytes)
  expect_match(rawToChar(shown), "sparkring: step [1-4] of 4, loss [0-3]")
  log_server_stop(server)
  # Nobody listens: that harms nothing.
  rank_results <- play(1L, f, log_server = list(host = "127.0.0.1", token = as.raw(1:32)))
  expect_null(rank_result_judge(rank_results, 1L, 0L))
})

test_that("the display forgets the reports of ranks that are launched again", {
  display <- progress_bar()
  report <- function(step) list(step = step, total = 9, metrics = numeric())
  expect_message(display$report(1L, report(2)), "step 2 of 9")
  display$restart()
  expect_message(display$report(0L, report(9)), "step 9 of 9")
})
