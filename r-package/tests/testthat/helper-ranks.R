# SPDX-License-Identifier: Apache-2.0
#
# Ranks are real R processes, started through pipe(): reading a pipe to its end waits for the
# process, so nothing here polls or sleeps. Each is bounded by a time limit of its own, which
# reaches into the waits of the core as well, and leaves its result in an RDS file.

fresh_token <- function() {
  random <- file("/dev/urandom", "rb", raw = TRUE)
  on.exit(close(random))
  paste(readBin(random, "raw", 32), collapse = "")
}

# In the process of a rank; `job` is what run_ranks() saved.
rank_main <- function(folder, rank) {
  setTimeLimit(elapsed = 300)
  job <- readRDS(file.path(folder, "job.rds"))
  options <- c(list(rank = rank, addresses = rep("127.0.0.1", job$size)), job$options)
  open <- function(...) do.call(sparkring::ring_init, utils::modifyList(options, list(...)))
  scope <- list2env(c(job$data, list(rank = rank, size = job$size, open = open)))
  parent.env(scope) <- asNamespace("sparkring")
  result <- eval(job$code, scope)
  saveRDS(result, file.path(folder, paste0(rank, ".rds")))
}

start_rank <- function(rank, folder) {
  code <- sprintf("source('%s/main.R'); rank_main('%s', %dL)", folder, folder, rank)
  log <- file.path(folder, paste0(rank, ".log"))
  # Half of R's start is the package methods, which ranks do without.
  rscript <- shQuote(file.path(R.home("bin"), "Rscript"))
  command <- paste("R_DEFAULT_PACKAGES=datasets,stats,utils", rscript, "-e", shQuote(code))
  pipe(paste(command, ">", shQuote(log), "2>&1"), open = "r")
}

# Waits for a rank. Its result, or where it had none, that and what it printed.
finish_rank <- function(rank, folder, process) {
  readLines(process)
  close(process)
  file <- file.path(folder, paste0(rank, ".rds"))
  if (file.exists(file)) return(readRDS(file))
  structure(list(log = readLines(file.path(folder, paste0(rank, ".log")))), class = "no_result")
}

# Evaluates `code` on `size` ranks and returns their results, in rank order. It sees `rank`, `size`,
# what `...` names, and open(), which is ring_init() with the arguments that fit. `meanwhile` is
# evaluated here while they run. Ranks in `lost` are expected to end without a result.
run_ranks <- function(size, code, ..., options = list(token = fresh_token(), timeout = 30),
                      lost = integer(), meanwhile = NULL) {
  if (size > 2) testthat::skip_on_cran() # which allows two processes
  folder <- tempfile("ranks")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  job <- list(size = size, code = substitute(code), data = list(...), options = options)
  saveRDS(job, file.path(folder, "job.rds"))
  libraries <- call(".libPaths", .libPaths())
  main <- c(deparse(libraries), "rank_main <-", deparse(rank_main))
  writeLines(main, file.path(folder, "main.R"))
  ranks <- seq_len(size) - 1L
  processes <- lapply(ranks, start_rank, folder)
  force(meanwhile)
  results <- Map(finish_rank, ranks, folder, processes, USE.NAMES = FALSE)
  failed <- ranks[vapply(results, inherits, NA, "no_result")]
  for (rank in setdiff(failed, lost)) {
    stop("rank ", rank, " failed:\n", paste(results[[rank + 1L]]$log, collapse = "\n"))
  }
  results
}

# The same, with an open communicator `comm` that is closed at the end.
run_ring <- function(size, code, ...) {
  body <- substitute(code)
  whole <- bquote({
    comm <- open()
    result <- .(body)
    ring_close(comm)
    result
  })
  eval(as.call(c(quote(run_ranks), size, whole, list(...))))
}

