# SPDX-License-Identifier: Apache-2.0
#
# Calls of ring_apply(), a part at a time; sparklyr.py plays sparklyr, and hands over what that
# does, in the same shapes. The first argument is the part, the second names a folder of the
# driver.

ours <- asNamespace("sparkring")
arguments <- commandArgs(TRUE)
folder <- arguments[[2]]
kinds <- c(id = "d", name = "c", day = "D", pair = "[d")
size <- 4L

fit <- function(df, comm, scale) {
  cat("looking at", nrow(df), "rows\n")
  if (nrow(df) > 0 && anyNA(df$name)) stop("no name for ", df$id[is.na(df$name)])
  while ("busy" %in% df$name) sqrt(2) # until it is ended
  total <- sparkring::ring_allreduce(comm, c(sum(df$id), nrow(df))) * as.double(scale)
  data.frame(rows = nrow(df), total = total[[1]], all = total[[2]], first = df$id[1],
             names = paste(df$name, collapse = ""), pair = sum(unlist(df$pair)),
             day = paste(range(df$day, as.Date("2020-01-03")), collapse = " "),
             files = paste(list.files(all.files = TRUE, recursive = TRUE), collapse = " "))
}

# Spark could not carry what the last ranks return, were it in one piece.
bulk <- function(df, comm) {
  seq_len(if (nrow(df) > 0) 4e6 * sparkring::ring_rank(comm) else 10) / 8
}

# Tells a text in all ways that there are, also on the line to the driver; `note` is a command that
# notes the processes.
fail <- function(df, comm, text, note) {
  cat("rank", sparkring::ring_rank(comm), "prints", text, "\n")
  print(comm)
  if (sparkring::ring_rank(comm) == 0) {
    do.call(sparkring::ring_progress, c(list(comm, 1, 1), setNames(1, text)))
    wait_for(text, file.path(folder, "errors"))
    system(note)
  }
  sparkring::ring_barrier(comm)
  if (sparkring::ring_rank(comm) == 1) stop(text)
  sparkring::ring_barrier(comm)
}

# Waits until a file has a text.
wait_for <- function(text, file) {
  deadline <- Sys.time() + 60
  while (!any(grepl(text, readLines(file, warn = FALSE), fixed = TRUE))) {
    if (Sys.time() > deadline) stop("nothing of it has come to the driver")
    Sys.sleep(0.05)
  }
}

# What is asked of Spark, a line each. `lines` has the hashes and, for rows that are dealt out, the
# partitions and how many rows each has.
sql <- function(lines) {
  if (length(lines) == 0) return(ours$batches_hashes_sql(size))
  keys <- ours$batches_keys(lines[[1]], size)
  numbers <- lapply(strsplit(lines[-1], " ", fixed = TRUE), as.double)
  counts <- if (length(numbers) > 0) do.call(ours$batches_counts, numbers)
  placed <- ours$batches_place("packing", size, counts, 10000)
  c(ours$batches_select_sql(kinds), ours$batches_lines_sql(placed, keys), ours$batches_command())
}

count <- function() c(ours$batches_place_sql(kinds), ours$batches_count_sql("counting"))

# A table that rank `rank` returns, which stays in Spark: that many rows.
returned <- function(rank) {
  table <- data.frame(
    x = c(rank + 0.1, NA, -Inf), n = c(rank, NA, -1L), l = c(TRUE, NA, FALSE),
    s = c("\u00e9\n\"\\\t", NA, ""), d = as.Date(c("2020-02-29", NA, "1969-12-31")),
    t = as.POSIXct(c(1e9 + 0.25, NA, 0), origin = "1970-01-01"), stringsAsFactors = FALSE
  )
  table$v <- list(c(0.5, NA), NA, numeric())
  table$b <- list(as.raw(c(0, 255)), NULL, raw())
  table$c <- list(list("a", NA_character_), NULL, character())
  table$e <- list(c(table$d[1], NA), NA, table$d[0])
  table$f <- list(table$t[1], NULL, NULL)
  table$o <- if (rank == 1) NA else c(1.5, NA, 3)
  table[["odd `name`"]] <- factor(c("low", NA, "high"))
  table[seq_len(rank), if (rank == 1) rev(names(table)) else names(table)]
}

