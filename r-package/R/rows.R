# SPDX-License-Identifier: Apache-2.0
#
# The rows of a model that are spread over the ranks: the same columns on every rank, as
# stats::model.frame() and stats::model.matrix() would make them of all rows together. For that the
# ranks agree on the levels of factors and strings; and what would be worked out from the rows of
# one rank alone, such as poly(x, 2), is refused. A rank may have no rows.

# A list of x, y, weights and offset of this rank, and what is the same on all: terms, levels,
# contrasts and labels.
rows_of_model <- function(comm, frame, contrasts = NULL) {
  terms <- attr(frame, "terms")
  together(comm, rows_check(frame, terms))
  levels <- rows_levels(comm, frame)
  frame <- together(comm, rows_relevel(frame, levels))
  x <- rows_matrix(comm, frame, terms, contrasts)
  y <- stats::model.response(frame, "any")
  if (is.character(y)) y <- factor(y, levels[[1L]])
  predictors <- levels[setdiff(names(levels), names(frame)[attr(terms, "response")])]
  environment(terms) <- globalenv() # else the model would take the data along
  list(
    x = x, y = y, weights = stats::model.weights(frame), offset = stats::model.offset(frame),
    terms = terms, levels = predictors, contrasts = attr(x, "contrasts"),
    response_levels = levels[[names(frame)[attr(terms, "response")]]]
  )
}

rows_check <- function(frame, terms) {
  fixed <- as.character(attr(terms, "variables"))
  moving <- fixed[as.character(attr(terms, "predvars")) != fixed]
  if (length(moving) > 0L) {
    stop(moving[[1L]], " depends on all rows, and each rank has only its own: work out what ",
         "it needs on all ranks first, and use the numbers", call. = FALSE)
  }
  if (attr(terms, "response") == 0L) stop("the formula has no response", call. = FALSE)
}

is_categorical <- function(x) is.factor(x) || is.character(x)

# The levels that any rank uses, of each variable that has levels anywhere: those of factors in
# their order, those of strings sorted, both as rank 0 does it.
rows_levels <- function(comm, frame) {
  mine <- lapply(frame, function(x) {
    if (is.factor(x)) return(c("f", levels(x), levels(droplevels(x))))
    if (is.character(x)) c("s", unique(x[!is.na(x)]))
  })
  declared <- vapply(frame, nlevels, 1L)
  told <- allgather_text(comm, as.character(unlist(mine)))
  counts <- ring_allgather(comm, c(lengths(mine), declared))
  merged <- if (ring_rank(comm) == 0) rows_merge(told, matrix(counts, ncol = length(told)))
  sizes <- ring_broadcast(comm, if (is.null(merged)) integer(length(mine)) else lengths(merged))
  levels <- broadcast_text(comm, as.character(unlist(merged)))
  levels <- split(levels, factor(rep(seq_along(sizes), sizes), seq_along(sizes)))
  names(levels) <- names(frame)
  levels[sizes > 0L]
}

# `told` are the texts of each rank; a column of `counts` says how many of them belong to each
# variable, and how many of those are the levels that its factor declares.
rows_merge <- function(told, counts) {
  variables <- nrow(counts) / 2
  lapply(seq_len(variables), function(variable) {
    words <- lapply(seq_along(told), function(rank) {
      before <- sum(counts[seq_len(variable - 1L), rank])
      told[[rank]][before + seq_len(counts[variable, rank])]
    })
    kinds <- vapply(words, function(word) if (length(word) > 0L) word[[1L]] else "", "")
    order <- lapply(seq_along(words), function(rank) {
      words[[rank]][1L + seq_len(counts[variables + variable, rank])]
    })
    used <- unlist(lapply(seq_along(words), function(rank) {
      words[[rank]][-seq_len(1L + counts[variables + variable, rank])]
    }))
    if (!any(kinds == "f")) return(sort(unique(used)))
    known <- unique(c(unlist(order[kinds == "f"]), used))
    known[known %in% used]
  })
}

rows_relevel <- function(frame, levels) {
  for (name in names(levels)) {
    if (nrow(frame) > 0L && !is_categorical(frame[[name]])) {
      stop("`", name, "` is ", describe(frame[[name]]), " here, and a factor or strings on ",
           "another rank", call. = FALSE)
    }
    ordered <- is.ordered(frame[[name]])
    frame[[name]] <- factor(as.character(frame[[name]]), levels[[name]], ordered = ordered)
  }
  frame
}

# The columns must be the same everywhere, or the ranks would add up different things.
rows_matrix <- function(comm, frame, terms, contrasts) {
  x <- together(comm, stats::model.matrix(terms, frame, contrasts))
  labels <- allgather_text(comm, colnames(x))
  together(comm, rows_check_labels(labels))
  x
}

rows_check_labels <- function(labels) {
  if (length(labels[[1L]]) == 0L) stop("the model has no terms", call. = FALSE)
  other <- which(!vapply(labels, identical, NA, labels[[1L]]))
  if (length(other) == 0L) return()
  theirs <- labels[[other[[1L]]]]
  odd <- c(setdiff(theirs, labels[[1L]]), setdiff(labels[[1L]], theirs))
  stop("ranks 0 and ", other[[1L]] - 1L, " have different columns, such as ",
       paste(utils::head(odd, 3L), collapse = ", "), ": are the types of the data the same?",
       call. = FALSE)
}
