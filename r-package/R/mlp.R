# SPDX-License-Identifier: Apache-2.0
#
# A multilayer perceptron: sigmoid layers, and at the end a softmax over classes or, for numbers, a
# linear unit. It is trained on all rows at once by L-BFGS. Parameters are one vector for the
# optimizer, layer after layer: weights, then biases.

#' Train a neural network (multilayer perceptron) on data on many ranks
#'
#' `ring_mlp()` trains a classifier like Spark's `MultilayerPerceptronClassifier`: layers of sigmoid
#' units, a softmax over the classes, cross-entropy, and L-BFGS on all rows of all ranks. With a
#' numeric response it trains a regression: the last layer is a linear unit, and the loss is half of
#' the squared error. All ranks call it, each with its own rows. Each step sums a gradient over the
#' ranks, so the result is that of all rows together, up to rounding.
#'
#' @param comm A communicator, from [ring_init()]. Or a Spark table: then the network is trained on
#'   the rows of the table, on the ranks of [ring_apply()], and `predict(fit, tbl)` returns a lazy
#'   Spark table ([ml_ring_mlp()]).
#' @param formula A formula: the response on the left side, and the predictors on the right side, as
#'   for [ring_glm()]. A factor or strings are classes, and numbers are for regression.
#' @param data A data frame with the rows of this rank, which may be none.
#' @param hidden The number of units of each hidden layer, whole numbers from 1. `integer()`: no
#'   hidden layer, which is multinomial regression.
#' @param decay The weight of a penalty, one number, 0 or more. `decay` times half the sum of the
#'   squared weights, without biases, is added to the mean loss.
#' @param max_iter The largest number of iterations of L-BFGS, a whole number.
#' @param tol One number: the training stops when an iteration reduces the loss by less than this
#'   fraction.
#' @param scale Whether to scale the predictors to mean 0 and standard deviation 1 over all ranks
#'   first: `TRUE` or `FALSE`. Like all arguments but `data`, the same on all ranks.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns An object of class `ring_mlp`, the same on all ranks: a list with `weights` (a matrix
#'   for each layer, with the biases in the last row), `layers` (the number of units of each layer),
#'   `levels` (the classes, `NULL` for regression), `loss` (for regression that of the response
#'   scaled to mean 0 and standard deviation 1), `evaluations` (how often the loss was computed),
#'   `nobs` (the number of rows) and `converged`. `predict(fit, newdata)` returns the class of each
#'   row, a factor; with `type = "prob"` it returns a matrix of probabilities, with a column for
#'   each class. For regression it returns numbers. `predict()` needs no communicator. `summary()`
#'   describes the layers.
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
                     scale = TRUE, ...) {
  check_given(comm)
  if (is_table(comm)) return(table_fit("ring_mlp", match.call(), parent.frame()))
  call <- match.call()
  settings <- agree(comm, {
    check_no_dots(...)
    mlp_settings(hidden, decay, max_iter, tol, scale)
  })
  model_check_settings(comm, settings)
  rows <- rows_of_call(comm, call, parent.frame(), if (!missing(data)) data)
  agree(comm, mlp_check(rows))
  x <- rows$x[, colnames(rows$x) != "(Intercept)", drop = FALSE]
  if (ncol(x) == 0L) check_stop("the model has no predictors: add them to the right of `formula`")
  moments <- columns_moments(comm, x, scale, scale)
  count <- moments$counts[[1L]]
  if (scale) moments$scale[moments$scale == 0] <- 1
  target <- mlp_target(comm, rows)
  layers <- c(ncol(x), as.integer(hidden), ncol(target$truth))
  loss <- mlp_loss(columns_scale(x, moments), target$truth, layers, decay, count, ring_size(comm))
  fit <- ring_optim(
    comm, mlp_draw(layers), loss$value, loss$gradient,
    method = "L-BFGS-B",
    control = list(maxit = settings$max_iter, factr = tol / .Machine$double.eps, lmm = 10)
  )
  structure(class = "ring_mlp", list(
    call = scope_call(call), terms = rows$terms, xlevels = rows$levels, contrasts = rows$contrasts,
    levels = rows$response_levels, layers = layers, weights = mlp_unpack(fit$par, layers),
    moments = moments[c("center", "scale")], response = target$moments, loss = fit$value,
    evaluations = fit$counts[["function"]], converged = fit$convergence == 0L,
    nobs = as.integer(count)
  ))
}

mlp_settings <- function(hidden, decay, max_iter, tol, scale) {
  valid <- is.numeric(hidden) && all(is.finite(hidden) & hidden >= 1 & hidden == trunc(hidden))
  if (!valid) check_stop("`hidden` must be whole numbers, 1 or more, not ", describe(hidden))
  if (!is_number(decay) || decay < 0) check_stop("`decay` must be one number, 0 or more")
  if (!is_number(tol) || tol < 0) check_stop("`tol` must be one number, 0 or more")
  list(hidden = hidden, decay = decay, max_iter = check_whole(max_iter, "max_iter", least = 1),
       tol = tol, scale = check_flag(scale, "scale"))
}

