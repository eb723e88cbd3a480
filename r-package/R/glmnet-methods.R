# SPDX-License-Identifier: Apache-2.0

# The penalties that `s` names; those of the path by default.
glmnet_penalties <- function(object, s) {
  if (is.null(s)) return(object$lambda)
  if (is.character(s)) {
    if (!s %in% c("lambda.min", "lambda.1se")) {
      stop("`s` must be numbers, \"lambda.min\" or \"lambda.1se\"", call. = FALSE)
    }
    if (is.null(object[[s]])) stop("there was no cross-validation: see `nfolds`", call. = FALSE)
    return(object[[s]])
  }
  s
}

# An array of coefficients, by column (the intercept first), class and penalty. Between two
# penalties of the path they are interpolated.
glmnet_coefficients <- function(object, s) {
  steps <- length(object$lambda)
  classes <- dim(object$slopes)[[2L]]
  all <- array(0, dim(object$slopes) + c(1L, 0L, 0L))
  all[1L, , ] <- matrix(object$a0, classes)
  all[-1L, , ] <- object$slopes
  s <- pmin(pmax(glmnet_penalties(object, s), object$lambda[[steps]]), object$lambda[[1L]])
  place <- if (steps == 1L) rep(1, length(s)) else
    stats::approx(object$lambda, seq_len(steps), s)$y
  share <- rep(place - floor(place), each = nrow(all) * classes)
  found <- all[, , floor(place), drop = FALSE] * (1 - share) +
    all[, , ceiling(place), drop = FALSE] * share
  names <- if (is.null(object$names)) paste0("V", seq_len(nrow(all) - 1L)) else object$names
  dimnames(found) <- list(c("(Intercept)", names), object$classnames[seq_len(classes)], NULL)
  found
}

#' @export
coef.ring_glmnet <- function(object, s = NULL, ...) {
  check_method_dots(...)
  all <- glmnet_coefficients(object, s)
  classes <- dim(all)[[2L]]
  labels <- list(rownames(all), paste0("s", seq_len(dim(all)[[3L]]) - 1L))
  parts <- lapply(seq_len(classes), function(i) {
    matrix(all[, i, ], nrow(all), dimnames = labels)
  })
  if (classes == 1L) parts[[1L]] else stats::setNames(parts, object$classnames)
}

#' @export
predict.ring_glmnet <- function(object, newx, s = NULL, type = c("link", "response", "class"),
                                offset = NULL, ...) {
  check_method_dots(...)
  type <- check_choice(type)
  if (missing(newx)) stop("predict() needs `newx`: the model holds no rows", call. = FALSE)
  if (is_table(newx)) return(glmnet_predict_table(object, newx, s, type, offset))
  x <- columns_matrix(columns_named(newx, object$names, "newx"), finite = FALSE)
  all <- glmnet_coefficients(object, s)
  if (ncol(x) != nrow(all) - 1L) {
    stop("`newx` has ", ncol(x), " columns, and the model has ", nrow(all) - 1L, call. = FALSE)
  }
  shape <- c(nrow(x), dim(all)[2:3])
  eta <- array(cbind(rep(1, nrow(x)), x) %*% matrix(all, nrow(all)), shape,
               list(rownames(x), dimnames(all)[[2L]], NULL))
  eta <- eta + glmnet_offset(object, offset, nrow(x))
  classes <- shape[[2L]]
  if (type == "class" && is.null(object$classnames)) {
    stop("type \"class\" is for \"binomial\" and \"multinomial\"", call. = FALSE)
  }
  if (type == "response") {
    for (step in seq_len(shape[[3L]])) {
      eta[, , step] <- glmnet_mean(matrix(eta[, , step], shape[[1L]]), object$family)
    }
  }
  if (type == "class") {
    best <- if (classes == 1L) matrix(eta > 0, shape[[1L]]) + 1L else
      apply(eta, 3L, function(eta) max.col(matrix(eta, ncol = classes), "first"))
    return(matrix(object$classnames[best], shape[[1L]], dimnames = list(rownames(x), NULL)))
  }
  if (classes == 1L) matrix(eta, shape[[1L]], dimnames = list(rownames(x), NULL)) else eta
}

glmnet_offset <- function(object, offset, count) {
  if (is.null(offset)) {
    if (!isTRUE(object$offset)) return(0)
    stop("the model was fitted with an offset: pass `offset`", call. = FALSE)
  }
  if (is.numeric(offset) && length(offset) %in% c(1L, count)) return(as.double(offset))
  stop("`offset` must be a number, or one for each row, not ", describe(offset), call. = FALSE)
}

# Predictions for one penalty.
glmnet_predict_table <- function(object, tbl, s, type, offset) {
  if (length(glmnet_penalties(object, s)) != 1L) {
    check_stop("pass one penalty as `s`, such as \"lambda.min\", for a Spark table")
  }
  if (object$family == "multinomial" && type == "link") {
    check_stop("pass `type = \"response\"`, for probabilities, or \"class\" for a Spark table")
  }
  if (is.null(offset)) glmnet_offset(object, offset, 0L)
  if (!is.null(offset) && !is_number(offset)) {
    columns_check_names("offset", offset, table_names(tbl))
  }
  table_predict(object, tbl, s = s, type = type, offset = offset)
}

#' @export
print.ring_glmnet <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  table <- data.frame(Df = x$df, "%Dev" = round(100 * x$dev.ratio, 2),
                      Lambda = signif(x$lambda, digits), check.names = FALSE)
  print(table)
  if (!is.null(x$lambda.min)) {
    cat("\nCross-validation: lambda.min ", format(x$lambda.min, digits = digits), ", lambda.1se ",
        format(x$lambda.1se, digits = digits), "\n", sep = "")
  }
  invisible(x)
}

#' @export
plot.ring_glmnet <- function(x, ...) {
  slopes <- t(matrix(aperm(x$slopes, c(1L, 2L, 3L)), ncol = length(x$lambda)))
  graphics::matplot(log(x$lambda), slopes, type = "l", lty = 1, xlab = "Log Lambda",
                    ylab = "Coefficients", ...)
}
