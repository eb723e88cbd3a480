# SPDX-License-Identifier: Apache-2.0
#
# The program of one rank: its guardian, its output, and how it has ended. Python's _mpi/program.py
# does the same.

program_kept <- 500L # characters of the last lines, for an error
program_longest <- 2^16 # bytes; a longer line is broken
program_most <- 2^20 # bytes to read after the end, where the guardian was killed

# Starts a program. `write` gets 1 or 2, for its output or its errors, and lines.
program_start <- function(pmi, command, environment, wd, write) {
  started <- .Call(C_program_start, pmi, command, environment, wd)
  program <- list2env(list(
    guardian = started[[1L]], control = started[[2L]], pipes = started[3:4],
    pid = NA_integer_, # of the program, once it has started
    ended = FALSE, started = TRUE, in_directory = TRUE, failure = NULL, last = character(),
    unwritable = FALSE
  ))
  program$readers <- lapply(1:2, function(target) {
    program_reader(function(lines) {
      program$last <- utils::tail(c(program$last, lines), lines_kept)
      program$unwritable <- TRUE # for an error that ends the write
      write(target, lines)
      program$unwritable <- FALSE
    })
  })
  program
}

# Makes a function that takes bytes, or NULL at their end, and calls `take` with lines.
program_reader <- function(take) {
  begun <- raw()
  function(bytes) {
    begun <<- c(begun, bytes[bytes != 0L])
    whole <- max(0L, which(begun == 0x0aL))
    if (is.null(bytes) || length(begun) - whole > program_longest) whole <- length(begun)
    if (whole == 0L) return()
    lines <- lines_text(begun[seq_len(whole)])
    begun <<- begun[-seq_len(whole)]
    take(lines)
  }
}

# Reads what the program has printed, after `seconds` at most. Returns the number of bytes.
program_read <- function(program, seconds) {
  open <- which(!is.na(program$pipes))
  pieces <- .Call(C_stdio_read, program$pipes[open], seconds)
  for (i in seq_along(open)) {
    which <- open[[i]]
    if (is.null(pieces[[i]])) {
      .Call(C_stdio_close, program$pipes[[which]])
      program$pipes[[which]] <- NA_integer_
    }
    program$readers[[which]](pieces[[i]])
  }
  sum(lengths(pieces))
}

# Reads how the program has started or ended.
program_receive <- function(program) {
  event <- .Call(C_program_event, program$control)
  if (is.null(event)) return()
  program$ended <- event$kind != "started"
  program$started <- !event$kind %in% c("failed", "no directory")
  program$in_directory <- event$kind != "no directory"
  if (!program$ended) program$pid <- event$value
  if (event$kind == "lost") {
    program$failure <- "was ended, because its guardian was killed"
    if (!is.na(program$pid)) .Call(C_child_kill, program$pid)
  } else {
    program$failure <- event$text
  }
}

# Ends the program with all its descendants. Then nothing writes its output any more.
program_stop <- function(program) {
  if (is.na(program$guardian)) return()
  .Call(C_program_stop, program$guardian, program$control)
  program$guardian <- NA_integer_
  if (!program$ended && !is.na(program$pid)) .Call(C_child_kill, program$pid)
}

# Reads the rest of the output.
program_drain <- function(program) {
  left <- program_most
  while (left > 0 && (bytes <- program_read(program, 0)) > 0) left <- left - bytes
  for (reader in program$readers) reader(NULL)
}

# Ends the program, and writes the rest of the output, unless that is what has failed.
program_close <- function(program) {
  on.exit(.Call(C_stdio_close, program$pipes[!is.na(program$pipes)]))
  program_stop(program)
  if (!program$unwritable) program_drain(program)
}

# The last lines of the output, for an error.
program_tail <- function(program) {
  text <- paste(program$last, collapse = "\n")
  text <- substr(text, nchar(text) - program_kept + 1L, nchar(text))
  if (grepl("\\S", text)) paste0("; its last lines:\n", text) else "; it has printed nothing"
}
