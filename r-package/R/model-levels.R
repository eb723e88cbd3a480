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

# The levels of each variable of a model frame: a list with a part for each chain. A part has its
# kind, the chain, the levels that are in use, and the contrasts of the factor. Numbers have no
# parts.
levels_parts <- function(frame) {
  lapply(frame, function(x) {
    part <- function(chain, used) {
      list(list(kind = levels_kind(x), chain = chain, used = used,
                contrasts = contrasts_encode(attr(x, "contrasts"))))
    }
    if (is.factor(x)) return(part(levels(x), levels(droplevels(x))))
    if (is.character(x)) part(character(), unique(x[!is.na(x)]))
  })
}

# The parts of one variable in two blocks of rows.
levels_join <- function(parts, more) {
  for (part in more) {
    same <- Position(function(x) identical(x[-3L], part[-3L]), parts)
    if (is.na(same)) parts <- c(parts, list(part))
    else parts[[same]]$used <- union(parts[[same]]$used, part$used)
  }
  parts
}

# For each variable that has levels on any rank: the levels that any rank uses, whether they are
# ordered, and the contrasts as strings. `parts` is from levels_parts().
levels_agree <- function(comm, parts) {
  strings <- allgather_strings(comm, levels_encode(parts))
  merged <- agree(comm, if (ring_rank(comm) == 0) levels_merge(strings, names(parts)))
  count <- length(parts)
  sizes <- ring_broadcast(comm, if (is.null(merged)) integer(2L * count) else lengths(merged))
  texts <- broadcast_strings(comm, as.character(unlist(merged)))
  texts <- split(texts, factor(rep(seq_along(sizes), sizes), seq_along(sizes)))
  found <- lapply(which(sizes[seq_len(count)] > 0L), function(i) {
    text <- texts[[i]]
    list(levels = text[-1L], ordered = text[[1L]] == "ordered", contrasts = texts[[count + i]])
  })
  stats::setNames(found, names(parts)[sizes[seq_len(count)] > 0L])
}

# Strings: for each variable the number of its parts; for each part three lengths, and its elements.
levels_encode <- function(parts) {
  as.character(unlist(lapply(parts, function(parts) {
    c(length(parts), lapply(parts, function(part) {
      c(length(part$chain), length(part$used), length(part$contrasts), part$kind, part$chain,
        part$used, part$contrasts)
    }))
  })))
}

levels_decode <- function(strings) {
  place <- 0L
  take <- function(count) {
    place <<- place + count
    strings[place - count + seq_len(count)]
  }
  parts <- list()
  while (place < length(strings)) {
    count <- as.integer(take(1L))
    parts[[length(parts) + 1L]] <- lapply(seq_len(count), function(i) {
      sizes <- as.integer(take(3L))
      list(kind = take(1L), chain = take(sizes[[1L]]), used = take(sizes[[2L]]),
           contrasts = take(sizes[[3L]]))
    })
  }
  parts
}

# Merges the levels of each variable. `strings` has the strings of each rank. Returns for each
# variable the kind and the levels; and then for each variable the contrasts.
levels_merge <- function(strings, names) {
  parts <- lapply(strings, levels_decode)
  if (any(lengths(parts) != length(names))) {
    stop("the ranks have different numbers of variables: pass the same formula on all ranks",
         call. = FALSE)
  }
  parts <- lapply(seq_along(names), function(variable) {
    unlist(lapply(parts, `[[`, variable), recursive = FALSE)
  })
  unname(c(Map(function(name, parts) {
    if (length(parts) == 0L) character() else levels_of_variable(name, parts)
  }, names, parts), Map(contrasts_of_variable, names, parts)))
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
    levels <- agreed[[name]]
    column <- factor(as.character(column), levels$levels, ordered = levels$ordered)
    attr(column, "contrasts") <- contrasts_decode(levels$contrasts, levels$levels)
    frame[[name]] <- column
  }
  frame
}
