# SPDX-License-Identifier: Apache-2.0
#
# Penalized regression on rows that are spread over the ranks: the path of numerics/net_path.h, with
# the sums of all ranks.

# nolint start: object_name_linter. The arguments are those of glmnet().
#' Distributed lasso and elastic net: penalized regression on data on many ranks
#'
#' `ring_glmnet()` fits the models of `glmnet::glmnet()` to the rows of all ranks, for a path of
#' penalties, and chooses the penalty by cross-validation on request. All ranks call it, each with
#' its own rows.
#'
#' @details
#' The loss, the weights and the penalty are those of package glmnet: the mean loss plus
#' `lambda * ((1 - alpha) / 2 * sum(b^2) + alpha * sum(abs(b)))`, with columns scaled to standard
#' deviation 1 if `standardize`. As in glmnet, the quadratic part of the penalty of a gaussian model
#' is divided by the standard deviation of the response. Coefficients are those of the columns as
#' they are. Package glmnet is not needed. The result satisfies the optimality conditions to
#' `thresh`, which is stricter than that of glmnet by default.
#'
#' A gaussian path needs one pass over the rows. The other families need some passes for each
#' penalty.
#'
#' A cross-validation fits each fold at the penalties of the path of all rows. `cv.glmnet()` without
#' `lambda` fits another path to each fold, and interpolates. So its `cvm` differs a little. The
#' random folds have equal sizes over all ranks. There may be up to 2^31 - 1 rows on all ranks.
#'
#' @inheritParams ring_svd
#' @param y The response of the rows of this rank. `"gaussian"`: numbers. `"binomial"`: 0 and 1,
#'   logicals, or a factor or strings of two levels. `"poisson"`: numbers from 0. `"multinomial"`: a
#'   factor or strings.
#' @param family A string: `"gaussian"`, `"binomial"`, `"poisson"` or `"multinomial"`.
#' @param weights,offset Numbers, one for each row of this rank, or `NULL`. Offsets are for all
#'   families but `"multinomial"`.
#' @param alpha The share of the lasso in the penalty, a number from 0 to 1.
#' @param nlambda The number of penalties, a whole number.
#' @param lambda.min.ratio The smallest penalty, as a fraction of the largest, a number. `NULL`:
#'   1e-4, or 0.01 with more columns than rows.
#' @param lambda Penalties, decreasing numbers. `NULL`: from the smallest penalty with which all
#'   coefficients are 0, in `nlambda` steps on a logarithmic scale.
#' @param standardize,intercept `TRUE` or `FALSE`. Constant columns have coefficients of 0, also
#'   without an intercept.
#' @param penalty.factor Numbers from 0, one for each column, and not all 0: factors of `lambda`. 0:
#'   no penalty. `Inf`: the coefficient is 0.
#' @param nfolds The number of folds of a cross-validation, a whole number; 0: none.
#' @param foldid The folds of the rows of this rank, whole numbers from 1 to `nfolds`. `NULL`:
#'   random.
#' @param thresh The tolerance of the optimality conditions, as a fraction of the largest gradient.
#' @param maxit The largest number of Newton steps for one penalty.
#' @returns An object of class `ring_glmnet`, the same on all ranks. `lambda`, `df`, `dev.ratio`,
#'   `nulldev` and `a0` are as in package glmnet. `slopes` is an array of the coefficients of the
#'   columns, by column, class and penalty; `coef()` returns matrices. With a cross-validation,
#'   `cvm`, `cvsd`, `lambda.min` and `lambda.1se` are as from `cv.glmnet()` with this `lambda`, with
#'   the mean squared error or the deviance as measure. `coef()`, `predict()`, `print()` and
#'   `plot()` have methods, and `tidy()` and `glance()` of package broom.
#'
#'   `coef(fit, s)` and `predict(fit, newx, s, type)` take penalties `s`: numbers, `"lambda.min"` or
#'   `"lambda.1se"`. By default they are all penalties of the path. `type` is `"link"`, `"response"`
#'   or `"class"`. For a Spark table there is one penalty, and a column `.fitted`, or for the
#'   probabilities of `"multinomial"` a column `.prob_<class>` for each class.
#' @section Spark tables:
#' With a Spark table in place of `comm`, the driver calls the function on the ranks of
#' [ring_apply()], and gets one model. `y`, `weights`, `offset` and `foldid` are names of columns of
#' the table, and so is `x`, by default all other columns. `x` may be a formula of columns, such as
#' `y ~ a + b`. `predict(fit, tbl)` returns a lazy Spark table with the columns of `tbl` and the
#' predictions, as [ring_glm()] describes. A model with an offset needs `offset`, a number or the
#' name of a column.
#' @inheritSection ring_svd Errors
#' @references J. Friedman, T. Hastie and R. Tibshirani (2010). Regularization paths for generalized
#'   linear models via coordinate descent. *Journal of Statistical Software* 33(1).
#'
#'   R. Tibshirani and others (2012). Strong rules for discarding predictors in lasso-type problems.
#'   *Journal of the Royal Statistical Society B* 74(2).
#' @seealso [ring_lm()], with a ridge penalty; [ring_glm()]
#' @examples
#' comm <- ring_init()
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(mtcars)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_glmnet(comm, mtcars[rows, -1], mtcars$mpg[rows], nfolds = 5)
#' coef(fit, "lambda.1se")
#' ring_close(comm)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[2]")
#' cars <- sparklyr::copy_to(sc, mtcars, overwrite = TRUE)
#' fit <- ring_glmnet(cars, y = "mpg", nfolds = 5, num_proc = 2, seed = 1)
#' predict(fit, cars, s = "lambda.1se")
#' }
#' @export
ring_glmnet <- function(comm, x, y, family = c("gaussian", "binomial", "poisson", "multinomial"),
                        weights = NULL, offset = NULL, alpha = 1, nlambda = 100L,
                        lambda.min.ratio = NULL, lambda = NULL, standardize = TRUE,
                        intercept = TRUE, penalty.factor = NULL, nfolds = 0L, foldid = NULL,
                        thresh = 1e-8, maxit = 100L, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_glmnet", match.call(), parent.frame()))
  call <- scope_call(match.call())
  settings <- agree(comm, {
    check_given(comm, x, y)
    check_no_dots(...)
    list(family = check_choice(family), alpha = alpha, nlambda = nlambda, ratio = lambda.min.ratio,
         lambda = lambda, standardize = standardize, intercept = intercept,
         factors = penalty.factor, nfolds = nfolds, thresh = thresh, maxit = maxit)
  })
  family <- settings$family
  x <- columns_of(comm, x, finite = TRUE)
  agree(comm, glmnet_check(c(settings, list(foldid = foldid)), ncol(x)))
  model_check_settings(comm, settings)
  response <- glmnet_response(comm, agree(comm, integer64_numbers(y, "y")), family)
  rows <- agree(comm, glmnet_rows(x, response, weights, offset, family))
  fit <- glmnet_fit(comm, rows, settings)
  if (nfolds > 0L) fit <- c(fit, glmnet_validate(comm, rows, settings, fit$lambda, foldid))
  structure(class = "ring_glmnet", c(fit, list(
    call = call, family = family, classnames = response$levels, nobs = as.integer(fit$count),
    alpha = alpha, names = colnames(x), offset = !is.null(offset)
  )))
}
# nolint end

