# SPDX-License-Identifier: Apache-2.0

skip_if_not_installed("survival")
lung <- survival::lung
lung$weight <- 1 + (seq_len(nrow(lung)) %% 3) / 2
lung$group <- factor(c("a", "b", "c", "d"))[seq_len(nrow(lung)) %% 4 + 1]
heart <- survival::heart
rounded <- transform(lung, time = ceiling(time / 60))
sited <- transform(lung[!is.na(lung$inst), ], site = paste0("s", inst)) # ranks lack some sites

# model, data, further arguments, split.
coxph_models <- list(
  efron = list(Surv(time, status) ~ age + sex + ph.ecog, lung, list(), dealt),
  breslow = list(Surv(time, status) ~ age + sex, lung, list(ties = "breslow"), in_blocks),
  ties = list(Surv(time, status) ~ age + factor(sex), rounded, list(), one_empty),
  strata = list(Surv(time, status) ~ age + strata(group), rounded, list(), dealt),
  two_strata = list(Surv(time, status) ~ age + strata(group, sex), lung, list(), one_empty),
  weights = list(Surv(time, status) ~ age + sex, lung, list(weights = quote(weight)), dealt),
  robust = list(Surv(time, status) ~ age + sex, rounded, list(robust = TRUE), dealt),
  cluster = list(Surv(time, status) ~ age + sex + cluster(inst), rounded, list(), dealt),
  site = list(Surv(time, status) ~ age + sex + cluster(site), sited, list(), in_blocks),
  counting = list(Surv(start, stop, event) ~ age + year + surgery, heart, list(), dealt),
  counting_robust = list(
    Surv(start, stop, event) ~ age + surgery + cluster(id), heart, list(ties = "breslow"), in_blocks
  ),
  counting_strata = list(
    Surv(start, stop, event) ~ age + strata(surgery), heart, list(), in_blocks
  ),
  counting_weights = list(
    Surv(start, stop, event) ~ age + year, heart, list(weights = quote(id %% 3 + 0.5)), dealt
  ),
  aliased = list(Surv(time, status) ~ age + I(2 * age) + sex, lung, list(), dealt),
  offset = list(Surv(time, status) ~ age + offset(sex / 2), lung, list(), dealt),
  subset = list(Surv(time, status) ~ age * group, lung, list(subset = quote(sex == 1)), dealt)
)
fit_coxph <- function(first, models, rows) {
  lapply(models, function(model) {
    call <- c(first, model[[1L]], data = quote(data), model[[3L]])
    environment(call[[length(first) + 1L]]) <- asNamespace("survival")
    eval(as.call(call), list(data = rows(model[[2L]], model[[4L]])))
  })
}

# nolint start: object_usage_linter. testthat provides these functions.
expect_hazards <- function(models) {
  results <- run_ring(3, {
    fit_coxph(list(ring_coxph, comm), models, function(data, split) split(data, rank, size))
  }, fit_coxph = fit_coxph, models = models)
  whole <- fit_coxph(list(survival::coxph, model = TRUE, x = TRUE), models,
                     function(data, split) data)
  for (name in names(models)) {
    fit <- results[[1]][[name]]
    truth <- whole[[name]]
    expect_identical(names(coef(fit)), names(coef(truth)), info = name)
    expect_lt(difference(coef(fit), coef(truth)), 1e-8)
    expect_lt(difference(fit$var, truth$var), 1e-8)
    if (!is.null(truth$naive.var)) expect_lt(difference(fit$naive.var, truth$naive.var), 1e-8)
    for (field in c("loglik", "score", "n", "nevent", "wald.test")) {
      expect_equal(fit[[field]], truth[[field]], tolerance = 1e-8, ignore_attr = TRUE,
                   info = paste(name, field))
    }
    expect_equal(fit$means, truth$means, tolerance = 1e-10, info = name)
    expect_equal(coef(summary(fit)), coef(summary(truth)), tolerance = 1e-8, info = name)
    if (name == "aliased") next
    found <- survival::survfit(fit)
    expected <- suppressWarnings(survival::survfit(truth)) # of interactions
    fields <- c("n", "time", "n.risk", "n.event", "n.censor", "surv", "cumhaz", "std.err", "lower",
                "upper")
    for (field in fields) {
      expect_equal(found[[field]], expected[[field]], tolerance = 1e-8, ignore_attr = TRUE,
                   info = paste(name, field))
    }
    if (!is.null(expected$strata)) {
      expect_equal(unname(found$strata), unname(expected$strata), info = name)
    }
  }
  numbers <- function(fits) lapply(fits, `[`, c("coefficients", "var", "loglik"))
  expect_identical(numbers(results[[2]]), numbers(results[[1]]))
}
# nolint end

