# SPDX-License-Identifier: Apache-2.0
#
# Models of R ranks by numerics/, on the first one, two and three ranks. Numbers have all bits.

library(sparkring)

comm <- ring_init(timeout = 60, call_timeout = 60)
all_rows <- as.matrix(read.csv(commandArgs(TRUE)))

# Rows with start times, strata, weights, ties, times that are nearly equal, and a constant column.
survival_rows <- function(x) {
  time <- floor(abs(x[, "e"]) * 16) / 10 + 0.1
  data.frame(x, time = time * (1 + 1e-15 * (x[, "d"] > 1)), start = time - 1 - (x[, "c"] > 0),
             event = as.numeric(x[, "d"] > 0), stratum = as.numeric(x[, "a"] > 1e6),
             weight = 1 + floor(abs(x[, "d"]) * 8) / 8, offset = x[, "d"] / 16)
}

emit_survival <- function(emit, comm, ties, rows) {
  formula <- survival::Surv(start, time, event) ~ a + b + c + f + strata(stratum) + offset(offset)
  fit <- ring_coxph(comm, formula, rows, weights = rows$weight, ties = ties)
  emit(paste0(ties, "_coefficients"), replace(coef(fit), is.na(coef(fit)), 0))
  emit(paste0(ties, "_covariance"), fit$var)
  emit(paste0(ties, "_naive"), fit$naive.var)
  emit(paste0(ties, "_tests"), c(fit$loglik, fit$score, fit$wald.test))
  times <- as.data.frame(fit$baseline$table)
  times <- times[times$n.event > 0, ]
  emit(paste0(ties, "_times"), times$time)
  add <- function(part) Reduce(`+`, part, accumulate = TRUE)
  emit(paste0(ties, "_hazard"), unlist(lapply(split(times$hazard, times$stratum), add)))
}

links <- list(
  gaussian = c("identity", "log", "inverse"),
  binomial = c("logit", "probit", "cloglog", "log"),
  poisson = c("log", "identity", "sqrt"),
  Gamma = c("inverse", "identity", "log"),
  inverse.gaussian = c("1/mu^2", "inverse", "identity", "log")
)
python <- stats::setNames(sub(".", "_", tolower(names(links)), fixed = TRUE), names(links))

for (size in 1:3) {
  group <- ring_comm_split(comm, as.integer(ring_rank(comm) < size))
  if (ring_rank(comm) < size) {
    emit <- function(name, x) cat(size, name, sprintf("%a", x), "\n")
    x <- all_rows[seq_len(nrow(all_rows)) %% size == ring_rank(group), ]
    scaled <- ring_scale(group, x)
    emit("mean", attr(scaled, "scaled:center"))
    emit("squares", sparkring:::columns_known(group, x)$squares)
    data <- as.data.frame(x)
    fit <- ring_lm(group, e ~ a + b + c + d, data, weights = abs(a - 1e6) * (a < 1e6 + 1))
    emit("lm", coef(fit))
    for (family in names(links)) {
      data$z <- if (family == "binomial") data$e > 5 else abs(round(data$e)) + 1
      for (link in links[[family]]) {
        fit <- ring_glm(group, z ~ b + c, do.call(family, list(link = link)), data)
        name <- paste0(python[[family]], "-", if (link == "1/mu^2") "inverse_squared" else link)
        emit(name, c(coef(fit), vcov(fit), deviance(fit)))
      }
    }
    for (type in 1:9) {
      probs <- c(0, 0.1, 1 / 3, 0.5, 0.77, 1)
      emit(paste0("quantile-", type), ring_quantile(group, x[, 3], probs, type = type))
    }
    fit <- ring_prcomp(group, x)
    emit("prcomp", c(fit$rotation, fit$center, sparkring:::prcomp_qr(group, x, TRUE, FALSE, 0L)$d))
    fit <- ring_svd(group, x, u = FALSE)
    emit("svd", c(fit$v, fit$d))
    emit("ridge", coef(ring_lm(group, e ~ a + b + c, data, ridge = 0.5)))
    emit("plain", coef(ring_lm(group, e ~ 0 + a + b + c, data)))
    given <- ring_kmeans(group, x, rbind(all_rows[1:4, ], 1e6), tol = 0)
    emit("given", t(given$centers))
    emit("iterations", given$iter)
    set.seed(1)
    drawn <- ring_kmeans(group, x, 5)
    emit("drawn", t(drawn$centers))
    emit("labels", drawn$cluster)
    for (ties in c("efron", "breslow")) emit_survival(emit, group, ties, survival_rows(x))
    net <- function(family, y, alpha, lambda, standardize = FALSE, factors = NULL) {
      fit <- ring_glmnet(group, x[, -5], y, family, weights = 1 + (x[, 1] > 1e6), alpha = alpha,
                         lambda = lambda, standardize = standardize, penalty.factor = factors)
      name <- if (standardize) paste0("standard-", family) else family
      emit(name, fit$slopes)
      emit(paste0(name, "-level"), fit$a0)
      if (!standardize || alpha == 0) return(invisible())
      path <- ring_glmnet(group, x[, -5], y, family, weights = 1 + (x[, 1] > 1e6), alpha = alpha,
                          nlambda = 9, lambda.min.ratio = 0.01, maxit = 1000,
                          penalty.factor = factors)
      emit(paste0("path-", family), path$slopes)
      emit(paste0("path-", family, "-alphas"), path$lambda)
    }
    net("gaussian", x[, 5], 1, c(1, 0.3, 0.1, 0.01))
    net("binomial", x[, 5] > 5, 0.5, c(1, 0.3, 0.1, 0.01))
    net("poisson", abs(round(x[, 5])), 0, 0.1)
    factors <- c(0.3, 0, 1.7, 2.1, 1)
    net("gaussian", x[, 5], 1, c(1, 0.1), TRUE, factors)
    net("binomial", x[, 5] > 5, 0.5, c(0.1, 0.01), TRUE, factors)
    net("poisson", abs(round(x[, 5])), 0.5, c(0.1, 0.01), TRUE, c(1, Inf, 1, 1, 1))
    net("multinomial", factor(pmin(2, abs(round(x[, 5])))), 0.5, c(0.1, 0.01), TRUE, factors)
    weight <- ring_allreduce(group, sum(1 + (x[, 1] > 1e6)))
    net("multinomial", factor(pmin(2, abs(round(x[, 5])))), 0, 1 / (0.5 * weight))
    set.seed(1)
    emit("seed", floor(runif(1) * 2^31))
  }
  ring_close(group)
}
ring_close(comm)
