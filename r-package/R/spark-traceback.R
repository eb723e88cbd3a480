# SPDX-License-Identifier: Apache-2.0
#
# The calls that led to an error of the user's function, for the error on the driver. A traceback
# has the user's calls, from the call of the function to the last call before the error. It leaves
# out functions that raise (stop(), rlang::abort() and the like), and calls that a function of this
# package makes of internal functions.

traceback_longest <- 2^16 # characters
traceback_raisers <- c("rlang", "cli") # packages whose calls at the end only raise
traceback_base <- c(
  ".handleSimpleError", ".signalSimpleWarning", "doWithOneRestart", "signalCondition", "stop",
  "warning", "withOneRestart", "withRestarts",
  "originalStop" # sparklyr puts a stop() of its own before it
)
# Calls by which base R finds a handler, anywhere between the user's calls.
traceback_handling <- c(
  ".handleSimpleError", "doTryCatch", "doWithOneRestart", "originalStop", "tryCatchList",
  "tryCatchOne", "withOneRestart"
)

# The calls above a calling handler, with the package of each function. The handler calls it.
traceback_frames <- function() {
  last <- sys.nframe() - 2L # without this call and the handler
  list(
    calls = sys.calls()[seq_len(last)],
    packages = vapply(seq_len(last), function(i) traceback_package(sys.function(i)), "")
  )
}

traceback_package <- function(f) {
  if (is.primitive(f)) return("base")
  top <- topenv(environment(f))
  if (isNamespace(top)) getNamespaceName(top)[[1L]] else environmentName(top)
}

# Formats the calls as numbered lines, the outermost call first.
traceback_text <- function(frames) {
  shown <- traceback_shown(frames)
  if (length(shown) == 0L) return("")
  lines <- vapply(frames$calls[shown], function(call) {
    paste(utils::head(deparse(call, width.cutoff = 90L), 3L), collapse = "\n     ")
  }, "")
  text <- paste0(sprintf("%3d. ", seq_along(lines)), lines, collapse = "\n")
  substr(text, 1L, traceback_longest)
}

# Selects the frames of the user.
traceback_shown <- function(frames) {
  names <- vapply(frames$calls, function(call) paste(deparse(call[[1L]]), collapse = " "), "")
  outside <- match("task_call", names, nomatch = 0L)
  if (outside == 0L) return(integer())
  first <- outside + match("f", names[-seq_len(outside)], nomatch = 1L)
  raises <- frames$packages %in% traceback_raisers |
    sub("^base::", "", names) %in% traceback_base
  own <- frames$packages == "sparkring"
  internal <- own & c(FALSE, own[-length(own)])
  left_out <- raises | internal
  last <- length(names)
  while (last > first && left_out[[last]]) last <- last - 1L
  shown <- seq(first, length.out = max(0L, last - first + 1L))
  inside <- internal | names %in% traceback_handling
  shown[!inside[shown] | shown == first]
}