# A run of ranks is short enough for a loaded machine.
test_that("hazard models are those of coxph() on all rows", {
  expect_hazards(coxph_models[1:7])
})

test_that("hazard models with clusters, start times and offsets are those of coxph()", {
  expect_hazards(coxph_models[8:16])
})

test_that("a hazard model has the methods of coxph()", {
  comm <- local_world()
  fit <- ring_coxph(comm, Surv(time, status) ~ age + factor(sex), lung)
  truth <- survival::coxph(survival::Surv(time, status) ~ age + factor(sex), lung)
  expect_output(print(fit), "Likelihood ratio test=14.12 +on 2 df, p=0.00085")
  expect_output(print(summary(fit)), "n= 228, number of events= 165")
  expect_equal(predict(fit, lung[1:5, ], se.fit = TRUE),
               predict(truth, lung[1:5, ], se.fit = TRUE)[1:2], tolerance = 1e-8,
               ignore_attr = TRUE)
  expect_equal(predict(fit, lung, "risk"), predict(truth, lung, "risk"), tolerance = 1e-8,
               ignore_attr = TRUE)
  expect_equal(confint(fit), confint(truth), tolerance = 1e-8)
  expect_equal(c(AIC(fit), BIC(fit)), c(AIC(truth), BIC(truth)), tolerance = 1e-8)
  two <- data.frame(age = c(50, 70), sex = c(1, 2))
  expect_equal(summary(survival::survfit(fit, two), times = 300)$surv,
               summary(survival::survfit(truth, two), times = 300)$surv, tolerance = 1e-8,
               ignore_attr = TRUE)
  expect_equal(survival::survfit(fit, two)$std.err, survival::survfit(truth, two)$std.err,
               tolerance = 1e-8, ignore_attr = TRUE)
  formula <- Surv(time, status) ~ poly(age, 2) + strata(group) + offset(sex / 4)
  stratified <- ring_coxph(comm, formula, lung)
  environment(formula) <- asNamespace("survival")
  expected <- survival::coxph(formula, lung, model = TRUE)
  expect_equal(coef(stratified), coef(expected), tolerance = 1e-8)
  apart <- diff(predict(stratified, lung))
  expect_equal(apart, diff(predict(expected, lung)), tolerance = 1e-8,
               ignore_attr = TRUE)
  # New rows with the variables of the strata get the curve of their stratum, others all curves.
  formula <- Surv(time, status) ~ age + strata(sex) + strata(sick)
  sick <- transform(lung, sick = ph.ecog > 0)
  stratified <- ring_coxph(comm, formula, sick)
  environment(formula) <- list2env(list(sick = sick), parent = asNamespace("survival"))
  expected <- survival::coxph(formula, sick)
  of_strata <- data.frame(age = c(50, 60, 70), sex = c(1, 2, 2), sick = c(FALSE, TRUE, FALSE))
  for (new in list(of_strata, of_strata[2, ], of_strata["age"])) {
    found <- unclass(survival::survfit(stratified, new))
    truth_of <- unclass(survival::survfit(expected, new))
    expect_equal(as.integer(found$strata), as.integer(truth_of$strata))
    for (field in c("n", "time", "n.risk", "surv", "std.err", "lower", "cumhaz")) {
      expect_equal(found[[field]], truth_of[[field]], tolerance = 1e-8, ignore_attr = TRUE)
    }
  }
  expect_error(survival::survfit(stratified, data.frame(age = 1, sex = 3, sick = TRUE)),
               "the model has no stratum sex=3")
  less <- update(fit, . ~ age)
  expect_equal(anova(less, fit)$Chisq[[2]], 2 * (truth$loglik[[2]] - less$loglik[[2]]))
  read <- unserialize(serialize(fit, NULL))
  expect_equal(predict(read, lung), predict(fit, lung))
  expect_error(residuals(fit), "a ring_coxph holds no rows")
  expect_error(survival::survfit(update(fit, baseline = FALSE)), "no baseline hazard")
  skip_if_not_installed("generics")
  expect_equal(generics::tidy(fit)$estimate, unname(coef(truth)), tolerance = 1e-8)
  expect_identical(generics::glance(fit)$nevent, 165L)
  expect_length(generics::augment(fit, lung)$.fitted, 228)
})

