# SPDX-License-Identifier: Apache-2.0
#
# The R code that a document shows, in blocks as a reader pastes them:
#   Rscript blocks.R FILE     prints README.md, a *.Rmd or a *.Rd as a script
# What is in \dontrun{} is shown, too.
# A block that begins with the comment "in the closure" is part of one, and is left out, as are
# blocks that a page runs only where a framework is installed.

# The blocks, as strings; that of a help page is what example() runs, after library(sparkring).
blocks_of <- function(path) {
  if (endsWith(path, ".Rd")) {
    lines <- utils::capture.output(tools::Rd2ex(path, commentDontrun = FALSE))
    return(paste(c("library(sparkring)", lines), collapse = "\n"))
  }
  lines <- readLines(path, encoding = "UTF-8")
  begins <- grep("^ *```(r|R|\\{(r|cat)[ ,}].*)$", lines)
  begins <- begins[!grepl("(include|echo) = FALSE|eval = [a-z]", lines[begins])]
  ends <- grep("^ *``` *$", lines)
  blocks <- vapply(begins, FUN.VALUE = "", function(begin) {
    code <- lines[seq_len(min(ends[ends > begin]) - begin - 1L) + begin]
    as_script(lines[[begin]], paste(code, collapse = "\n"))
  })
  Filter(function(block) nzchar(block) && !startsWith(block, "# in the closure"), blocks)
}

# What a reader does with a block: saves a file of R, and goes on after an error that is shown.
as_script <- function(head, code) {
  if (grepl("{cat", head, fixed = TRUE)) {
    file <- sub(".*file = \"([^\"]*)\".*", "\\1", head)
    return(if (endsWith(file, ".R")) deparse1(call("writeLines", code, file)) else "")
  }
  if (!grepl("error = TRUE", head, fixed = TRUE)) return(code)
  calls <- vapply(parse(text = code, keep.source = FALSE), deparse1, "", collapse = "\n")
  paste0("try(", calls, ")", collapse = "\n")
}

if (sys.nframe() == 0L) writeLines(blocks_of(commandArgs(TRUE)), sep = "\n\n")