# A listening socket and its port, which was free.
listen <- function() {
  repeat {
    port <- sample(33000:60000, 1)
    socket <- tryCatch(serverSocket(port), error = function(condition) NULL)
    if (!is.null(socket)) return(list(socket = socket, port = port))
  }
}

# A world of one for the calling test, closed when the test ends.
local_world <- function(envir = parent.frame()) {
  comm <- ring_init()
  do.call(on.exit, list(bquote(ring_close(.(comm))), add = TRUE), envir = envir)
  comm
}

# Waits, in the process of a rank, for a file that another one creates.
wait_for_file <- function(file) {
  until <- Sys.time() + 30
  while (!file.exists(file) && Sys.time() < until) Sys.sleep(0.01)
}

# A function as a script would make it.
of_script <- function(f) {
  environment(f) <- globalenv()
  f
}

# A record batch of Arrow with one column of doubles, as Spark would write it.
arrow_batch <- function(x) {
  int <- function(...) writeBin(as.integer(c(...)), raw(), endian = "little")
  short <- function(...) writeBin(as.integer(c(...)), raw(), size = 2L, endian = "little")
  count <- length(x)
  metadata <- c(
    int(16), # the message
    short(12, 20, 18, 16, 4, 8), # its table of offsets: version, kind, header, length of the body
    int(12, 32, 8 * count, 0), as.raw(c(3, 0)), short(4), raw(4),
    short(10, 20, 4, 12, 16), raw(2), # the offsets of the record batch: length, nodes, buffers
    int(12, count, 0, 12, 32), raw(4),
    int(1, count, 0, 0, 0), raw(4),
    int(2, 0, 0, 0, 0, 0, 0, 8 * count, 0)
  )
  c(int(-1, length(metadata)), metadata, writeBin(as.double(x), raw(), endian = "little"))
}

# The lines of a file of batches, and such a file.
batch_line <- function(batch, skip = 0, upto = -1) paste(skip, upto, base64_text(batch))

batch_file <- function(...) {
  file <- tempfile("rows")
  writeLines(c(...), file)
  file
}

# The results of ranks that run the shipped closure with rows that Spark could have packed.
play <- function(size, f, ..., attempt = 0L, log_server = NULL, results = NULL, rows = "all",
                 collect = TRUE, read = rank_result_read) {
  job <- list(
    work = serialize(list(f = f, args = list(...)), NULL), size = size, attempt = attempt,
    token = charToRaw(fresh_token()), options = list(timeout = 30, shared_memory = FALSE),
    kinds = c(n = "d"), log_server = log_server, results = results, rows = rows,
    collect = collect
  )
  closure <- unserialize(serialize(task_closure, NULL, version = 2)) # as sparklyr ships it
  files <- vapply(seq_len(size) - 1L, function(rank) { # rank r has r rows
    batch_file("", vapply(seq_len(rank), function(n) batch_line(arrow_batch(n)), ""))
  }, "")
  rows <- run_ranks(size, job = job, closure = closure, files = files, code = {
    barrier <- list(address = as.list(rep("127.0.0.1:7", size)), partition = rank)
    closure(data.frame(value = files[[rank + 1]]), job, barrier)
  })
  read(do.call(rbind, rows))
}

# Whether a process runs; one that nobody has waited for yet has ended.
is_running <- function(pid) {
  pid <- trimws(pid)
  stat <- suppressWarnings(tryCatch(readLines(file.path("/proc", pid, "stat")), error = identity))
  if (is.character(stat)) return(!grepl("[)] [ZX] ", stat))
  !dir.exists("/proc/self") && tools::pskill(as.integer(pid), 0L)
}

# Processes that end in time.
# nolint start: object_usage_linter. testthat provides these functions.
expect_ended <- function(pids, seconds) {
  until <- Sys.time() + seconds
  while (any(vapply(pids, is_running, NA)) && Sys.time() < until) Sys.sleep(0.05)
  expect_false(any(vapply(pids, is_running, NA)))
}
# nolint end