test_that("a hazard model without covariates is that of coxph()", {
  formula <- Surv(time, status) ~ strata(group)
  fits <- run_ring(3, ring_coxph(comm, formula, dealt(lung, rank, size)),
                   formula = formula, lung = lung, dealt = dealt)
  environment(formula) <- asNamespace("survival")
  truth <- survival::coxph(formula, lung, model = TRUE)
  expect_equal(fits[[2]]$loglik, truth$loglik, tolerance = 1e-12)
  expect_output(print(fits[[2]]), "Null model\n  log likelihood= -[0-9.]+ \n  n= 228")
  comm <- local_world()
  one <- ring_coxph(comm, Surv(time, status) ~ age + strata(group), lung)
  expect_equal(anova(fits[[2]], one)$Chisq[[2]], 2 * diff(one$loglik))
  expect_error(anova(fits[[2]], update(one, ties = "breslow")), "must have the same `ties`")
  expect_error(anova(update(one, robust = TRUE), one), "not for models with robust variances")
  expect_equal(survival::survfit(fits[[2]])$cumhaz, survival::survfit(truth)$cumhaz,
               tolerance = 1e-12)
})

test_that("strata have labels of any width, and may be logicals", {
  rows <- transform(lung, sick = ph.karno < 80, name = c("a", "bb", "ccc")[age %/% 22])
  rows <- rows[!is.na(rows$sick), ]
  formula <- Surv(time, status) ~ age + strata(name, sick) + strata(sex)
  fits <- run_ring(2, { # rank 1 lacks the longest labels
    own <- rows$name == "ccc" | !rows$sick
    ring_coxph(comm, formula, rows[own == (rank == 0), ])
  }, formula = formula, rows = rows)
  environment(formula) <- asNamespace("survival")
  truth <- survival::coxph(formula, rows, model = TRUE)
  expect_equal(coef(fits[[2]]), coef(truth), tolerance = 1e-8)
  expect_equal(fits[[2]]$loglik, truth$loglik, tolerance = 1e-12)
  names <- trimws(names(survival::survfit(truth)$strata)) # padded with blanks
  expect_identical(names(survival::survfit(fits[[1]])$strata), gsub(" +,", ",", names))
  expect_length(survival::survfit(fits[[1]], rows[c(1, 5), ])$strata, 2)
})

test_that("terms and likelihoods that coxph() treats in its own way are those of coxph()", {
  comm <- local_world()
  fit <- ring_coxph(comm, Surv(time, status) ~ factor(sex) - 1 + survival::strata(group), lung)
  formula <- Surv(time, status) ~ factor(sex) - 1 + strata(group)
  environment(formula) <- asNamespace("survival")
  truth <- survival::coxph(formula, lung, model = TRUE)
  expect_equal(coef(fit), coef(truth), tolerance = 1e-8)
  for (reference in c("strata", "sample", "zero")) {
    expect_equal(predict(fit, lung, reference = reference),
                 predict(truth, lung, reference = reference), tolerance = 1e-8, ignore_attr = TRUE)
  }
  expect_error(ring_coxph(comm, Surv(time, status) ~ age, lung, cluster = inst),
               "there is no argument `cluster`: add a term to the formula, such as cluster.group")
  expect_error(predict(fit, lung, refrence = "zero"), "there is no argument `refrence` for a dist")
  expect_error(predict(fit, lung["sex"]), "`newdata` has not the variables of the strata: pass")
  expect_equal(survival::basehaz(fit)$hazard, survival::basehaz(truth)$hazard, tolerance = 1e-8)
  new <- lung[seq(1, nrow(lung), 3), ]
  found <- survival::concordance(fit, newdata = new, timewt = "S")
  expected <- survival::concordance(truth, newdata = new, timewt = "S")
  kept <- setdiff(names(expected), "call")
  expect_equal(found[kept], expected[kept], tolerance = 1e-10)
  for (f in list(survival::cox.zph, survival::concordance, survival::coxph.detail, model.matrix)) {
    expect_error(f(fit), "this function of survival needs all rows of the fit")
  }
  none <- ring_coxph(comm, Surv(time, status * 0) ~ age, lung)
  expect_identical(coef(none), c(age = NA_real_))
  expect_output(print(none), "number of events= 0")
  expect_true(all(survival::survfit(none)$surv == 1))
  own <- transform(lung[1:9, ], row = 1:9)
  alone <- ring_coxph(comm, Surv(time, status) ~ age + strata(row), own)
  expect_identical(c(alone$loglik, coef(alone)), c(0, 0, age = NA))
  for (term in c("ridge(age)", "survival::pspline(age)", "tt(age)", "survival::frailty(inst)")) {
    formula <- as.formula(paste("Surv(time, status) ~ sex +", term), asNamespace("survival"))
    expect_error(ring_coxph(comm, formula, lung), "[a-z]+\\(\\) is not supported")
  }
  expect_error(ring_coxph(comm, Surv(time, status) ~ age, ring_chunks(list(lung))),
               "`data` is a function, and this model needs all rows")
  gaps <- ring_coxph(comm, Surv(time, status) ~ age + meal.cal, lung)
  expect_error(anova(ring_coxph(comm, Surv(time, status) ~ age, lung), gaps),
               "models were not all fitted to the same size of dataset")
})

