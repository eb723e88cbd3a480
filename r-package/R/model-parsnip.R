# SPDX-License-Identifier: Apache-2.0
#
# Engines of parsnip: its models are fitted by ours, to the rows of all ranks. parsnip need not be
# installed. The engines are registered when it is loaded.

#' Engines of parsnip
#'
#' If parsnip is loaded, `set_engine("sparkring", comm = comm)` fits a model to the rows of all
#' ranks. Each rank passes its own rows to `fit()`, and gets the same model.
#'
#' | model of parsnip | fitted by | predictions |
#' |---|---|---|
#' | `linear_reg()` | [ring_lm()] | `numeric`, `conf_int`, `pred_int` |
#' | `logistic_reg()` | [ring_glm()], binomial | `class`, `prob` |
#' | `poisson_reg()` | [ring_glm()], Poisson | `numeric` |
#' | `proportional_hazards()` | [ring_coxph()] | `linear_pred` |
#' | `mlp(hidden_units, penalty, epochs)` | [ring_mlp()] | `numeric`; or `class`, `prob` |
#'
#' As in package censored, `linear_pred` grows with the time to the event.
#' Further arguments of `set_engine()` are those of the function in the second column. Weights of
#' rows are case weights of parsnip. Predictions need no communicator.
#'
#' @returns `parsnip::fit()` returns a `model_fit` of parsnip. Its element `fit` is what the
#'   function in the second column returns.
#' @name ring_parsnip
#' @seealso [ring_lm()], [ring_glm()], [ring_coxph()], [ring_mlp()]
#' @examples
#' if (requireNamespace("parsnip", quietly = TRUE)) {
#'   comm <- ring_init()
#'   line <- parsnip::set_engine(parsnip::linear_reg(), "sparkring", comm = comm)
#'   fit <- parsnip::fit(line, dist ~ speed, data = cars)
#'   print(predict(fit, head(cars)))
#'   ring_close(comm)
#' }
NULL

.onLoad <- function(libname, pkgname) {
  setHook(packageEvent("parsnip", "onLoad"), function(...) parsnip_register())
  if (isNamespaceLoaded("parsnip")) parsnip_register()
}

# A row for each model and mode. `defaults` are expressions.
parsnip_register <- function() {
  binomial <- list(family = quote(stats::binomial()))
  poisson <- list(family = quote(stats::poisson()))
  parsnip_engine("linear_reg", "regression", "ring_lm", list(
    numeric = parsnip_numeric(), conf_int = parsnip_interval("confidence"),
    pred_int = parsnip_interval("prediction")
  ))
  parsnip_engine("logistic_reg", "classification", "ring_glm", binomial, predictions = list(
    class = parsnip_predict(parsnip_chosen, type = "response"),
    prob = parsnip_predict(parsnip_chances, type = "response")
  ))
  parsnip_engine("poisson_reg", "regression", "ring_glm", defaults = poisson,
                 predictions = list(numeric = parsnip_numeric(type = "response")))
  parsnip_engine("proportional_hazards", "censored regression", "ring_coxph",
                 list(linear_pred = parsnip_predict(parsnip_later, type = "lp",
                                                    reference = "sample")))
  parsnip_engine("mlp", "regression", "ring_mlp", list(numeric = parsnip_numeric()))
  parsnip_engine("mlp", "classification", "ring_mlp", list(
    class = parsnip_predict(type = "class"),
    prob = parsnip_predict(function(x, object) parsnip_tibble(x), type = "prob")
  ))
  for (pair in list(c("hidden_units", "hidden"), c("penalty", "decay"), c("epochs", "max_iter"))) {
    parsnip::set_model_arg("mlp", "sparkring", parsnip = pair[[1L]], original = pair[[2L]],
                           func = list(pkg = "dials", fun = pair[[1L]]), has_submodel = FALSE)
  }
}

parsnip_engine <- function(model, mode, fun, predictions, defaults = list()) {
  parsnip::set_model_engine(model, mode, "sparkring")
  parsnip::set_dependency(model, "sparkring", "sparkring", mode)
  weighs <- "weights" %in% names(formals(fun))
  parsnip::set_fit(model, mode, "sparkring", list(
    interface = "formula", protect = c("formula", "data", if (weighs) "weights"),
    func = c(pkg = "sparkring", fun = fun), defaults = defaults
  ))
  parsnip::set_encoding(model, mode, "sparkring", list( # ours codes factors
    predictor_indicators = "none", compute_intercept = FALSE, remove_intercept = FALSE,
    allow_sparse_x = FALSE
  ))
  for (type in names(predictions)) {
    parsnip::set_pred(model, mode, "sparkring", type, predictions[[type]])
  }
}

# ---- Predictions ---------------------------------------------------------------------------------

# Predictions of the fitted object, with further arguments; `post` makes of them what parsnip takes.
parsnip_predict <- function(post = NULL, ...) {
  list(pre = NULL, post = post, func = c(fun = "predict"),
       args = list(object = quote(object$fit), newdata = quote(new_data), ...))
}

parsnip_numeric <- function(...) parsnip_predict(function(x, object) unname(x), ...)

parsnip_interval <- function(interval) {
  parsnip_predict(
    function(x, object) {
      tibble::tibble(.pred_lower = unname(x[, "lwr"]), .pred_upper = unname(x[, "upr"]))
    },
    interval = interval, level = quote(level)
  )
}

parsnip_chosen <- function(x, object) {
  factor(object$lvl[1L + (x > 0.5)], levels = object$lvl)
}

# As in package censored, it grows with the time to the event, and is 0 for covariates that are 0.
parsnip_later <- function(x, object) {
  fit <- object$fit
  -unname(x) - sum(fit$means * fit$coefficients, na.rm = TRUE)
}

# The probabilities of both classes of a logistic regression.
parsnip_chances <- function(x, object) {
  parsnip_tibble(matrix(c(1 - x, x), ncol = 2L, dimnames = list(NULL, object$lvl)))
}

parsnip_tibble <- function(x) tibble::as_tibble(as.data.frame(x, optional = TRUE))
