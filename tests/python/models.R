# SPDX-License-Identifier: Apache-2.0
# Results of stats and survival that the models of Python must have. Reads the rows from the CSV
# file of the first argument, and writes JSON and CSV files into the folder of the second.

arguments <- commandArgs(TRUE)
rows <- read.csv(arguments[[1]])
folder <- arguments[[2]]

json <- function(x) {
  if (is.list(x)) {
    fields <- vapply(names(x), function(name) sprintf('"%s": %s', name, json(x[[name]])), "")
    return(sprintf("{%s}", paste(fields, collapse = ", ")))
  }
  text <- if (is.character(x)) encodeString(x, quote = '"') else format(as.vector(x), digits = 17)
  sprintf("[%s]", paste(sub("^ *(NA|NaN)$", "NaN", text), collapse = ", "))
}

printed <- function(x) capture.output(print(x))

of_glm <- function(fit) {
  tests <- summary(fit)
  known <- !is.na(coef(fit))
  p <- replace(coef(fit), known, tests$coefficients[, 4])
  list(coefficients = ifelse(is.na(coef(fit)), 0, coef(fit)),
       covariance = vcov(fit), errors = sqrt(diag(vcov(fit))), p = p,
       deviance = c(fit$deviance, fit$null.deviance, fit$aic, tests$dispersion),
       freedom = c(fit$df.residual, fit$df.null, fit$rank, fit$iter), printed = printed(tests))
}

of_coxph <- function(fit) {
  list(coefficients = ifelse(is.na(coef(fit)), 0, coef(fit)), covariance = fit$var,
       loglik = fit$loglik,
       tests = c(fit$score, fit$wald.test, fit$iter, fit$n, fit$nevent, fit$means),
       printed = printed(summary(fit)))
}

survival_at <- function(fit, rows) {
  t(vapply(seq_len(nrow(rows)), FUN.VALUE = double(3), function(i) {
    curve <- survfit(fit, newdata = rows[i, ])
    summary(curve, times = c(100, 300, 600), extend = TRUE)$surv
  }))
}

terms <- "a + b + c + d"
of <- function(y) stats::as.formula(paste(y, "~", terms))
glms <- list(
  gaussian = glm(of("y"), data = subset(rows, weight > 0), weights = weight), # AIC has log(weight)
  binomial = glm(of("binary"), binomial, rows),
  probit = glm(of("binary"), binomial("probit"), rows),
  cloglog = glm(of("binary"), binomial("cloglog"), rows, weights = weight),
  poisson = glm(of("count"), poisson, rows, offset = offset, weights = weight),
  gamma = glm(of("positive"), Gamma("log"), rows),
  aliased = glm(y ~ a + ab + b + d, data = rows),
  inverse = glm(1 / (1 + weight) ~ offset, Gamma, rows),
  inverse_gaussian = glm(of("positive"), inverse.gaussian("log"), rows, weights = weight + 1),
  inverse_squared = glm(1 / (1 + weight) ~ offset, inverse.gaussian, rows)
)

library(survival)
lung <- na.omit(lung[, c("time", "status", "age", "sex", "ph.ecog", "inst")])
lung$status <- lung$status - 1
lung$weight <- rep(c(1, 2, 0.5, 0), length.out = nrow(lung))
lung$revenue <- 1e7 * lung$age
lung$ratio <- 1e-3 * lung$ph.ecog
lung$same <- 0.1
lung$late <- lung$time + 10 * lung$age # of p-values below 2e-16
heart$transplant <- as.numeric(heart$transplant) - 1
write.csv(lung, file.path(folder, "lung.csv"), row.names = FALSE)
write.csv(heart, file.path(folder, "heart.csv"), row.names = FALSE)
lung$near <- ifelse(seq_len(nrow(lung)) %% 2 == 0, lung$time, (lung$time + 0.1) - 0.1)
used <- lung[lung$weight > 0, ]
coxphs <- list(
  efron = coxph(Surv(time, status) ~ age + sex + ph.ecog, lung),
  breslow = coxph(Surv(time, status) ~ age + sex + ph.ecog, lung, ties = "breslow"),
  strata = coxph(Surv(time, status) ~ age + ph.ecog + strata(sex), used, weights = weight,
                 robust = FALSE),
  cluster = coxph(Surv(time, status) ~ age + sex + ph.ecog, used, weights = weight,
                  cluster = inst),
  strong = coxph(Surv(time, status) ~ late, lung),
  stratas = coxph(Surv(time, status) ~ age + strata(sex, ph.ecog), lung),
  fractional = coxph(Surv(time, status) ~ age + ph.ecog, used, weights = weight),
  scales = coxph(Surv(time, status) ~ revenue + sex + ratio, lung),
  constant = coxph(Surv(time, status) ~ same + age + sex + strata(sex), lung),
  near = coxph(Surv(near, status) ~ age + sex, lung),
  few = coxph(Surv(time, status) ~ age + ph.ecog + inst, lung, cluster = sex),
  counting = coxph(Surv(start, stop, event) ~ age + year + surgery + transplant, heart,
                   cluster = id)
)
correlated <- function(fit) { # Wald's test, which has to forget no variance that is small
  z <- coef(fit) / sqrt(diag(fit$var))
  sum(z * solve(cov2cor(fit$var), z))
}
coxphs$scales$wald.test <- correlated(coxphs$scales)
survivals <- list(
  survival = list(
    efron = survival_at(coxphs$efron, lung[1:4, ]),
    strata = survival_at(coxphs$strata, lung[1:4, ]),
    stratas = survival_at(coxphs$stratas, lung[1:4, ])
  )
)
found <- c(survivals, lapply(glms, of_glm), lapply(coxphs, of_coxph))
writeLines(json(found), file.path(folder, "found.json"))
