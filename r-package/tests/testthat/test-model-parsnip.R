# SPDX-License-Identifier: Apache-2.0
#
# Engines of parsnip, on two ranks beside the reference on all rows.

test_that("the engines of parsnip fit to the rows of all ranks", {
  skip_if_not_installed("parsnip")
  skip_if_not_installed("survival")
  cars <- mtcars
  cars$am <- factor(cars$am, labels = c("auto", "hand"))
  results <- run_ring(2, {
    mine <- function(data) data[seq_len(nrow(data)) %% 2L == rank, ]
    engine <- function(model) parsnip::set_engine(model, "sparkring", comm = comm)
    line <- parsnip::fit(engine(parsnip::linear_reg()), mpg ~ wt + factor(cyl), data = mine(cars),
                         case_weights = hardhat::importance_weights(mine(cars)$qsec))
    logit <- parsnip::fit(engine(parsnip::logistic_reg()), am ~ wt, data = mine(cars))
    counts <- parsnip::fit(engine(parsnip::poisson_reg()), breaks ~ wool, data = mine(warpbreaks))
    lung <- survival::lung
    hazard <- parsnip::fit(engine(parsnip::proportional_hazards()),
                           survival::Surv(time, status) ~ age + sex, data = mine(lung))
    shape <- parsnip::mlp("classification", hidden_units = 3, penalty = 0.01, epochs = 50)
    set.seed(1)
    net <- parsnip::fit(engine(shape), Species ~ ., data = mine(iris))
    list(
      line = predict(line, cars)$.pred, low = predict(line, cars, type = "conf_int")$.pred_lower,
      chances = predict(logit, cars, type = "prob"), class = predict(logit, cars)$.pred_class,
      counts = predict(counts, warpbreaks)$.pred,
      hazard = predict(hazard, lung, type = "linear_pred")$.pred_linear_pred,
      right = mean(predict(net, iris)$.pred_class == iris$Species),
      chance = predict(net, iris, type = "prob")
    )
  }, cars = cars)
  truth <- stats::lm(mpg ~ wt + factor(cyl), cars, weights = qsec)
  logit <- stats::glm(am ~ wt, stats::binomial(), cars)
  chance <- unname(stats::fitted(logit))
  hazard <- survival::coxph(survival::Surv(time, status) ~ age + sex, survival::lung)
  for (result in results) {
    expect_equal(result$line, unname(stats::predict(truth, cars)), tolerance = 1e-10)
    low <- stats::predict(truth, cars, interval = "confidence")[, "lwr"]
    expect_equal(result$low, unname(low), tolerance = 1e-10)
    expect_equal(result$chances$.pred_hand, chance, tolerance = 1e-8)
    expect_identical(result$class, factor(levels(cars$am)[1 + (chance > 0.5)], levels(cars$am)))
    means <- unname(ave(warpbreaks$breaks, warpbreaks$wool))
    expect_equal(result$counts, means, tolerance = 1e-8)
    expected <- -unname(stats::predict(hazard, survival::lung, type = "lp", reference = "zero"))
    expect_equal(result$hazard, expected, tolerance = 1e-8)
    expect_gt(result$right, 0.9)
    expect_equal(rowSums(result$chance), rep(1, 150), tolerance = 1e-12)
  }
})
