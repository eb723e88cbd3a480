# SPDX-License-Identifier: Apache-2.0
#
# The parts of ring_apply() that sparklyr would run, one a call; test_r_apply.py plays sparklyr, and
# hands over what that does, in the same shapes. The first argument says which part, the second
# names a folder of the driver.

ours <- asNamespace("sparkring")
arguments <- commandArgs(TRUE)
folder <- arguments[[2]]
kinds <- c(id = "double", name = "character", day = "date", pair = "doubles")
size <- 4L

fit <- function(df, comm, scale, token) {
  cat("looking at", nrow(df), "rows\n")
  if (nrow(df) > 0 && anyNA(df$name)) stop("no name for ", df$id[is.na(df$name)])
  while ("busy" %in% df$name) sqrt(2) # until it is ended
  total <- sparkring::ring_allreduce(comm, c(sum(df$id), nrow(df))) * scale
  data.frame(rows = nrow(df), total = total[[1]], all = total[[2]], first = df$id[1],
             names = paste(df$name, collapse = ""), pair = sum(unlist(df$pair)),
             day = paste(range(df$day, as.Date("2020-01-03")), collapse = " "),
             tells = tells(token), files = paste(list.files(all.files = TRUE, recursive = TRUE),
                                                 collapse = " "))
}

# Whether an environment variable of this rank, or of the process that supervises it, holds the
# token, as R prints it or in hex.
tells <- function(token) {
  bytes <- readBin(sprintf("/proc/%d/environ", ours$child_parent()), "raw", 1e6)
  variables <- c(Sys.getenv(), rawToChar(bytes[bytes != 0]))
  forms <- c(paste(token, collapse = " "), paste(token, collapse = ""))
  any(sapply(forms, grepl, tolower(variables), fixed = TRUE))
}

# What is asked of Spark, a line each.
sql <- function(hashes) {
  if (length(hashes) == 0) return(ours$cells_hashes_sql(size))
  keys <- ours$cells_keys(hashes, size)
  c(ours$cells_select_sql(kinds, keys, deal = FALSE), ours$cells_empty_sql(keys),
    ours$cells_pack_sql("packing", size))
}

# What is sent to the tasks.
send <- function() {
  token <- ours$apply_random(32)
  work <- serialize(list(f = fit, args = list(scale = 2, token = token)), NULL)
  job <- list(
    work = work, size = size, attempt = 0L, token = token, options = list(timeout = 60),
    cells = kinds
  )
  context <- list(column_types = list(), partition_index_param = "", user_context = job)
  saveRDS(list(closure = serialize(ours$rank_closure, NULL, version = 2),
               context = serialize(context, NULL, version = 2)), file.path(folder, "job.rds"))
}

# In a task: from stdin come the barrier, as an R expression, and the rows, chunk and text in hex.
work <- function() {
  input <- file("stdin")
  lines <- readLines(input)
  close(input)
  sent <- readRDS(file.path(folder, "job.rds"))
  closure <- unserialize(sent$closure)
  context <- unserialize(sent$context)
  cells <- strsplit(lines[-1], " ", fixed = TRUE)
  text <- vapply(cells, function(cell) rawToChar(ours$cells_raw(c(cell, "")[[2]])), "")
  Encoding(text) <- "UTF-8"
  df <- data.frame(chunk = as.double(vapply(cells, `[[`, "", 1)), text = text)
  barrier <- eval(parse(text = lines[[1]]))
  arguments <- list(df, context$user_context, barrier = barrier)[0:length(formals(closure))]
  rows <- do.call(closure, arguments)
  stopifnot(identical(names(rows), names(ours$rank_columns)))
  write.table(rows, row.names = FALSE, col.names = FALSE, quote = FALSE)
}

# What the user gets; the rows of all tasks come by stdin.
result <- function() {
  rows <- read.table(file("stdin"), col.names = names(ours$rank_columns), stringsAsFactors = FALSE)
  outcomes <- ours$outcome_read(rows)
  error <- ours$outcome_judge(outcomes, size, 0L)
  if (is.null(error)) {
    write.csv(ours$outcome_values(outcomes), row.names = FALSE)
  } else {
    cat(class(error)[[1]], error$rank, conditionMessage(error), sep = "\n")
  }
}

switch(arguments[[1]],
  sql = writeLines(sql(arguments[-(1:2)])), send = send(), work = work(), result = result()
)