# The fits of all ranks are that of coxph() to all rows.
expect_hazard <- function(fits, model, name) {
  environment(model[[1]]) <- asNamespace("survival")
  truth <- suppressWarnings(survival::coxph(model[[1]], model[[2]]))
  fields <- c(if (!name %in% c("null", "flat")) "var", "score", "rscore", "n", "nevent")
  for (fit in fits) {
    for (field in intersect(fields, names(truth))) {
      testthat::expect_equal(fit[[field]], truth[[field]], tolerance = 1e-8,
                             info = paste(name, field))
    }
    testthat::expect_equal(fit$loglik[seq_along(truth$loglik)], truth$loglik, tolerance = 1e-8,
                           info = name)
    if (name == "null") next
    testthat::expect_identical(is.na(coef(fit)), is.na(coef(truth)), info = name)
    testthat::expect_lt(max(0, abs(coef(fit) / coef(truth) - 1), na.rm = TRUE), 1e-7)
  }
}

# nolint start: object_usage_linter. Surv() is that of the model.
test_that("times, statuses, scales and columns are judged as by coxph()", {
  set.seed(1)
  rough <- data.frame(x = rnorm(300), s = rep(1:3, 100), status = rep(c(1, 0, 2), 100))
  rough$end <- (sample(10, 300, TRUE) / 10 + 0.3) - 0.2 * sample(2, 300, TRUE)
  rough$start <- rough$end - sample(3, 300, TRUE) * 0.1
  rough$end <- rough$end + sample(-1:1, 300, TRUE) * 1e-9
  wide <- transform(lung, revenue = age * 1e9, ratio = ph.karno * 1e-6, flat = 0.1 * (sex > 0))
  wide$twice <- 2 * wide$revenue + wide$ratio
  models <- list(
    fixed = list(Surv(end, s > 1) ~ x, rough),
    fixed_start = list(Surv(start, end, s > 1) ~ x, rough),
    fixed_strata = list(Surv(end, s == 1) ~ x + strata(s %% 2), rough),
    status = list(Surv(end, status) ~ x, rough), times = list(Surv(end) ~ x, rough),
    scales = list(Surv(time, status) ~ revenue + I(sex - 1) + ratio, wide),
    no_information = list(Surv(time, status) ~ revenue + flat + sex + twice + ratio, wide),
    flat = list(Surv(time, status) ~ flat, wide),
    robust = list(Surv(time, status) ~ ph.karno + sex + cluster(inst) + offset(age / 100), wide),
    null = list(Surv(time, status) ~ 1, lung)
  )
  results <- run_ring(3, lapply(models, function(model) {
    suppressWarnings(ring_coxph(comm, model[[1]], one_empty(model[[2]], rank, size)))
  }), models = models, one_empty = one_empty)
  for (name in names(models)) expect_hazard(lapply(results, `[[`, name), models[[name]], name)
  # Wald's test of survival depends on the units.
  units <- survival::coxph(survival::Surv(time, status) ~ age + I(sex - 1) + ph.karno, lung)
  expect_equal(results[[1]]$scales$wald.test, units$wald.test, tolerance = 1e-8)
})

