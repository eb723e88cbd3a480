# SPDX-License-Identifier: Apache-2.0
#
# The rows of this rank in parts. Rows in memory are one part, which is held. Rows that come in
# chunks are many parts, of which one is in memory at a time. A fit visits the parts, and so needs
# not know where they are.

parts_most <- 2^28 # bytes of chunks that a rank keeps for the next visit

# `part` is a list, such as one with the columns `x` and the response `y` of its rows.
parts_held <- function(part) list(held = part, each = function(f) f(part))

# `each(f)` makes one part after another, and calls f(part).
parts_streamed <- function(each) list(held = NULL, each = each)

# The same rows with `f(part)` in place of each part.
parts_map <- function(parts, f) {
  if (!is.null(parts$held)) return(parts_held(f(parts$held)))
  parts_streamed(function(visit) parts$each(function(part) visit(f(part))))
}

# The same rows, whose parts are kept at the first visit if they are small together: then further
# visits need not make them again.
parts_keep <- function(parts) {
  if (!is.null(parts$held)) return(parts)
  kept <- NULL
  parts_streamed(function(visit) {
    if (!is.null(kept)) return(for (part in kept) visit(part))
    found <- list()
    size <- 0
    parts$each(function(part) {
      size <<- size + as.double(utils::object.size(part))
      found <<- if (size <= parts_most) c(found, list(part))
      visit(part)
    })
    if (size <= parts_most) kept <<- found
  })
}

# `f` with each of its warnings raised once, and not for every part and visit.
warn_once <- function(f) {
  raised <- character()
  function(...) {
    withCallingHandlers(f(...), warning = function(warning) {
      if (conditionMessage(warning) %in% raised) invokeRestart("muffleWarning")
      raised <<- c(raised, conditionMessage(warning))
    })
  }
}

# The sum of `f(part)` over the parts of this rank. `empty` is the sum of no parts.
parts_sum <- function(parts, empty, f) {
  total <- empty
  parts$each(function(part) total <<- total + f(part))
  total
}

# A function that adds numbers to a sum, and returns the sum. It keeps what is rounded off, so the
# sum does not depend on the sizes of parts.
exact_sum <- function() {
  state <- c(0, 0)
  function(x = double()) {
    state <<- .Call(C_glm_add, state, as.double(x))
    .Call(C_glm_total, state)
  }
}

# The state of tsqr() of all parts of this rank: `f(part)` is a list of arguments of tsqr_rows().
parts_tsqr <- function(parts, f) {
  state <- NULL
  parts$each(function(part) state <<- do.call(tsqr_rows, c(f(part), list(above = state))))
  state
}
