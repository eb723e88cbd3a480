# SPDX-License-Identifier: Apache-2.0
#
# Terms whose constants come from all rows: scale(x), poly(x, 2), ns(x, 3), bs(x, 5) and cut(x, 4).
# The ranks compute the constants together. Then each rank evaluates the term with these constants,
# as predict() does in R: they are the `predvars` of the terms. So columns, and predictions of new
# rows, are those of a fit to all rows.

# The terms of the formula with the constants, or the formula if it has no such terms. With `read`
# (see model-chunks.R) `data` is the first chunk of the rows.
reduce_terms <- function(comm, formula, data, read = NULL) {
  terms <- if (inherits(formula, "terms")) formula
           else attempt(stats::terms(formula, data = data))$value
  variables <- as.list(attr(terms, "variables"))[-1L]
  env <- environment(terms)
  variables <- lapply(variables, reduce_named, data = data, env = env)
  coded <- vapply(variables, is_coding, NA) # see model-contrasts.R
  needs <- coded | agree(comm, vapply(variables, reduce_needs, NA, data = data, env = env))
  names <- vapply(variables[needs], function(call) paste(deparse(call), collapse = " "), "")
  agree(comm, reduce_check(allgather_strings(comm, names)))
  if (length(names) == 0L) return(formula)
  variables[needs] <- lapply(variables[needs], function(call) {
    if (is_coding(call)) return(coding_factor(call))
    given <- reduce_given(comm, call, data, env)
    x <- agree(comm, reduce_rows(call, data, env, read))
    make <- reducers[[reduce_head(call)]]
    make(comm, call, x, given)
  })
  if (!is.null(env)) env <- new.env(parent = env)
  assign("ns", reduced_ns, env)
  assign("bs", reduced_bs, env)
  environment(terms) <- env
  attr(terms, "predvars") <- as.call(c(quote(list), variables))
  attr(terms, "reduced") <- which(needs)
  terms
}

reduce_check <- function(names) {
  odd <- which(!vapply(names, identical, NA, names[[1L]]))
  if (length(odd) == 0L) return()
  stop("ranks 0 and ", odd[[1L]] - 1L, " have different terms: pass the same formula on all ranks",
       call. = FALSE)
}

# The name of the function of a call, without that of a package.
reduce_head <- function(call) {
  if (!is.call(call)) return("")
  sub("^(base|stats|splines)::", "", deparse(call[[1L]])[[1L]])
}

# Whether the call is of a function with a reducer, and lacks constants.
reduce_needs <- function(call, data, env) {
  head <- reduce_head(call)
  if (!head %in% names(reducers) || length(call) < 2L) return(FALSE)
  value <- function(name, default = NULL) {
    part <- reduce_match(call)[[name]]
    if (is.null(part)) default else eval(part, data, env)
  }
  switch(head,
    scale = isTRUE(value("center", TRUE)) || isTRUE(value("scale", TRUE)),
    poly = is.null(value("coefs")) && !value("raw", FALSE) && is.null(reduce_match(call)$...),
    cut = is_number(value("breaks")), TRUE
  )
}

# The call with all arguments named.
reduce_match <- function(call) {
  make <- switch(reduce_head(call), scale = base::scale.default, poly = stats::poly,
                 cut = base::cut.default, ns = splines::ns, bs = splines::bs)
  match.call(make, call, expand.dots = FALSE)
}

# The call with the degree of poly() named: poly() takes it as its second argument, too, where
# further variables may stand.
reduce_named <- function(call, data, env) {
  dots <- if (reduce_head(call) == "poly") reduce_match(call)$...
  if (length(dots) != 1L) return(call)
  if (is.list(data) && any(all.vars(dots[[1L]]) %in% names(data))) return(call)
  if (!is_number(attempt(eval(dots[[1L]], data, env))$value)) return(call)
  named <- reduce_match(call)
  named$degree <- dots[[1L]]
  named$... <- NULL
  named
}

# The values of all arguments but the first one. The ranks agree on them before they compute
# constants: otherwise they would make different calls, or compute different columns.
reduce_given <- function(comm, call, data, env) {
  parts <- as.list(reduce_match(call))[-1L]
  parts <- parts[setdiff(names(parts), c("x", "..."))]
  given <- agree(comm, lapply(parts, function(part) {
    of_rows <- if (is.list(data)) intersect(all.vars(part), names(data))
    if (length(of_rows) > 0L) {
      stop(deparse(part)[[1L]], " in ", deparse(call)[[1L]], " depends on all rows, and each rank ",
           "has only its own: compute it on all ranks first, such as by ring_quantile()",
           call. = FALSE)
    }
    eval(part, data, env)
  }))
  texts <- vapply(given, FUN.VALUE = "", function(value) {
    paste(deparse(value, control = c("keepNA", "niceNames", "digits17")), collapse = " ")
  })
  agree(comm, reduce_check_given(allgather_strings(comm, texts), names(given), call))
  given
}

reduce_check_given <- function(texts, names, call) {
  for (rank in seq_along(texts)) {
    odd <- which(texts[[rank]] != texts[[1L]])
    if (length(odd) == 0L) next
    short <- function(rank) substr(texts[[rank]][[odd[[1L]]]], 1L, 40L)
    stop("`", names[[odd[[1L]]]], "` of ", deparse(call)[[1L]], " is ", short(rank), " on rank ",
         rank - 1L, " and ", short(1L), " on rank 0: it must be the same on all ranks; work it ",
         "out of all rows, such as by ring_quantile()", call. = FALSE)
  }
}