test_that("times may stay as they are, and what coxph() warns of has a warning", {
  rough <- data.frame(end = (1:9 / 10 + 0.3) - c(0.1, 0.2, 0.3), s = rep(1:3, 3), x = cos(1:9))
  comm <- local_world()
  as_they_are <- ring_coxph(comm, Surv(end, s > 1) ~ x, rough, control = list(timefix = FALSE))
  truth <- survival::coxph(survival::Surv(end, s > 1) ~ x, rough, timefix = FALSE)
  expect_equal(coef(as_they_are), coef(truth), tolerance = 1e-8)
  response <- transform(lung, y = survival::Surv(time, status))
  expect_equal(coef(ring_coxph(comm, y ~ age, response)),
               coef(ring_coxph(comm, Surv(time, status) ~ age, lung)))
  short <- data.frame(from = 0.3, to = 0.1 + 0.2 + 1e-10, e = 1, x = 1)
  expect_error(ring_coxph(comm, Surv(from, to, e) ~ x, short), "an interval has no length")
  apart <- data.frame(t = 1:20, e = rep(1:0, 10), x = rep(1:0, 10), z = sin(1:20))
  expect_warning(ring_coxph(comm, Surv(t, e) ~ z + x, apart),
                 "the likelihood converged before the coefficients of x, which may be infinite")
  expect_warning(ring_coxph(comm, Surv(end, s - 1) ~ x, rough), "Invalid status value, conv")
})
# nolint end

test_that("an error of a hazard model is one on all ranks", {
  results <- run_ring(2, {
    data <- dealt(lung, rank, size)
    if (rank == 1) data$age[[1]] <- Inf
    text <- function(...) {
      tryCatch(ring_coxph(comm, ..., data = data), error = conditionMessage)
    }
    list(text(time ~ sex), text(Surv(time, status) ~ age),
         text(Surv(time, status) ~ sex, init = 1:2),
         text(Surv(time, status) ~ sex:strata(group)), text(Surv(time, status) ~ sex, control = 1),
         text(Surv(time, status) ~ sex, ties = if (rank == 1) "no" else "efron"),
         text(Surv(time, status) ~ sex, robust = if (rank == 1) "no"), ring_allreduce(comm, 1),
         tryCatch(ring_coxph(comm, Surv(time, status) ~ sex, data, weights = 0 * time),
                  error = conditionMessage),
         text(Surv(time, status) ~ sex + offset(1e4 * sex)))
  }, lung = lung, dealt = dealt)
  expect_match(results[[1]][[1]], "the response must be a call of Surv\\(\\), or a col")
  expect_match(results[[1]][[2]], "rank 1 .*column age has values that are not finite")
  expect_match(results[[1]][[3]], "`init` must have 1 values, one for each coefficient")
  expect_match(results[[1]][[4]], "an interaction with strata\\(group\\) is not supported")
  expect_match(results[[1]][[6]], "rank 1 .* failed: `.*` must be one of")
  expect_match(results[[1]][[7]], "rank 1 .* failed: `robust` must be TRUE or FALSE")
  expect_identical(results[[1]][[8]], 2)
  expect_match(results[[1]][[9]], "there are no rows with a weight on any rank")
  expect_match(results[[1]][[10]], "likelihood or its derivatives are not finite at the start")
})

test_that("passes in C check their arguments", {
  pass <- list(all = matrix(0, 11, 3), width = 2L, efron = TRUE, details = FALSE)
  pass <- c(pass, .Call(C_coxph_risks, pass, double(2)))
  expect_identical(pass$risks, c(1, 1, 1))
  expect_error(.Call(C_coxph_risks, replace(pass, "width", 5L), double(5)),
               "the records do not have 5 covariates")
  expect_error(.Call(C_coxph_edge, replace(pass, "risks", 1), TRUE), "risks must be of type double")
  expect_error(.Call(C_coxph_forward, pass, 0), "the list has no element rows")
  expect_error(.Call(C_coxph_forward, c(pass, list(rows = matrix(0, 1, 1))), 0),
               "the rows of groups do not belong to the pass")
  expect_error(.Call(C_coxph_residuals, c(pass, list(rows = matrix(0, 6, 0))), double(3)),
               "the pass has no details")
  expect_error(.Call(C_coxph_step, double(7), TRUE, 0, TRUE), "the sums are not those of 1 columns")
})