mlp_check <- function(rows) {
  classes <- length(rows$response_levels)
  numbers <- classes == 0L && is.numeric(rows$y) && length(dim(rows$y)) < 2L
  if (classes > 1L || numbers || length(rows$y) == 0L) return()
  check_stop("the response has ", classes, " classes: it must be numbers, or a factor or strings ",
             "with at least two classes", call = NULL)
}

# The response of this rank as the last layer has it: a logical matrix with a column for each class,
# or scaled numbers and the moments.
mlp_target <- function(comm, rows) {
  classes <- seq_along(rows$response_levels)
  if (length(classes) > 0L) {
    codes <- as.integer(factor(rows$y, rows$response_levels))
    return(list(truth = outer(codes, classes, `==`)))
  }
  y <- matrix(as.double(rows$y), ncol = 1L)
  moments <- columns_moments(comm, y)
  if (moments$scale == 0) moments$scale <- 1
  list(truth = columns_scale(y, moments), moments = moments[c("center", "scale")])
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

# The outputs of every layer for the rows `x`, beginning with x itself. The last are probabilities,
# or numbers for a regression.
mlp_forward <- function(x, weights, regression) {
  outputs <- list(x)
  for (layer in seq_along(weights)) {
    sums <- cbind(outputs[[layer]], rep(1, nrow(x))) %*% weights[[layer]]
    outputs[[layer + 1L]] <- if (layer < length(weights)) mlp_sigmoid(sums)
                             else if (regression) sums
                             else mlp_softmax(sums)
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

# The loss of these rows and, by backpropagation, its gradient. The error of the last layer has the
# same form for cross-entropy and for squared errors.
mlp_compute <- function(x, truth, par, layers) {
  weights <- mlp_unpack(par, layers)
  regression <- is.double(truth)
  outputs <- mlp_forward(x, weights, regression)
  found <- outputs[[length(outputs)]]
  error <- found - truth
  loss <- if (regression) sum(error^2) / 2 else
    -sum(log(pmax(found[truth], .Machine$double.xmin)))
  gradients <- list()
  for (layer in rev(seq_along(weights))) {
    input <- outputs[[layer]]
    gradients[[layer]] <- crossprod(cbind(input, rep(1, nrow(x))), error)
    inner <- weights[[layer]][-nrow(weights[[layer]]), , drop = FALSE]
    error <- tcrossprod(error, inner) * input * (1 - input) # of the layer before, if there is one
  }
  list(loss = loss, gradient = unlist(gradients))
}

#' @export
print.ring_mlp <- function(x, ...) {
  check_print_dots(...)
  kind <- if (is.null(x$levels)) "regression" else paste("classes", toString(x$levels))
  cat("<ring_mlp> layers ", paste(x$layers, collapse = "-"), ", ", kind, ", loss ",
      format(x$loss, digits = 4L), " after ", x$evaluations, " evaluations",
      if (!x$converged) ", not converged", "\n", sep = "")
  invisible(x)
}

#' @export
predict.ring_mlp <- function(object, newdata, type = c("class", "prob"), ...) {
  check_method_dots(...)
  type <- check_choice(type)
  if (!missing(newdata) && is_table(newdata)) return(table_predict(object, newdata, type = type))
  x <- rows_predict(object, newdata)$x
  x <- columns_scale(x[, colnames(x) != "(Intercept)", drop = FALSE], object$moments)
  known <- stats::complete.cases(x)
  regression <- is.null(object$levels)
  outputs <- mlp_forward(x[known, , drop = FALSE], object$weights, regression)
  if (regression) {
    found <- rep(NA_real_, nrow(x))
    found[known] <- outputs[[length(outputs)]] * object$response$scale + object$response$center
    return(found)
  }
  found <- matrix(NA_real_, nrow(x), length(object$levels), dimnames = list(NULL, object$levels))
  found[known, ] <- outputs[[length(outputs)]]
  if (type == "prob") return(found)
  best <- rep(NA_integer_, nrow(x))
  best[known] <- max.col(found[known, , drop = FALSE], "first")
  factor(object$levels[best], object$levels)
}

#' @export
summary.ring_mlp <- function(object, ...) {
  check_method_dots(...)
  units <- object$layers[-1L]
  inputs <- object$layers[-length(object$layers)]
  last <- if (is.null(object$levels)) "linear" else "softmax"
  layers <- data.frame(
    layer = seq_along(units), inputs = inputs, units = units,
    activation = c(rep("sigmoid", length(units) - 1L), last), parameters = (inputs + 1L) * units
  )
  kept <- c("call", "levels", "loss", "evaluations", "converged", "nobs")
  structure(class = "summary.ring_mlp", c(object[kept], list(layers = layers)))
}

#' @export
print.summary.ring_mlp <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  print(x$layers, row.names = FALSE)
  kind <- if (is.null(x$levels)) "Regression" else paste("Classes:", toString(x$levels))
  cat("\n", kind, "\nRows: ", x$nobs, ", parameters: ", sum(x$layers$parameters), "\nLoss: ",
      format(x$loss, digits = digits), " after ", x$evaluations, " evaluations",
      if (!x$converged) ", not converged", "\n", sep = "")
  invisible(x)
}
