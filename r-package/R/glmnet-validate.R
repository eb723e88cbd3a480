# SPDX-License-Identifier: Apache-2.0
#
# The cross-validation of a path of penalties: a fit without each fold, at the penalties of the path
# of all rows, and its loss on the fold.

glmnet_validate <- function(comm, rows, settings, lambda, foldid) {
  count <- nrow(rows$x)
  before <- ring_exscan(comm, as.double(count)) # so that all folds have equal sizes
  folds <- agree(comm, {
    if (is.null(foldid)) {
      ((before + sample.int(count)) %% settings$nfolds) + 1
    } else if (length(foldid) == count && all(foldid %in% seq_len(settings$nfolds))) {
      foldid
    } else {
      stop("`foldid` must be ", count, " whole numbers from 1 to `nfolds`", call. = FALSE)
    }
  })
  sums <- ring_allreduce(comm, vapply(seq_len(settings$nfolds), FUN.VALUE = 0, function(fold) {
    sum(rows$weights[folds == fold])
  }))
  if (any(sums == 0)) {
    check_stop("fold ", which(sums == 0)[[1L]], " has no rows with a weight on any rank: lower ",
               "`nfolds`, or change `foldid`", call = NULL)
  }
  settings$lambda <- lambda
  shape <- double(length(lambda) + 1L)
  losses <- vapply(seq_len(settings$nfolds), FUN.VALUE = shape, function(fold) {
    train <- rows
    train$weights <- rows$weights * (folds != fold)
    settings$where <- paste0(" in the rows without fold ", fold)
    fit <- glmnet_fit(comm, train, settings)
    out <- which(folds == fold)
    weights <- rows$weights[out]
    loss <- vapply(seq_along(lambda), FUN.VALUE = 1, function(step) {
      slopes <- matrix(fit$slopes[, , step], ncol(rows$x))
      a0 <- matrix(fit$a0, ncol(rows$y))[, step]
      eta <- rows$x[out, , drop = FALSE] %*% slopes + rows$offset[out]
      eta <- eta + rep(a0, each = length(out))
      sum(weights * glmnet_loss(rows$y[out, , drop = FALSE], eta, rows$family))
    })
    ring_allreduce(comm, c(sum(weights), loss))
  })
  weights <- losses[1L, ] / sum(losses[1L, ])
  losses <- sweep(losses[-1L, , drop = FALSE], 2L, losses[1L, ], "/")
  mean <- drop(losses %*% weights)
  deviation <- sqrt(drop((losses - mean)^2 %*% weights) / (settings$nfolds - 1))
  best <- which.min(mean)
  list(
    cvm = mean, cvsd = deviation, lambda.min = lambda[[best]],
    lambda.1se = max(lambda[mean <= mean[[best]] + deviation[[best]]])
  )
}

# The deviance, as cv.glmnet() measures it: with probabilities from 1e-5 to 1 - 1e-5.
glmnet_loss <- function(y, eta, family) {
  if (!family %in% c("binomial", "multinomial")) return(glmnet_deviance(y, eta, family))
  mean <- pmin(pmax(glmnet_mean(eta, family), 1e-5), 1 - 1e-5)
  if (family == "multinomial") return(-2 * rowSums(y * log(mean)))
  glmnet_deviance(y, stats::qlogis(mean), family)
}
