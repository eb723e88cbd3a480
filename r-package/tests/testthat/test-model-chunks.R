# SPDX-License-Identifier: Apache-2.0

# Sorted, so that no chunk and no rank has all levels.
ozone <- airquality[order(airquality$Month), ]
ozone$period <- c("e", "d", "c", "b", "a")[ozone$Month - 4]
chunk_models <- list(
  poisson = quote(fit("glm", round(Wind) ~ factor(Month) * Temp, poisson, data, offset = log(Day))),
  weights = quote(fit("glm", Ozone ~ Solar.R + period, Gamma("log"), data, weights = Day)),
  binomial = quote(fit("glm", cbind(Day, 31 - Day) ~ poly(Temp, 2) + scale(Wind), binomial, data)),
  inverse = quote(fit("glm", Temp ~ Wind, inverse.gaussian, data, subset = Day > 3)),
  aliased = quote(fit("lm", Temp ~ Wind + I(2 * Wind) + period, data, weights = Day)),
  empty = quote(fit("glm", Temp ~ 0, gaussian, data)),
  centered = quote(fit("lm", I(Temp + 1e6) ~ ., data, offset = Day))
)
fields <- c("null.deviance", "aic", "df.residual", "df.null", "rank")

test_that("models of chunks are those of all rows", {
  results <- run_ring(3, {
    own <- if (rank != 1) ozone[(seq_len(nrow(ozone)) > 80) == (rank == 2), ] # rank 1 has none
    data <- ring_chunks(if (rank != 1) split(own, seq_len(nrow(own)) %/% 7))
    fit <- function(name, ...) {
      call <- match.call(expand.dots = FALSE)
      eval(as.call(c(as.name(paste0("ring_", name)), quote(comm), call$...)))
    }
    fits <- lapply(models, eval, envir = environment())
    list(fits = fits, summary = lapply(fits, function(fit) summary(fit)$coefficients),
         anova = anova(fits$poisson), added = add1(fits$aliased, ~ . + Day),
         intervals = suppressMessages(confint(fits$poisson)),
         residuals = tryCatch(residuals(fits$poisson), error = conditionMessage))
  }, models = chunk_models, ozone = ozone)
  fit <- function(name, ...) {
    call <- match.call(expand.dots = FALSE)
    eval(as.call(c(as.name(name), call$...)), list(data = ozone))
  }
  whole <- lapply(chunk_models, eval, envir = environment())
  for (name in names(chunk_models)) {
    found <- results[[1]]$fits[[name]]
    truth <- whole[[name]]
    expect_lt(difference(coef(found), coef(truth)), 1e-10)
    expect_equal(as.double(results[[1]]$summary[[name]]),
                 as.double(suppressWarnings(summary(truth))$coefficients), tolerance = 1e-7)
    expect_equal(deviance(found), deviance(truth), tolerance = 1e-10, info = name)
    fields <- intersect(fields, names(found))
    expect_equal(found[fields], unclass(truth)[fields], tolerance = 1e-10, info = name)
    expect_identical(found$quantiles, double())
  }
  expect_equal(summary(results[[1]]$fits$centered)$r.squared, summary(whole$centered)$r.squared,
               tolerance = 1e-8)
  for (fit in results[[1]]$fits[c("centered", "poisson")]) { # no quantiles of no residuals
    shown <- capture.output(print(summary(fit)))
    expect_no_match(shown, "Residuals:", fixed = TRUE)
    expect_match(shown, "(Intercept)", fixed = TRUE, all = FALSE)
  }
  expect_equal(as.data.frame(results[[1]]$anova), as.data.frame(anova(whole$poisson)),
               tolerance = 1e-8)
  data <- ozone
  expect_equal(as.data.frame(results[[1]]$added), as.data.frame(add1(whole$aliased, ~ . + Day)),
               tolerance = 1e-8)
  expect_equal(results[[1]]$intervals, confint.default(whole$poisson), tolerance = 1e-7)
  expect_match(results[[1]]$residuals, "residuals() needs all rows", fixed = TRUE)
  expect_identical(results[[2]]$summary, results[[1]]$summary)
})

test_that("memory is that of a chunk, not that of all rows", {
  results <- run_ring(2, {
    chunk <- function(i) {
      set.seed(30 * rank + i)
      x <- matrix(rnorm(20000 * 12), ncol = 12)
      data.frame(y = x[, 1] + rnorm(20000), x)
    }
    peak <- function() {
      line <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
      as.numeric(gsub("[^0-9]", "", line)) / 1024
    }
    utils::assignInNamespace("parts_most", 2^23, "sparkring")
    fit <- ring_glm(comm, y ~ ., data = ring_chunks(1:30, chunk))
    within <- peak()
    held <- ring_glm(comm, y ~ ., data = do.call(rbind, lapply(1:30, chunk)))
    list(found = coef(fit), expected = coef(held), within = within, held = peak())
  })
  for (result in results) {
    expect_lt(difference(result$found, result$expected), 1e-10)
    expect_lt(result$within, result$held / 2.5)
  }
})

