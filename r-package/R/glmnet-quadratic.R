# SPDX-License-Identifier: Apache-2.0
#
# The path of penalties, and the minimum of a quadratic function with the penalty of the elastic
# net.

# The path. `pass(b, active, whole)` is glmnet_pass(), with the whole deviance. `minimise` is
# glmnet_minimise(). The objective is half of the deviance plus
# `lambda * penalty * ((1 - alpha) / 2 * b^2 / spread + alpha * abs(b))`; an infinite penalty leaves
# a coefficient out. `many` is whether there are no fewer rows than columns. `null` is the deviance
# of the intercepts alone.
glmnet_path <- function(pass, minimise, penalty, settings, many) {
  width <- length(penalty)
  free <- which(penalty == 0)
  alone <- which(settings$intercepts)
  state <- list(b = double(width), now = pass(double(width), alone, TRUE))
  state <- glmnet_at(pass, minimise, state, alone, Inf, 1 - settings$intercepts, settings, Inf)
  null <- state$now$deviance
  if (length(free) > length(alone)) {
    state <- glmnet_at(pass, minimise, state, free, Inf, penalty, settings, Inf)
  }
  punished <- penalty > 0
  most <- max(abs(state$now$gradient)[punished] / penalty[punished], 0)
  lambda <- settings$lambda
  if (is.null(lambda)) lambda <- glmnet_lambda(most, settings, many)
  scale <- max(most, .Machine$double.xmin)
  found <- list()
  before <- max(most / max(settings$alpha, 1e-3), lambda[[1L]])
  for (step in seq_along(lambda)) {
    # The strong rules. They keep all columns after a large step, so half of the penalty is enough
    # then: columns that violate the conditions are added later.
    least_kept <- max(2 * lambda[[step]] - before, lambda[[step]] / 2)
    keep <- abs(state$now$gradient) >= settings$alpha * penalty * least_kept
    active <- which((keep | state$b != 0 | penalty == 0) & is.finite(penalty))
    state <- glmnet_at(pass, minimise, state, active, lambda[[step]], penalty, settings, scale)
    found[[step]] <- list(b = state$b, deviance = state$now$deviance, violation = state$violation)
    before <- lambda[[step]]
    if (is.null(settings$lambda) && step > 5L && glmnet_ends(found, null)) break
  }
  steps <- length(found)
  list(
    lambda = lambda[seq_len(steps)], coefficients = unlist(lapply(found, `[[`, "b")),
    deviance = vapply(found, `[[`, 1, "deviance"), null = null, steps = steps,
    violation = vapply(found, `[[`, 1, "violation")
  )
}

glmnet_lambda <- function(most, settings, many) {
  ratio <- settings$ratio
  if (is.null(ratio)) ratio <- if (many) 1e-4 else 0.01
  most <- max(most / max(settings$alpha, 1e-3), .Machine$double.xmin / ratio)
  exp(seq(log(most), log(most * ratio), length.out = settings$nlambda))
}

# The rule of glmnet: nearly all deviance is explained, or a step explains little more.
glmnet_ends <- function(found, null) {
  explained <- vapply(utils::tail(found, 2L), function(state) 1 - state$deviance / null, 1)
  explained[[2L]] > 0.999 || diff(explained) < 1e-5 * explained[[2L]]
}

# Newton's iterations at one penalty, on the `active` coefficients and those that violate the
# conditions. `state` has the coefficients `b` and `now`, the pass at `b`. A pass has the gradient
# of all coefficients only where the conditions may hold for the active ones: a step of Newton's
# method squares what is left of the violation.
glmnet_at <- function(pass, minimise, state, active, lambda, penalty, settings, scale) {
  costs <- glmnet_costs(lambda, penalty, settings)
  rates <- penalty > 0 & is.finite(penalty)
  size <- if (is.finite(scale)) scale else max(1, abs(state$now$gradient[rates]))
  limit <- settings$thresh * size
  b <- state$b
  now <- glmnet_restrict(state$now, active)
  if (is.null(now)) now <- pass(b, active, TRUE)
  for (step in seq_len(settings$maxit)) {
    violation <- glmnet_violation(now$gradient, b, costs)
    worst <- max(violation, 0, na.rm = TRUE)
    if (worst <= limit && now$whole) break
    active <- sort(union(active, which(violation > limit)))
    if (worst <= limit || length(active) > length(now$active)) now <- pass(b, active, TRUE)
    if (worst <= limit) next
    whole <- worst <= sqrt(settings$thresh) * size
    moved <- glmnet_step(pass, minimise, b, now, costs, whole)
    b <- moved$b
    now <- moved$now
  }
  if (!now$whole) now <- pass(b, active, TRUE)
  violation <- max(glmnet_violation(now$gradient, b, costs), 0) / size
  list(b = b, now = now, violation = violation)
}

