# SPDX-License-Identifier: Apache-2.0
#
# A multilayer perceptron: sigmoid layers and a softmax at the end, trained on all rows at once by
# L-BFGS. Parameters are one vector for the optimiser, layer after layer: weights, then biases.

#' Train a neural network (multilayer perceptron) on data on many ranks
#'
#' `ring_mlp()` trains a classifier like Spark's `MultilayerPerceptronClassifier`: layers of sigmoid
#' units, a softmax over the classes, cross-entropy, and L-BFGS on all rows of all ranks. All ranks
#' call it, each with its own rows. Each step sums a gradient over the ranks, so the result is that
#' of all rows together, up to rounding.
#'
#' @inheritParams ring_allreduce
#' @param formula A formula: the classes, a factor or strings, on the left side, and the predictors
#'   on the right side, as for [ring_glm()].
#' @param data A data frame with the rows of this rank, which may be none.
#' @param hidden The number of units of each hidden layer, whole numbers from 1. `integer()`: no
#'   hidden layer, which is multinomial regression.
#' @param decay The weight of a penalty, one number, 0 or more. `decay` times half the sum of the
#'   squared weights, without biases, is added to the mean cross-entropy.
#' @param max_iter The largest number of iterations of L-BFGS, a whole number.
#' @param tol One number: the training stops when an iteration reduces the loss by less than this
#'   fraction.
#' @param scale Whether to scale the predictors to mean 0 and standard deviation 1 over all ranks
#'   first: `TRUE` or `FALSE`.
#' @returns An object of class `ring_mlp`, the same on all ranks: a list with `weights` (a matrix
#'   for each layer, with the biases in the last row), `layers` (the number of units of each layer),
#'   `levels` (the classes), `loss`, `evaluations` (how often the loss was computed) and
#'   `converged`. `predict(fit, newdata)` returns the class of each row, a factor; with `type =
#'   "prob"` it returns a matrix of probabilities, with a column for each class. `predict()` needs
#'   no communicator.
#' @details Initial weights are uniform in \eqn{\pm\sqrt{6 / (inputs + outputs)}} (Glorot and
#'   Bengio, 2010). Rank 0 draws them, so [set.seed()] on rank 0 makes them reproducible.
#' @inheritSection ring_glm Levels
#' @inheritSection ring_glm Terms
#' @inheritSection ring_glm Errors
#' @references X. Glorot and Y. Bengio (2010). Understanding the difficulty of training deep
#'   feedforward neural networks. *Proceedings of AISTATS*.
#' @seealso [ring_glm()], [ring_optim()]
#' @examples
#' comm <- ring_init()
#' set.seed(1)
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(iris)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_mlp(comm, Species ~ ., data = iris[rows, ], hidden = 8)
#' mean(predict(fit, iris) == iris$Species)
#' ring_close(comm)
#' @export
ring_mlp <- function(comm, formula, data, hidden = 8L, decay = 0, max_iter = 100L, tol = 1e-6,
                     scale = TRUE) {
  call <- match.call()
  valid <- is.numeric(hidden) && all(is.finite(hidden) & hidden >= 1 & hidden == trunc(hidden))
  if (!valid) check_stop("`hidden` must be whole numbers, 1 or more, not ", describe(hidden))
  max_iter <- check_whole(max_iter, "max_iter", least = 1)
  frame <- call[c(1L, match(c("formula", "data"), names(call), 0L))]
  frame[[1L]] <- quote(stats::model.frame)
  frame <- agree(comm, rows_frame(frame, parent.frame()))
  rows <- rows_of_model(comm, frame, if (!missing(data)) data)
  if (length(rows$response_levels) < 2L) {
    check_stop("the response has ", length(rows$response_levels), " classes: it must be a factor ",
               "or strings with at least two classes")
  }
  x <- rows$x[, colnames(rows$x) != "(Intercept)", drop = FALSE]
  if (ncol(x) == 0L) check_stop("the model has no predictors: add them to the right of `formula`")
  moments <- columns_moments(comm, x, check_flag(scale, "scale"), scale)
  count <- moments$counts[[1L]]
  if (scale) moments$scale[moments$scale == 0] <- 1
  classes <- seq_along(rows$response_levels)
  layers <- c(ncol(x), as.integer(hidden), length(classes))
  truth <- outer(as.integer(factor(rows$y, rows$response_levels)), classes, `==`)
  loss <- mlp_loss(columns_scale(x, moments), truth, layers, decay, count, ring_size(comm))
  fit <- ring_optim(
    comm, mlp_draw(layers), loss$value, loss$gradient,
    method = "L-BFGS-B",
    control = list(maxit = max_iter, factr = tol / .Machine$double.eps, lmm = 10)
  )
  structure(class = "ring_mlp", list(
    call = scope_call(call), terms = rows$terms, xlevels = rows$levels, contrasts = rows$contrasts,
    levels = rows$response_levels, layers = layers, weights = mlp_unpack(fit$par, layers),
    moments = moments[c("center", "scale")], loss = fit$value,
    evaluations = fit$counts[["function"]], converged = fit$convergence == 0L
  ))
}

