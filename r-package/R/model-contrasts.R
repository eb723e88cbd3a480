# SPDX-License-Identifier: Apache-2.0
#
# Contrasts that belong to a factor: those that `contrasts(x) <-` has set, and those of a term such
# as C(x, contr.sum). The terms of C() are evaluated when the levels of all ranks are known, because
# contrasts depend on the levels.

# Contrasts as strings: the name of their function; or the number of columns, their names if they
# have any, and the numbers.
contrasts_encode <- function(contrasts) {
  if (is.null(contrasts)) return(character())
  if (is.character(contrasts)) return(c("name", contrasts[[1L]]))
  contrasts <- as.matrix(contrasts)
  c("matrix", ncol(contrasts), length(colnames(contrasts)), colnames(contrasts),
    sprintf("%.17g", contrasts))
}

contrasts_decode <- function(strings, levels) {
  if (length(strings) == 0L) return()
  if (strings[[1L]] == "name") return(strings[[2L]])
  named <- seq_len(as.integer(strings[[3L]]))
  numbers <- as.numeric(strings[-c(1:3, 3L + named)])
  names <- if (length(named) > 0L) strings[3L + named]
  matrix(numbers, length(levels), as.integer(strings[[2L]]), dimnames = list(levels, names))
}

# The contrasts of a variable, from its parts on all ranks: see model-levels.R. As lm() does, a
# factor with levels that no row has loses them, with a warning.
contrasts_of_variable <- function(name, parts) {
  parts <- Filter(function(part) part$kind != "strings" && length(part$used) > 0L, parts)
  found <- unique(lapply(parts, `[[`, "contrasts"))
  if (length(found) == 0L || identical(found, list(character()))) return(character())
  if (length(found) > 1L) {
    stop("`", name, "` has contrasts on one rank, and others or none on another: set the same on ",
         "all ranks", call. = FALSE)
  }
  chains <- unique(lapply(parts, `[[`, "chain"))
  if (!setequal(unlist(chains), unlist(lapply(parts, `[[`, "used")))) {
    warning("contrasts dropped from factor ", name, call. = FALSE)
    return(character())
  }
  if (length(chains) > 1L) {
    stop("`", name, "` has contrasts, and ranks have other levels: make it by factor() with the ",
         "same `levels` on all ranks", call. = FALSE)
  }
  found[[1L]]
}

# ---- C() -----------------------------------------------------------------------------------------

is_coding <- function(expr) {
  is.call(expr) && deparse(expr[[1L]])[[1L]] %in% c("C", "stats::C")
}

# The factor of a term C(x, ...), without its contrasts.
coding_factor <- function(call) {
  bquote(structure(as.factor(.(match.call(stats::C, call)$object)), contrasts = NULL))
}

# Adds the contrasts of the terms C(x, ...) to the levels of all ranks, from levels_agree().
coding_set <- function(comm, terms, agreed) {
  variables <- as.list(attr(terms, "variables"))[-1L]
  coded <- variables[vapply(variables, is_coding, NA)]
  if (length(coded) == 0L) return(agreed)
  names(coded) <- vapply(coded, function(call) paste(deparse(call, 500L), collapse = " "), "")
  found <- agree(comm, lapply(names(coded), function(name) {
    of <- agreed[[name]]
    call <- match.call(stats::C, coded[[name]])
    call[[1L]] <- quote(stats::C)
    call$object <- factor(of$levels, of$levels, ordered = of$ordered)
    contrasts_encode(attr(eval(call, environment(terms)), "contrasts"))
  }))
  all <- allgather_strings(comm, as.character(unlist(found)))
  agree(comm, if (!all(vapply(all, identical, NA, all[[1L]]))) {
    stop("the contrasts of ", names(coded)[[1L]], " differ between ranks: pass the same on all ",
         "ranks", call. = FALSE)
  })
  for (i in seq_along(coded)) agreed[[names(coded)[[i]]]]$contrasts <- found[[i]]
  agreed
}