# The SQL that makes rows of the tables of all ranks, and what it reads: rank, piece and text.
stored <- function(lines) {
  utils::assignInNamespace("kept_rows", 2L, "sparkring")
  packed <- lapply(seq_len(size) - 1L, function(rank) ours$kept_pack(returned(rank)))
  agreed <- ours$kept_agree(lapply(packed, function(each) list(table = each["types"])))
  strings <- unlist(lapply(seq_len(size) - 1L, function(rank) {
    strings <- packed[[rank + 1L]]$strings
    if (length(strings) > 0) paste(rank, seq_along(strings), strings)
  }))
  c(ours$kept_sql("kept", agreed, ours$batches_keys(lines[[1]], size)), rev(strings))
}

# The SQL that writes columns of these types as JSON, that packs them, and that reads texts().
carried <- function(types) {
  codes <- paste0("c", seq_along(types))
  c(ours$carry_read_sql("texts", codes, types, c(double = "double", class = "string")),
    ours$carry_write_sql(codes, types), ours$batches_select_sql(c(c1 = "d", carried = "c")))
}

# The texts of batches, two rows in each, with columns that R adds; or an error.
texts <- function(batches) {
  utils::assignInNamespace("kept_bytes", 1L, "sparkring")
  f <- function(rows, context) {
    if (anyNA(rows$id)) stop("no id")
    list(2 * rows$id, ifelse(rows$id == 1, NA, "\u00e9\""))
  }
  job <- list(f = f, kinds = c(id = "d"))
  ours$carry_main(list(lapply(batches, ours$base64_bytes)), job)$text
}

# The driver's part: calls a function with `arguments`, each as name=value.
drive <- function(name, arguments) {
  Sys.umask("077")
  replaced <- list(slots_wait = function(...) size, slots_conf = function(...) "localhost",
                   barrier_job_launch = launch, random_bytes = draw)
  for (each in names(replaced)) utils::assignInNamespace(each, replaced[[each]], "sparkring")
  args <- setNames(as.list(sub(".*?=", "", arguments, perl = TRUE)), sub("=.*", "", arguments))
  job <- ours$driver_job(get(name), args, 2L, NULL, size, NULL, 60, 0, list())
  job[c("kinds", "rows", "collect", "progress")] <- list(kinds, "all", TRUE, TRUE)
  tryCatch(
    emit(ours$barrier_job_run(NULL, job, identity, NULL, FALSE, NULL, 60, 0)),
    error = function(error) {
      cat(class(error)[[1]], error$rank, conditionMessage(error), sep = "\n")
      writeLines(capture.output(print(unclass(error))), stderr())
    }
  )
}

# Tables whole, and of vectors their lengths and sums.
emit <- function(values) {
  if (is.data.frame(values)) return(write.csv(values, row.names = FALSE))
  for (value in values) cat(length(value), sum(value), "\n")
}

# In place of barrier_job_launch(): tasks get the job in a file, and rows come by stdin.
launch <- function(job, table, packages) {
  context <- list(column_types = list(), partition_index_param = "", user_context = job)
  saveRDS(list(closure = serialize(ours$task_closure, NULL, version = 2),
               context = serialize(context, NULL, version = 2)), file.path(folder, "job.rds"))
  cat("sent\n")
  rows <- read.table(file("stdin"), col.names = names(ours$task_columns), stringsAsFactors = FALSE)
  list(rank_results = ours$rank_result_read(rows))
}

# In place of random_bytes(): a file has what was drawn, for the test that looks for it elsewhere.
random <- ours$random_bytes
draw <- function(length) {
  bytes <- random(length)
  cat(paste(bytes, collapse = ""), "\n", file = file.path(folder, "drawn"), append = TRUE)
  bytes
}

# In a task: from stdin come the barrier, as an R expression, and the name of the file of rows.
work <- function() {
  input <- file("stdin")
  lines <- readLines(input)
  close(input)
  sent <- readRDS(file.path(folder, "job.rds"))
  closure <- unserialize(sent$closure)
  context <- unserialize(sent$context)
  df <- data.frame(value = lines[-1])
  barrier <- eval(parse(text = lines[[1]]))
  arguments <- list(df, context$user_context, barrier = barrier)[0:length(formals(closure))]
  rows <- do.call(closure, arguments)
  stopifnot(identical(names(rows), names(ours$task_columns)))
  write.table(rows, row.names = FALSE, col.names = FALSE, quote = FALSE)
}

switch(arguments[[1]],
  sql = writeLines(sql(arguments[-(1:2)])), count = writeLines(count()), work = work(),
  stored = writeLines(stored(arguments[-(1:2)])), carried = writeLines(carried(arguments[-(1:2)])),
  texts = writeLines(enc2utf8(texts(arguments[-(1:2)])), useBytes = TRUE),
  drive = drive(arguments[[3]], arguments[-(1:3)])
)
