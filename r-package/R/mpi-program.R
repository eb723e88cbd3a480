# SPDX-License-Identifier: Apache-2.0
#
# The program of one rank: its guardian, its output, and how it has ended. Python's _mpi/program.py
# does the same.

program_kept <- 500L # characters of the last lines, for an error
program_most <- 2^20 # bytes to read after the end
program_longest <- .Machine$integer.max # of a line: none is cut

# Starts a program. `write` gets 1 or 2, for its output or its errors, and lines.
program_start <- function(pmi, command, environment, wd, write) {
  started <- .Call(C_program_start, pmi, command, environment, wd)
  program <- list2env(list(
    process = started[[1L]], control = started[[2L]], pipes = started[3:4], end = NULL,
    last = character()
  ))
  program$readers <- lapply(1:2, function(target) {
    lines_reader(longest = program_longest, take = function(lines) {
      program$last <- utils::tail(c(program$last, lines), lines_kept)
      write(target, lines)
    })
  })
  program
}

# Handles what the program has printed, after `seconds` at most. Returns the number of bytes.
program_read <- function(program, seconds) {
  open <- which(!is.na(program$pipes))
  pieces <- .Call(C_stdio_read, program$pipes[open], seconds)
  for (i in seq_along(open)) {
    which <- open[[i]]
    if (is.null(pieces[[i]])) {
      .Call(C_stdio_close, program$pipes[[which]])
      program$pipes[[which]] <- NA_integer_
    }
    program$readers[[which]]$feed(pieces[[i]])
  }
  sum(lengths(pieces))
}

# Handles output, and learns of the end.
program_step <- function(program, seconds) {
  program_read(program, seconds)
  program$end <- .Call(C_program_end, program$control)
}

# Handles the rest of the output.
program_drain <- function(program) {
  left <- program_most
  while (left > 0 && (bytes <- program_read(program, 0)) > 0) left <- left - bytes
  for (reader in program$readers) reader$finish()
}

# The last lines of the output, for an error.
program_tail <- function(program) {
  if (isFALSE(program$end$started)) return("")
  text <- paste(program$last, collapse = "\n")
  text <- substr(text, nchar(text) - program_kept + 1L, nchar(text))
  if (grepl("\\S", text)) paste0("; its last lines:\n", text) else "; it has printed nothing"
}

# Ends the program and its descendants.
program_close <- function(program) {
  .Call(C_program_close, program$process, program$control)
  .Call(C_stdio_close, program$pipes[!is.na(program$pipes)])
}