# The numbers of the first argument, on this rank: also those of all chunks, one vector.
reduce_rows <- function(call, data, env, read) {
  of <- function(data) {
    x <- eval(reduce_match(call)$x, data, env)
    if (is.numeric(x)) return(x + 0) # as doubles: other ranks may have no integers
    stop("`x` in ", deparse(call)[[1L]], " must be numbers, not ", describe(x), call. = FALSE)
  }
  if (is.null(read)) return(of(data))
  found <- list(of(data[0L, , drop = FALSE]))
  chunks_each(read, function(chunk) found[[length(found) + 1L]] <<- of(chunk))
  do.call(if (is.matrix(found[[1L]])) rbind else c, found)
}

# The call with these arguments in place of those named in `drop`.
reduce_call <- function(call, drop, ...) {
  call <- reduce_match(call)
  call[[1L]] <- as.name(reduce_head(call))
  call[c(drop, "...")] <- NULL
  as.call(c(as.list(call), list(...)))
}

# ---- Functions -----------------------------------------------------------------------------------
#
# `given` is a list of the arguments that the call has, without `x`.

reduce_scale <- function(comm, call, x, given) {
  moments <- columns_moments(comm, as.matrix(x), or_default(given[["center"]], TRUE),
                             or_default(given[["scale"]], TRUE))
  or_false <- function(x) if (is.null(x)) FALSE else unname(x)
  reduce_call(call, c("center", "scale"), center = or_false(moments$center),
              scale = or_false(moments$scale))
}

# The three-term recurrence of orthogonal polynomials, as poly() has it in `coefs`.
reduce_poly <- function(comm, call, x, given) {
  degree <- or_default(given[["degree"]], 1)
  agree(comm, if (anyNA(x)) stop("missing values are not allowed in 'poly'", call. = FALSE))
  sums <- ring_allreduce(comm, c(length(x), sum(x)))
  mean <- sums[[2L]] / sums[[1L]]
  mean <- mean + ring_allreduce(comm, sum(x - mean)) / sums[[1L]]
  alpha <- double(degree)
  norms <- c(1, sums[[1L]], double(degree))
  before <- double(length(x))
  now <- rep(1, length(x))
  for (i in seq_len(degree)) {
    alpha[[i]] <- mean + ring_allreduce(comm, sum((x - mean) * now^2)) / norms[[i + 1L]]
    new <- (x - alpha[[i]]) * now - norms[[i + 1L]] / norms[[i]] * before
    before <- now
    now <- new
    norms[[i + 2L]] <- ring_allreduce(comm, sum(now^2))
  }
  reduce_call(call, c("degree", "raw"), degree = degree, coefs = list(alpha = alpha, norm2 = norms))
}

# Knots at quantiles of the rows between the boundary knots.
reduce_spline <- function(comm, call, x, given) {
  x <- as.double(x[!is.na(x)])
  edges <- given[["Boundary.knots"]]
  if (is.null(edges)) edges <- reduce_range(comm, x)
  knots <- given[["knots"]]
  freedom <- given[["df"]]
  if (is.null(knots) && !is.null(freedom)) {
    used <- if (reduce_head(call) == "ns") 1 else or_default(given[["degree"]], 3)
    inner <- max(0, freedom - used - or_default(given[["intercept"]], FALSE))
    shares <- seq_len(inner) / (inner + 1)
    within <- x[x >= edges[[1L]] & x <= edges[[2L]]]
    if (inner > 0) knots <- ring_quantile(comm, within, shares, names = FALSE)
  }
  reduce_call(call, c("df", "knots", "Boundary.knots"), knots = knots, Boundary.knots = edges)
}

# ns() and bs() with constants, also where no row has a value: package splines fails without values.
reduced_ns <- function(x, ...) reduced_basis(splines::ns, x, ...)
reduced_bs <- function(x, ...) reduced_basis(splines::bs, x, ...)

reduced_basis <- function(make, x, ...) {
  if (!all(is.na(x))) return(make(x, ...))
  make(list(...)$Boundary.knots, ...)[rep(NA_integer_, length(x)), , drop = FALSE]
}

reduce_cut <- function(comm, call, x, given) {
  count <- given[["breaks"]] + 1
  edges <- reduce_range(comm, as.double(x[!is.na(x)]))
  gap <- diff(edges)
  if (gap == 0) {
    gap <- if (edges[[1L]] != 0) abs(edges[[1L]]) else 1
    breaks <- seq.int(edges[[1L]] - gap / 1000, edges[[2L]] + gap / 1000, length.out = count)
  } else {
    breaks <- seq.int(edges[[1L]], edges[[2L]], length.out = count)
    breaks[c(1L, count)] <- c(edges[[1L]] - gap / 1000, edges[[2L]] + gap / 1000)
  }
  reduce_call(call, "breaks", breaks = breaks)
}

reduce_range <- function(comm, x) {
  found <- ring_allreduce(comm, c(-min(x, Inf), max(x, -Inf)), "max")
  c(-found[[1L]], found[[2L]])
}

reducers <- list(scale = reduce_scale, poly = reduce_poly, ns = reduce_spline, bs = reduce_spline,
                 cut = reduce_cut)
