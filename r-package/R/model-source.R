# SPDX-License-Identifier: Apache-2.0
#
# The sources of the columns of a model on this rank: the rows, in `data` or beside it, and
# constants and functions of the user, such as k in I(x^k).
#
# A rank computes each term from its own rows. That is correct for log(x), and wrong for x -
# mean(x). To distinguish them, the term is computed for a part of the rows: the values must be the
# same as for all rows. For predictions in other processes, a model has the constants and functions
# of its terms, but neither rows nor the environments that hold rows.

# `further` are expressions that are computed like terms, `offset` and others.
source_of <- function(terms, data, further = list()) {
  env <- environment(terms)
  reduced <- attr(terms, "reduced")
  evaluated <- as.list(attr(terms, "predvars"))[-1L]
  terms <- as.list(attr(terms, "variables"))[-1L]
  terms[reduced] <- evaluated[reduced]
  further <- Filter(Negate(is.null), further)
  data <- as.list(data)
  response <- suppressWarnings(attempt(eval(terms[[1L]], data, env)))$value
  count <- NROW(response) # 0 where it needs rows
  names <- unique(unlist(lapply(c(terms, further), scope_vars)))
  found <- c(data[intersect(names, names(data))], source_outside(setdiff(names, names(data)), env))
  list(
    terms = terms, further = further, env = env, data = names(data), count = count,
    rows = Filter(function(x) (is.atomic(x) || is.list(x)) && NROW(x) == count, found)
  )
}

source_outside <- function(names, env) {
  found <- lapply(names, function(name) attempt(get0(name, env))$value)
  stats::setNames(found, names)
}

# ---- Row by row? ---------------------------------------------------------------------------------

source_sample <- 1000 # rows

# The first expression, as text, whose values differ for a part of the rows; or NULL. Expressions
# with random numbers are not checked, and the generator keeps its state.
source_moving <- function(source) {
  if (source$count < 2L) return(NULL)
  scope <- globalenv()
  if (!exists(".Random.seed", scope, inherits = FALSE)) stats::runif(1L)
  seed <- scope$.Random.seed
  count <- min(source$count, source_sample)
  rows <- lapply(source$rows, pick, round(seq(1, source$count, length.out = count)))
  columns <- Filter(Negate(is.data.frame), rows) # a rank may index the rows of its own data frame
  judge <- function(expr, rows) {
    moves <- source_moves(expr, rows[intersect(all.vars(expr), names(rows))], count, source$env)
    random <- !identical(scope$.Random.seed, seed)
    scope$.Random.seed <- seed
    moves && !random
  }
  found <- c(Find(function(expr) judge(expr, rows), Filter(is.call, source$terms)),
             Find(function(expr) judge(expr, columns), Filter(is.call, source$further)))
  if (length(found) > 0L) deparse(found[[1L]])[[1L]]
}

# Whether the values of an expression depend on the rows that it is computed for. The parts are
# halves in the order of each column and of the rows, and single rows. They detect a dependence on
# means, ranges, ranks, quantiles, codes and positions. An error of a part is ignored.
source_moves <- function(expr, rows, count, env) {
  at <- function(i) suppressWarnings(attempt(eval(expr, lapply(rows, pick, i), env)))$value
  whole <- at(seq_len(count))
  if (length(rows) == 0L || is.null(whole) || NROW(whole) != count) return(FALSE)
  differs <- function(part) {
    found <- at(part)
    NROW(found) == length(part) && !is_same(found, pick(whole, part))
  }
  !is.null(Find(differs, source_parts(rows, count)))
}

source_parts <- function(rows, count) {
  half <- seq_len(count) <= count / 2
  parts <- list(which(half), which(!half))
  for (row in Filter(function(x) is.atomic(x) && length(x) == count, rows)) {
    order <- order(row)
    last <- order[[max(1L, sum(!is.na(row)))]]
    parts <- c(parts, list(sort(order[half]), sort(order[!half]), order[[1L]], last))
  }
  unique(parts)
}

pick <- function(x, i) if (length(dim(x)) == 2L) x[i, , drop = FALSE] else x[i]

# Ignores levels, attributes and the rounding of a sum.
is_same <- function(a, b) {
  if (is.list(a) && is.list(b)) return(all(mapply(is_same, a, b)))
  if (!is.numeric(a) || !is.numeric(b)) return(identical(as.character(a), as.character(b)))
  a <- as.vector(a)
  b <- as.vector(b)
  known <- is.finite(a) & is.finite(b)
  identical(a[!known], b[!known]) && all(abs(a - b)[known] <= 1e-9 * max(0, abs(b[known])))
}

# ---- Units and codes -----------------------------------------------------------------------------

