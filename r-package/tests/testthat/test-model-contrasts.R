# SPDX-License-Identifier: Apache-2.0

test_that("contrasts of a factor are those of lm(), glm() and coxph()", {
  own <- matrix(c(1, -1, 0, 0.1, 0.2, -0.3), 3, dimnames = list(NULL, c("one", "two")))
  breaks <- warpbreaks
  contrasts(breaks$tension) <- contr.SAS(3)
  contrasts(breaks$wool) <- "contr.sum"
  breaks$level <- factor(breaks$tension, ordered = TRUE)
  formulas <- list(
    breaks ~ wool + tension, breaks ~ wool + C(tension, contr.sum), breaks ~ C(tension, helmert),
    breaks ~ wool * stats::C(tension, own), breaks ~ C(level, poly, 1) + wool,
    breaks ~ C(factor(tension, c("M", "H", "L")), contr.treatment, base = 2), log(breaks) ~ wool
  )
  few <- breaks[c(1, 20, 50), ]
  attr(few$wool, "contrasts") <- attr(few$tension, "contrasts") <- NULL # of which predict() warns
  for (split in list(one_empty, in_blocks)) { # of blocks, each has one tension of a wool
    results <- run_ring(3, {
      data <- split(breaks, rank, size)
      fits <- c(lapply(formulas, function(formula) ring_lm(comm, formula, data)),
                list(ring_glm(comm, breaks ~ C(tension, contr.sum), poisson, data)))
      chunks <- ring_lm(comm, formulas[[2]], ring_chunks(list(data[0L, ], data)))
      predicted <- lapply(fits[c(1, 2, 4)], predict, newdata = few)
      list(lapply(fits, coef), predicted, coef(chunks))
    }, breaks = breaks, own = own, few = few, formulas = formulas, split = split)
    whole <- lapply(formulas, function(formula) {
      environment(formula) <- environment()
      lm(formula, breaks)
    })
    counts <- glm(breaks ~ C(tension, contr.sum), stats::poisson, breaks)
    for (result in results) {
      expect_equal(result[[1]], c(lapply(whole, coef), list(coef(counts))), tolerance = 1e-9)
      expected <- suppressWarnings(lapply(whole[c(1, 2, 4)], predict, few))
      expect_equal(result[[2]], expected, tolerance = 1e-9, ignore_attr = TRUE)
      expect_equal(result[[3]], coef(whole[[2]]), tolerance = 1e-9)
    }
  }
  skip_if_not_installed("survival")
  lung <- transform(na.omit(survival::lung), group = factor(ph.ecog > 0))
  comm <- local_world()
  truth <- survival::coxph(survival::Surv(time, status) ~ C(group, contr.sum), lung)
  expect_equal(coef(ring_coxph(comm, Surv(time, status) ~ C(group, contr.sum), lung)), coef(truth))
})

test_that("contrasts that ranks do not share are an error, and unused levels drop them", {
  results <- run_ring(2, {
    data <- dealt(warpbreaks, rank, size)
    if (rank == 1) contrasts(data$tension) <- "contr.sum"
    size <- rank + 1
    list(tryCatch(ring_lm(comm, breaks ~ tension, data), error = conditionMessage),
         tryCatch(ring_lm(comm, breaks ~ C(tension, contr.treatment, base = size), data),
                  error = conditionMessage))
  }, dealt = dealt)
  for (result in results) {
    expect_match(result[[1]], "`tension` has contrasts on one rank, and others or none on another")
    expect_match(result[[2]], "the contrasts of C\\(tension, .* differ between ranks: pass")
  }
  comm <- local_world()
  few <- subset(warpbreaks, tension != "M")
  contrasts(few$tension) <- "contr.sum"
  expect_warning(fit <- ring_lm(comm, breaks ~ tension, few), "contrasts dropped from factor tens")
  expect_equal(coef(fit), coef(suppressWarnings(lm(breaks ~ tension, few))))
})
