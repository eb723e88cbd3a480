# SPDX-License-Identifier: Apache-2.0
#
# The models of Spark tables in the manner of sparklyr, whose functions begin with ml_.

#' Models of Spark tables, in the manner of sparklyr
#'
#' These functions fit [ring_glm()], [ring_lm()], [ring_coxph()], [ring_mlp()], [ring_glmnet()],
#' [ring_kmeans()] and [ring_prcomp()] to a Spark table, which comes first, as in the `ml_`
#' functions of sparklyr. They return the same models, with the same methods, and
#' [generics::tidy()] and [generics::glance()] work on them ([ring_tidy]).
#'
#' `sparklyr::ml_predict(model, tbl)` returns a lazy Spark table: the columns of `tbl` and
#' `.fitted`, computed when they are needed ([ring_glm()]). `.fitted` is a probability or mean of a
#' GLM or of [ring_glmnet()], which needs a penalty `s`, the linear predictor of a Cox model, the
#' class of a network as a string, and a number of a regression. For a network with `type = "prob"`
#' there is a column `.prob_<class>` for each class. [ring_kmeans()] has the column `.cluster`, and
#' [ring_prcomp()] `PC1`, `PC2` and so on. Other arguments go to the `predict()` method of the
#' model.
#'
#' `sparklyr::ml_save(model, path)` writes the model to a file of the driver, which [readRDS()]
#' reads in any R with this package.
#'
#' @param x A Spark table. Each rank gets a part of its rows by [ring_apply()].
#' @param formula The formula of the model. For the last three functions it has columns and no
#'   other terms, such as `~ a + b` or `y ~ .`.
#' @param ... Further arguments of the model, such as `family` or `centers`, by name, and of
#'   [ring_apply()], such as `num_proc`.
#' @returns The model: an object of the class of the same name, without `ml_`.
#' @section Errors:
#' As for [ring_apply()] and the model.
#' @seealso [ring_glm()] and the other models; `vignette("models")`.
#' @examples
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' births <- sparklyr::sdf_copy_to(sc, infert, overwrite = TRUE)
#' fit <- ml_ring_glm(births, case ~ age + parity, family = binomial, num_proc = 4)
#' generics::tidy(fit, conf.int = TRUE)
#' sparklyr::ml_predict(fit, births)
#' sparklyr::ml_save(fit, "births.rds")
#'
#' groups <- ml_ring_kmeans(births, ~ age + parity, centers = 3, num_proc = 4)
#' sparklyr::ml_predict(groups, births)
#' }
#' @name ml_ring
NULL

#' @rdname ml_ring
#' @export
ml_ring_glm <- function(x, formula, ...) ml_fit("ring_glm", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_lm <- function(x, formula, ...) ml_fit("ring_lm", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_coxph <- function(x, formula, ...) ml_fit("ring_coxph", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_mlp <- function(x, formula, ...) ml_fit("ring_mlp", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_glmnet <- function(x, formula, ...) ml_columns("ring_glmnet", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_kmeans <- function(x, formula, ...) ml_columns("ring_kmeans", match.call(), parent.frame())

#' @rdname ml_ring
#' @export
ml_ring_prcomp <- function(x, formula, ...) ml_columns("ring_prcomp", match.call(), parent.frame())

# The call is that of the model, so that update() and step() find it.
ml_fit <- function(name, call, env) {
  ml_check_given(call)
  call[[1L]] <- as.name(name)
  names(call)[names(call) == "x"] <- "comm"
  table_fit(name, call, env)
}

ml_columns <- function(name, call, env) {
  ml_check_given(call)
  call[[1L]] <- as.name(name)
  old <- c("x", "formula")
  names(call)[names(call) %in% old] <- c("comm", "x")[old %in% names(call)]
  columns_fit(name, call, env)
}

ml_check_given <- function(call) {
  needed <- c("x", "formula")
  for (name in setdiff(needed, names(call))) check_lacks(name, call, needed)
}

# ---- Methods of sparklyr's generics --------------------------------------------------------------

# nolint start: object_name_linter. The names of methods of another package.

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_glm <- function(x, dataset, type = "response", ...) {
  stats::predict(x, dataset, type = type, ...)
}

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_lm <- function(x, dataset, ...) stats::predict(x, dataset, ...)

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_coxph <- ml_predict.ring_lm

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_mlp <- ml_predict.ring_lm

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_glmnet <- function(x, dataset, type = "response", ...) {
  stats::predict(x, dataset, type = type, ...)
}

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_kmeans <- ml_predict.ring_lm

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_prcomp <- ml_predict.ring_lm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_glm <- function(x, path, overwrite = FALSE, ...) {
  check_method_dots(...)
  check_given(path)
  if (!is_string(path)) check_stop("`path` must be one string, not ", describe(path))
  if (file.exists(path) && !check_flag(overwrite, "overwrite")) {
    check_stop("the file ", path, " exists: pass another path, or overwrite = TRUE")
  }
  saveRDS(x, path)
  invisible(path)
}

#' @exportS3Method sparklyr::ml_save
ml_save.ring_lm <- ml_save.ring_glm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_coxph <- ml_save.ring_glm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_mlp <- ml_save.ring_glm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_glmnet <- ml_save.ring_glm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_kmeans <- ml_save.ring_glm

#' @exportS3Method sparklyr::ml_save
ml_save.ring_prcomp <- ml_save.ring_glm
# nolint end