# The factors of abs(b) and b^2 / 2 of each coefficient. With an infinite `lambda`, coefficients are
# 0 unless they have no penalty.
glmnet_costs <- function(lambda, penalty, settings) {
  out <- penalty > 0 & is.infinite(lambda) | is.infinite(penalty)
  known <- ifelse(out | penalty == 0, 0, lambda * penalty)
  list(first = ifelse(out, Inf, settings$alpha * known),
       second = (1 - settings$alpha) * known / settings$spread)
}

# Moves the active coefficients to the minimum of the quadratic function, or less far, so that the
# objective does not rise.
glmnet_step <- function(pass, minimise, b, now, costs, whole) {
  worth <- function(now, b) {
    now$deviance / 2 + sum((costs$first * abs(b))[b != 0]) + sum(costs$second * b^2) / 2
  }
  active <- now$active
  target <- b
  target[active] <- minimise(now$gram, now$gradient[active], b[active], costs$first[active],
                             costs$second[active])
  before <- worth(now, b)
  for (half in seq_len(30L)) {
    new <- pass(target, active, whole)
    after <- worth(new, target)
    if (is.finite(after) && after <= before + 1e-14 * (1 + abs(before))) break
    target <- (target + b) / 2
  }
  list(b = target, now = new)
}

# The same pass with fewer `active` coefficients; NULL if it lacks the curvature of one of them.
glmnet_restrict <- function(now, active) {
  place <- match(active, now$active)
  if (anyNA(place)) return()
  now$gram <- now$gram[place, place, drop = FALSE]
  now$active <- active
  now
}

# How far each coefficient is from the conditions of Karush, Kuhn and Tucker.
glmnet_violation <- function(gradient, b, costs) {
  inactive <- pmax(0, abs(gradient) - costs$first)
  slope <- ifelse(is.finite(costs$first), costs$first * sign(b), 0) + costs$second * b
  ifelse(b == 0, inactive, abs(gradient - slope))
}

# The minimum of the quadratic function with this curvature, and this negative gradient at `b`, plus
# the penalties `first * abs(b)` and `second / 2 * b^2`: coordinate descent, until the signs stay,
# and then the solution of linear equations. The small multiple of the distance from `b` makes the
# minimum unique, and does not move the fixed point of Newton's iterations.
glmnet_minimise <- function(gram, gradient, b, first, second) {
  near <- 1e-9 * mean(diag(gram))
  diag(gram) <- diag(gram) + near
  linear <- gradient + drop(gram %*% b)
  curvature <- diag(gram) + second
  slack <- 1e-13 * max(abs(linear), 1e-300)
  residual <- gradient
  signs <- NULL
  for (sweep in seq_len(2000L)) {
    start <- b
    for (j in which(curvature > 0)) {
      z <- residual[[j]] + (curvature[[j]] - second[[j]]) * b[[j]]
      new <- sign(z) * max(abs(z) - first[[j]], 0) / curvature[[j]]
      if (new == b[[j]]) next
      residual <- residual - gram[, j] * (new - b[[j]])
      b[[j]] <- new
    }
    if (identical(sign(b), signs)) {
      exact <- glmnet_exact(gram, linear, b, first, second, slack)
      if (!is.null(exact)) return(exact)
    }
    signs <- sign(b)
    if (max(abs(b - start) * sqrt(curvature), 0) < 1e-15) break
  }
  b
}

# The minimum, if its signs are those of `b`.
glmnet_exact <- function(gram, linear, b, first, second, slack) {
  used <- which(b != 0)
  exact <- double(length(b))
  if (length(used) > 0L) {
    matrix <- gram[used, used, drop = FALSE] + diag(second[used], length(used))
    solved <- attempt(solve(matrix, (linear - first * sign(b))[used]))$value
    if (is.null(solved) || any(sign(solved) != sign(b[used]))) return()
    exact[used] <- solved
  }
  rest <- abs(linear - drop(gram %*% exact)) - first
  if (all(rest[b == 0] <= slack)) exact
}