# The kinds of the variables of a frame, of the variables that its terms are computed from, and of
# differences of times in them, whose units R chooses from the rows. Terms that use the codes of a
# factor have its levels, too.
source_kinds <- function(frame, source) {
  within <- source$rows[setdiff(names(source$rows), names(frame))]
  c(lapply(frame, kind_known), lapply(Filter(is.atomic, within), kind_known),
    source_durations(source), source_coded(source))
}

# The kinds of the differences of times in the terms: a named list. R chooses the units of b - a
# from the rows, unless difftime() gets `units`.
source_durations <- function(source) {
  found <- list()
  walk <- function(expr) {
    if (!is.call(expr)) return()
    head <- sub("^base::", "", deparse(expr[[1L]])[[1L]])
    if (head == "difftime" || head == "-" && length(expr) == 3L) {
      value <- suppressWarnings(attempt(eval(expr, source$rows, source$env)))$value
      if (inherits(value, "difftime")) found[[deparse(expr)[[1L]]]] <<- kind_known(value)
    }
    for (part in as.list(expr)[-1L]) if (!missing(part)) walk(part)
  }
  for (expr in c(source$terms, source$further)) walk(expr)
  found
}

# The levels of the factors whose codes a term uses, as as.integer(f) does: a named list of kinds.
# To find such a term, it is computed for the factor with its levels in another order.
source_coded <- function(source) {
  factors <- Filter(function(x) is.factor(x) && nlevels(x) > 1L, source$rows)
  exprs <- Filter(is.call, c(source$terms, source$further))
  count <- min(source$count, source_sample)
  rows <- lapply(source$rows, pick, seq_len(count))
  names <- Filter(function(name) {
    other <- rows
    other[[name]] <- factor(rows[[name]], rev(levels(rows[[name]])))
    uses <- function(expr) {
      name %in% all.vars(expr) && !is_same(source_value(expr, rows, source$env),
                                           source_value(expr, other, source$env))
    }
    !is.null(Find(uses, exprs))
  }, names(factors))
  lapply(factors[names], function(x) c("levels", levels(x)))
}

# The value of an expression, with the random numbers of one seed; NULL if it fails.
source_value <- function(expr, rows, env) {
  scope <- globalenv()
  seed <- scope$.Random.seed
  on.exit(if (is.null(seed)) rm(".Random.seed", envir = scope) else scope$.Random.seed <- seed)
  set.seed(1)
  suppressWarnings(attempt(eval(expr, rows, env)))$value
}

# ---- Constants and functions ---------------------------------------------------------------------

# Makes an environment with the constants and functions of the terms and of `offset`. A variable
# that is not in the data is a constant if on any rank its length is not the number of rows. A
# constant in a term must be the same on all ranks.
source_scope <- function(comm, source) {
  exprs <- c(source$terms, source$further["offset"])
  names <- setdiff(unique(unlist(lapply(exprs, scope_vars))), source$data)
  constant <- function(x) (is.atomic(x) || is.list(x)) && !is.null(x) && !is.data.frame(x)
  beside <- Filter(constant, source_outside(names, source$env))
  sure <- unlist(allgather_strings(comm, setdiff(names(beside), names(source$rows))))
  in_terms <- beside[intersect(names(beside), unlist(lapply(source$terms, scope_vars)))]
  constants <- allgather_strings(comm, c(rbind(names(in_terms), vapply(in_terms, source_text, ""))))
  agree(comm, source_check_constants(constants, sure))
  heads <- lapply(exprs, function(expr) setdiff(all.names(expr), all.vars(expr)))
  scope_make(intersect(names(beside), sure), unique(unlist(heads)), source$env)
}

# The text of a constant; of a long one only the length.
source_text <- function(x) {
  if (length(unlist(x)) > 1000L) return(paste("of length", length(x)))
  paste(deparse(x, control = c("keepNA", "niceNames", "showAttributes")), collapse = " ")
}

source_check_constants <- function(constants, sure) {
  first <- list()
  for (rank in seq_along(constants)) {
    names <- constants[[rank]][c(TRUE, FALSE)]
    texts <- constants[[rank]][c(FALSE, TRUE)]
    for (name in intersect(names, sure)) {
      text <- texts[names == name]
      if (is.null(first[[name]])) first[[name]] <- list(rank = rank - 1L, text = text)
      if (identical(first[[name]]$text, text)) next
      stop("`", name, "` is ", substr(text, 1L, 40L), " on rank ", rank - 1L, " and ",
           substr(first[[name]]$text, 1L, 40L), " on rank ", first[[name]]$rank, ": what is not a ",
           "column must be the same on all ranks; work it out of all rows, such as by ",
           "ring_allreduce()", call. = FALSE)
    }
  }
}