glmnet_check <- function(settings, width) {
  whole <- function(x, least) is_whole(x) && x >= least
  check_flag(settings$intercept, "intercept")
  check_flag(settings$standardize, "standardize")
  valid <- c(
    "`alpha` must be a number from 0 to 1" = is_number(settings$alpha) && settings$alpha >= 0 &&
      settings$alpha <= 1,
    "`nlambda` must be a whole number from 1" = whole(settings$nlambda, 1),
    "`lambda.min.ratio` must be a number between 0 and 1" = glmnet_valid_ratio(settings$ratio),
    "`nfolds` must be 0, or a whole number from 2" = whole(settings$nfolds, 0) &&
      settings$nfolds != 1,
    "`penalty.factor` must be numbers from 0, one for each column, and not all 0" =
      glmnet_valid_factors(settings$factors, width),
    "`foldid` needs `nfolds`, the number of folds" = is.null(settings$foldid) ||
      !is_number(settings$nfolds) || settings$nfolds != 0,
    "`thresh` must be a positive number" = is_number(settings$thresh) && settings$thresh > 0,
    "`maxit` must be a whole number from 1" = whole(settings$maxit, 1),
    "`lambda` must be decreasing numbers from 0" = glmnet_valid_lambda(settings$lambda)
  )
  if (!all(valid)) stop(names(valid)[!valid][[1L]], call. = FALSE)
}

glmnet_valid_ratio <- function(ratio) {
  is.null(ratio) || is_number(ratio) && ratio > 0 && ratio < 1
}

glmnet_valid_lambda <- function(lambda) {
  if (is.null(lambda)) return(TRUE)
  is.numeric(lambda) && length(lambda) > 0L && all(is.finite(lambda), lambda >= 0) &&
    !is.unsorted(rev(lambda))
}

glmnet_valid_factors <- function(factors, width) {
  if (is.null(factors)) return(TRUE)
  is.numeric(factors) && length(factors) == width && !anyNA(factors) && all(factors >= 0) &&
    any(factors > 0)
}