mlp_lengths <- function(layers) (layers[-length(layers)] + 1L) * layers[-1L]

# Biases begin at 0.
mlp_draw <- function(layers) {
  unlist(lapply(seq_along(layers[-1L]), function(layer) {
    from <- layers[[layer]]
    to <- layers[[layer + 1L]]
    reach <- sqrt(6 / (from + to))
    rbind(matrix(stats::runif(from * to, -reach, reach), from), 0)
  }))
}

mlp_unpack <- function(par, layers) {
  parts <- split(par, rep(seq_along(layers[-1L]), mlp_lengths(layers)))
  Map(function(part, from) matrix(part, from + 1L), unname(parts), layers[-length(layers)])
}

# The outputs of every layer for the rows `x`, beginning with x itself. The last are probabilities.
mlp_forward <- function(x, weights) {
  outputs <- list(x)
  for (layer in seq_along(weights)) {
    sums <- cbind(outputs[[layer]], rep(1, nrow(x))) %*% weights[[layer]]
    outputs[[layer + 1L]] <- if (layer < length(weights)) mlp_sigmoid(sums) else mlp_softmax(sums)
  }
  outputs
}

mlp_sigmoid <- function(sums) 1 / (1 + exp(-sums)) # plogis() makes a vector of no rows

mlp_softmax <- function(sums) {
  largest <- sums[cbind(seq_len(nrow(sums)), max.col(sums, "first"))]
  powers <- exp(sums - largest)
  powers / rowSums(powers)
}

# This rank's part of the loss and of its gradient. Both share one computation for the same
# parameters.
mlp_loss <- function(x, truth, layers, decay, count, size) {
  last <- NULL
  at <- function(par) {
    if (!identical(last$par, par)) last <<- c(list(par = par), mlp_compute(x, truth, par, layers))
    last
  }
  places <- mlp_unpack(seq_len(sum(mlp_lengths(layers))), layers)
  penalised <- unlist(lapply(places, function(place) place[-nrow(place), ])) # not the biases
  list(
    value = function(par) at(par)$loss / count + decay / 2 * sum(par[penalised]^2) / size,
    gradient = function(par) {
      gradient <- at(par)$gradient / count
      gradient[penalised] <- gradient[penalised] + decay * par[penalised] / size
      gradient
    }
  )
}

# The cross-entropy of these rows and, by backpropagation, its gradient.
mlp_compute <- function(x, truth, par, layers) {
  weights <- mlp_unpack(par, layers)
  outputs <- mlp_forward(x, weights)
  found <- outputs[[length(outputs)]]
  error <- found - truth
  gradients <- list()
  for (layer in rev(seq_along(weights))) {
    input <- outputs[[layer]]
    gradients[[layer]] <- crossprod(cbind(input, rep(1, nrow(x))), error)
    inner <- weights[[layer]][-nrow(weights[[layer]]), , drop = FALSE]
    error <- tcrossprod(error, inner) * input * (1 - input) # of the layer before, if there is one
  }
  list(loss = -sum(log(pmax(found[truth], .Machine$double.xmin))), gradient = unlist(gradients))
}

#' @export
print.ring_mlp <- function(x, ...) {
  cat("<ring_mlp> layers ", paste(x$layers, collapse = "-"), ", classes ",
      paste(x$levels, collapse = ", "), ", loss ", format(x$loss, digits = 4L), " after ",
      x$evaluations, " evaluations", if (!x$converged) ", not converged", "\n", sep = "")
  invisible(x)
}

#' @export
predict.ring_mlp <- function(object, newdata, type = c("class", "prob"), ...) {
  type <- match.arg(type)
  x <- rows_predict(object, newdata)$x
  x <- columns_scale(x[, colnames(x) != "(Intercept)", drop = FALSE], object$moments)
  known <- stats::complete.cases(x)
  outputs <- mlp_forward(x[known, , drop = FALSE], object$weights)
  found <- matrix(NA_real_, nrow(x), length(object$levels), dimnames = list(NULL, object$levels))
  found[known, ] <- outputs[[length(outputs)]]
  if (type == "prob") return(found)
  best <- rep(NA_integer_, nrow(x))
  best[known] <- max.col(found[known, , drop = FALSE], "first")
  factor(object$levels[best], object$levels)
}
