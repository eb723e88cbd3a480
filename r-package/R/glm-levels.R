# SPDX-License-Identifier: Apache-2.0
#
# Merges the levels of factors and strings of all ranks. Levels that a rank has made from its own
# rows, as factor(x) does in a formula, are a part of the levels of all rows. So the levels of a
# rank are a chain, in which each level is before the next. The merged levels have the order that
# factor() would choose, if that order agrees with all chains, or else an order that agrees. Chains
# that contradict each other are an error. Only rank 0 merges, because the order of strings depends
# on the locale.

levels_kind <- function(x) {
  if (is.ordered(x)) "ordered" else if (is.factor(x)) "factor" else "strings"
}

# For each variable that has levels on any rank: the levels that any rank uses, and whether they are
# ordered. A rank sends, for each variable, its kind, the chain, and the levels that it uses.
levels_agree <- function(comm, frame) {
  mine <- lapply(frame, function(x) {
    if (is.factor(x)) return(c(levels_kind(x), levels(x), levels(droplevels(x))))
    if (is.character(x)) c("strings", unique(x[!is.na(x)]))
  })
  declared <- vapply(frame, nlevels, 1L)
  strings <- allgather_strings(comm, as.character(unlist(mine)))
  counts <- unname(c(lengths(mine), declared))
  counts <- matrix(ring_allgather(comm, counts), ncol = length(strings))
  merged <- agree(comm, if (ring_rank(comm) == 0) levels_merge(strings, counts, names(frame)))
  sizes <- ring_broadcast(comm, if (is.null(merged)) integer(length(mine)) else lengths(merged))
  texts <- broadcast_strings(comm, as.character(unlist(merged)))
  texts <- split(texts, factor(rep(seq_along(sizes), sizes), seq_along(sizes)))
  names(texts) <- names(frame)
  lapply(texts[sizes > 0L], function(text) {
    list(levels = text[-1L], ordered = text[[1L]] == "ordered")
  })
}

# Merges the levels of each variable. `strings` has the strings of each rank. A column of `counts`
# has, for each variable, the number of strings of the rank and the number of levels that its factor
# declares. Returns for each variable the kind, then the levels.
levels_merge <- function(strings, counts, names) {
  variables <- nrow(counts) / 2
  lapply(seq_len(variables), function(variable) {
    parts <- lapply(seq_along(strings), function(rank) {
      before <- sum(counts[seq_len(variable - 1L), rank])
      words <- strings[[rank]][before + seq_len(counts[variable, rank])]
      chain <- seq_len(counts[variables + variable, rank])
      list(kind = words[1L], chain = words[1L + chain], used = words[-c(1L, 1L + chain)])
    })
    parts <- parts[counts[variable, ] > 0]
    if (length(parts) == 0L) return(character())
    levels_of_variable(names[[variable]], parts)
  })
}

levels_of_variable <- function(name, parts) {
  kinds <- vapply(parts, `[[`, "", "kind")
  in_use <- unique(kinds[lengths(lapply(parts, `[[`, "used")) > 0L])
  if (length(in_use) > 1L && "ordered" %in% in_use) {
    stop("`", name, "` is an ordered factor on one rank and not on another: make it an ordered ",
         "factor on all ranks, or on none", call. = FALSE)
  }
  kind <- c(in_use, kinds)[[1L]]
  used <- unique(unlist(lapply(parts, `[[`, "used")))
  chains <- unique(lapply(parts[kinds != "strings"], `[[`, "chain"))
  c(kind, intersect(levels_order(name, used, chains, kind == "ordered"), used))
}

# Orders `used` and all levels of the chains so that each chain keeps its order.
levels_order <- function(name, used, chains, ordered) {
  words <- unique(c(unlist(chains), used))
  numbers <- suppressWarnings(as.numeric(words))
  by_text <- sort(words)
  by_number <- if (length(chains) > 0L && !anyNA(numbers)) words[order(numbers)]
  for (order in list(by_number, by_text)) {
    keeps <- function(chain) !is.unsorted(match(chain, order))
    if (!is.null(order) && all(vapply(chains, keeps, NA))) return(order)
  }
  levels_sort(name, if (is.null(by_number)) by_text else by_number, chains, ordered)
}

# Kahn's topological sort. Of the levels that may come next, the first in `words` is taken; in an
# ordered factor there must be only one.
levels_sort <- function(name, words, chains, ordered) {
  edges <- lapply(chains, function(chain) {
    places <- match(chain, words)
    cbind(places[-length(places)], places[-1L])
  })
  edges <- unique(do.call(rbind, edges))
  after <- split(edges[, 2L], factor(edges[, 1L], seq_along(words)))
  waits_for <- tabulate(edges[, 2L], length(words))
  sorted <- integer()
  while (length(sorted) < length(words)) {
    free <- which(waits_for == 0L)
    unclear <- ordered && length(free) > 1L
    if (length(free) == 0L || unclear) levels_stop(name, words, if (unclear) free, waits_for)
    sorted <- c(sorted, free[[1L]])
    waits_for[[free[[1L]]]] <- -1L
    following <- after[[free[[1L]]]]
    waits_for[following] <- waits_for[following] - 1L
  }
  words[sorted]
}

levels_stop <- function(name, words, free, waits_for) {
  odd <- if (is.null(free)) which(waits_for > 0L) else free
  why <- if (is.null(free)) "come in one order on one rank and in another on another rank, such as "
         else "are ordered, and no rank has the order of "
  stop("the levels of `", name, "` ", why, toString(utils::head(words[odd], 3L)), ": make the ",
       "column before the call, by factor() with the same `levels` on all ranks", call. = FALSE)
}

# Sets the levels of all columns that have levels on any rank.
levels_set <- function(frame, agreed) {
  for (name in names(agreed)) {
    column <- frame[[name]]
    if (nrow(frame) > 0L && !is.factor(column) && !is.character(column)) {
      stop("`", name, "` is ", describe(column), " here, and a factor or strings on another rank: ",
           "make it a factor on all ranks", call. = FALSE)
    }
    levels <- agreed[[name]]
    frame[[name]] <- factor(as.character(column), levels$levels, ordered = levels$ordered)
  }
  frame
}