# The response as a matrix with a column for each class, or one column, and the classes.
glmnet_response <- function(comm, y, family) {
  levels <- NULL
  if (family %in% c("binomial", "multinomial")) {
    if (is.logical(y)) y <- as.double(y)
    levels <- levels_agree(comm, levels_parts(list(y = y)))$y$levels
  }
  y <- agree(comm, {
    if (anyNA(y)) stop("`y` has missing values: leave out these rows", call. = FALSE)
    if (family == "multinomial") glmnet_classes(y, levels)
    else if (is.null(levels)) glmnet_numbers(y, family)
    else glmnet_two_classes(y, levels)
  })
  list(y = y, levels = if (family == "binomial" && is.null(levels)) c("0", "1") else levels)
}

glmnet_classes <- function(y, levels) {
  if (length(levels) < 2L) {
    stop("`y` must be a factor or strings of two or more classes", call. = FALSE)
  }
  outer(match(as.character(y), levels), seq_along(levels), `==`) + 0
}

glmnet_two_classes <- function(y, levels) {
  if (length(levels) != 2L) {
    stop("`y` has ", length(levels), " classes: \"binomial\" is for two", call. = FALSE)
  }
  as.matrix(as.double(match(as.character(y), levels) - 1))
}

glmnet_numbers <- function(y, family) {
  if (length(y) > 0L && !is.numeric(y)) {
    stop("`y` must be numbers, not ", describe(y), call. = FALSE)
  }
  if (family == "binomial" && !all(y >= 0 & y <= 1)) {
    stop("`y` must be from 0 to 1, or a factor", call. = FALSE)
  }
  if (family == "poisson" && any(y < 0)) stop("`y` must not be negative", call. = FALSE)
  matrix(as.double(y), ncol = 1L)
}

glmnet_rows <- function(x, response, weights, offset, family) {
  count <- nrow(x)
  weights <- integer64_numbers(weights, "weights")
  offset <- integer64_numbers(offset, "offset")
  fits <- function(x) is.null(x) || is.numeric(x) && length(x) == count && all(is.finite(x))
  if (nrow(response$y) != count) {
    stop("`x` has ", count, " rows and `y` has ", nrow(response$y), call. = FALSE)
  }
  if (!fits(weights) || any(weights < 0)) {
    stop("`weights` must be numbers from 0, one for each row", call. = FALSE)
  }
  if (!fits(offset)) stop("`offset` must be numbers, one for each row", call. = FALSE)
  if (!is.null(offset) && family == "multinomial") {
    stop("`offset` is not for \"multinomial\"", call. = FALSE)
  }
  list(
    x = x, y = response$y, family = family,
    weights = if (is.null(weights)) rep(1, count) else as.double(weights),
    offset = if (is.null(offset)) rep(0, count) else as.double(offset)
  )
}

# ---- One path ------------------------------------------------------------------------------------

# Fits the path on the columns around their means, and scaled.
glmnet_fit <- function(comm, rows, settings) {
  rows <- glmnet_scale(comm, rows, settings)
  path <- if (rows$family == "gaussian") glmnet_gaussian(comm, rows, settings)
          else glmnet_newton(comm, rows, settings)
  classes <- ncol(rows$y)
  slopes <- array(path$slopes, c(ncol(rows$x), classes, length(path$lambda)))
  list(
    lambda = path$lambda, a0 = if (classes == 1L) path$levels else matrix(path$levels, classes),
    slopes = slopes,
    df = apply(slopes != 0, 3L, function(used) sum(rowSums(matrix(used, ncol(rows$x))) > 0)),
    dev.ratio = 1 - path$deviance / path$null, nulldev = path$null * rows$total,
    violation = path$violation, count = rows$count
  )
}

# The rows with weights of the sum 1; the center and scale of their columns; and which columns are
# constant. Deviations divide by the sum of the weights.
glmnet_scale <- function(comm, rows, settings) {
  count <- ring_allreduce(comm, as.double(nrow(rows$x)))
  known <- columns_known(comm, rows$x, rows$weights)
  total <- known$weights[[1L]]
  if (total == 0) check_stop("there are no rows with a weight on any rank", call = NULL)
  if (rows$family == "gaussian") {
    rows$y <- rows$y - rows$offset
    rows$offset <- double(length(rows$offset))
  }
  response <- columns_known(comm, cbind(rows$y, rows$offset), rows$weights)
  glmnet_check_response(response, rows$family, settings)
  rows$mean <- if (rows$family == "gaussian" && settings$intercept) response$means[[1L]] else 0
  rows$y <- rows$y - rows$mean
  rows$weights <- rows$weights / total
  deviations <- ifelse(known$squares > 0, sqrt(known$squares / total), 1)
  c(rows, list(
    intercept = settings$intercept,
    center = if (settings$intercept) known$means else double(ncol(rows$x)),
    scale = if (settings$standardize) deviations else rep(1, ncol(rows$x)),
    constant = known$squares %in% 0, total = total, count = count
  ))
}