test_that("a model of a Spark table reads batches", {
  results <- play(3, of_script(function(batches, comm) {
    fit <- sparkring:::table_rank(batches, comm, "ring_lm", list(formula = log(n) ~ I(n > 1)))
    if (!is.null(fit)) stats::coef(fit)
  }), rows = "batches")
  values <- lapply(results, function(result) unserialize(result$value))
  expected <- lm(log(n) ~ I(n > 1), data.frame(n = c(1, 1, 2))) # rank 0 has no rows
  expect_equal(values, list(coef(expected), NULL, NULL))
})

test_that("what is wrong with the chunks of one rank is an error on all ranks", {
  messages <- run_ring(2, {
    try_fit <- function(data, formula = mpg ~ wt, fit = ring_lm, ...) {
      further <- eval(substitute(alist(...)))
      call <- as.call(c(list(fit, comm, formula, data = quote(data)), further))
      tryCatch(eval(call), error = conditionMessage)
    }
    one <- ring_chunks(list(mtcars))
    halves <- ring_chunks(list(mtcars[1:16, ], mtcars[17:32, ]))
    late <- function(i) if (rank == 1 && i == 2) stop("disk") else mtcars
    list(
      some = try_fit(if (rank == 1) mtcars else one),
      late = try_fit(ring_chunks(1:2, late)),
      odd = try_fit(ring_chunks(list(mtcars, if (rank == 1) "x" else mtcars))),
      none = try_fit(ring_chunks(list())), mlp = try_fit(one, fit = sparkring::ring_mlp),
      plain = try_fit(function() mtcars),
      stuck = try_fit(function(reset = FALSE) if (!(reset && rank == 1)) halves(reset)),
      types = try_fit(ring_chunks(list(mtcars, if (rank == 1) transform(mtcars, wt = "a")))),
      width = try_fit(ring_chunks(1:2, function(i) {
        within(mtcars, m <- cbind(hp, wt, drat)[, seq_len(1 + i * (rank == 0 || i == 1))])
      }), mpg ~ m),
      moving = try_fit(ring_chunks(split(mtcars, 1:32)), mpg ~ I(wt - mean(wt))),
      outside = try_fit(one, weights = 1:32), subset = try_fit(one, subset = cyl),
      good = coef(try_fit(one))
    )
  })
  for (found in messages) {
    expect_match(found$some, "`data` is a function on some ranks only, such as rank 0")
    expect_match(found$late, "disk")
    expect_match(found$odd, "mpg")
    expect_match(found$none, "there are no rows on any rank: `data` has no chunk")
    expect_match(found$mlp, "fit ring_glm() or ring_lm(), which take chunks", fixed = TRUE)
    expect_match(found$plain, "`data` is a function without the argument `reset`")
    expect_match(found$stuck, "returned 16 rows in the first pass and 0 in another: it must begin")
    expect_match(found$types, "`wt` is numbers in chunk 1 and a factor or strings in chunk 2")
    expect_match(found$width, "`m` is numbers with the columns hp, wt in chunk 1 and numbers ")
    expect_match(found$moving, "I(wt - mean(wt)) depends on all rows", fixed = TRUE)
    expect_match(found$outside, "1:32 has no column of the chunks")
    expect_match(found$subset, "`subset` must be logical, with a value for each row")
    expect_equal(found$good, coef(lm(mpg ~ wt, mtcars)))
  }
})

test_that("the first chunk may have no values, and columns any order; a warning comes once", {
  results <- run_ring(2, {
    unknown <- transform(mtcars, hp = NA)
    chunks <- ring_chunks(if (rank == 0) list(unknown, mtcars[1:20, ], mtcars[21:32, 11:1]))
    texts <- character()
    warned <- withCallingHandlers(
      ring_glm(comm, am / 2 ~ hp, binomial, chunks),
      warning = function(warning) {
        texts <<- c(texts, conditionMessage(warning))
        invokeRestart("muffleWarning")
      }
    )
    list(lm = ring_lm(comm, mpg ~ ., chunks), glm = coef(warned), texts = texts)
  })
  truth <- lm(mpg ~ ., mtcars)
  expect_equal(coef(results[[1]]$lm), coef(truth))
  expect_equal(predict(results[[2]]$lm, mtcars[1:3, ]), fitted(truth)[1:3])
  expect_equal(results[[2]]$lm$omitted, 32)
  expect_equal(results[[1]]$glm, coef(suppressWarnings(glm(am / 2 ~ hp, binomial, mtcars))))
  expect_length(results[[1]]$texts, 1)
})