# Refuses a response with which there is no path, by the moments of its columns and the offset.
glmnet_check_response <- function(known, family, settings) {
  columns <- seq_len(length(known$means) - 1L)
  fixed <- known$squares %in% 0
  value <- known$means[columns]
  limit <- value == 0 & family != "gaussian" | value == 1 & family == "binomial"
  none <- if (!settings$intercept) family == "gaussian" & value == 0 else
    limit | family == "gaussian" | fixed[[length(fixed)]]
  if (any(fixed[columns] & none)) {
    check_stop("`y` is constant", if (family == "multinomial") " for a class", settings$where,
               ": there is no path of penalties", call = NULL)
  }
}

# The penalty factor of each coefficient. One that is infinite leaves the coefficient out.
glmnet_penalty <- function(constant, classes, settings) {
  factors <- or_default(settings$factors, rep(1, length(constant)))
  out <- constant | is.infinite(factors)
  if (all(out)) {
    check_stop("each column of `x` is constant or left out by `penalty.factor`", settings$where,
               call = NULL)
  }
  factors[is.infinite(factors)] <- 1
  factors <- replace(factors * length(factors) / sum(factors), out, Inf)
  rep(c(if (settings$intercept) 0, factors), classes)
}

# What elastic_net_path() needs of the settings.
glmnet_problem <- function(rows, settings, spread, least) {
  known <- !is.null(settings$lambda)
  ratio <- or_default(settings$ratio, if (rows$count >= ncol(rows$x)) 1e-4 else 0.01)
  list(
    penalty = glmnet_penalty(rows$constant, ncol(rows$y), settings),
    alpha = as.double(settings$alpha), spread = spread, least = least, mean = rows$mean,
    tolerance = as.double(settings$thresh), steps = as.double(settings$maxit), ends = !known,
    lambda = as.double(settings$lambda), ratio = if (known) 0 else as.double(ratio),
    count = if (known) as.double(length(settings$lambda)) else as.double(settings$nlambda)
  )
}

# The quadratic loss needs one pass over the rows. Rank 0 computes the whole path.
glmnet_gaussian <- function(comm, rows, settings) {
  width <- ncol(rows$x) + settings$intercept
  sums <- glmnet_pass(comm, rows)(double(width), seq_len(width), TRUE)
  problem <- glmnet_problem(rows, settings, sqrt(sums[[1L]]), 0)
  look <- function(b, active, whole) .Call(C_elastic_net_squares, rows, sums, b, active, whole)
  lead(comm, c("lambda", "deviance", "violation", "steps", "null", "slopes", "levels"),
       .Call(C_elastic_net_path, rows, problem, look, identity))
}

# All other losses need passes for each penalty.
glmnet_newton <- function(comm, rows, settings) {
  least <- ring_allreduce(comm, .Call(C_elastic_net_least, rows))
  problem <- glmnet_problem(rows, settings, 1, least)
  share <- function(lambda) ring_broadcast(comm, lambda)
  .Call(C_elastic_net_path, rows, problem, glmnet_pass(comm, rows), share)
}

# The function that sums a pass over the ranks.
glmnet_pass <- function(comm, rows) {
  function(b, active, whole) {
    ring_allreduce(comm, .Call(C_elastic_net_pass, rows, b, active, whole))
  }
}

glmnet_mean <- function(eta, family) {
  switch(family, gaussian = eta, binomial = 1 / (1 + exp(-eta)), poisson = exp(eta),
         multinomial = mlp_softmax(eta))
}

# The deviance of each row, for columns of `eta` as in the response `y`.
glmnet_deviance <- function(y, eta, family) {
  glmnet_least(y, family) + switch(family,
    gaussian = (y - eta)[, 1L]^2,
    binomial = {
      positive <- pmax(eta, 0)
      2 * (positive - y * eta + log(exp(-positive) + exp(eta - positive)))
    },
    poisson = 2 * (exp(eta) - y * eta),
    multinomial = {
      most <- eta[cbind(seq_len(nrow(eta)), max.col(eta, "first"))]
      2 * (most + log(rowSums(exp(eta - most))) - rowSums(y * eta))
    }
  )
}

# The term of the deviance of each row that depends on the response alone.
glmnet_least <- function(y, family) {
  xlogx <- function(x) {
    some <- x > 0 & x != 1
    replace(double(length(x)), some, x[some] * log(x[some]))
  }
  switch(family, binomial = 2 * (xlogx(y) + xlogx(1 - y)), poisson = 2 * (xlogx(y) - drop(y)),
         gaussian = , multinomial = double(nrow(y)))
}
