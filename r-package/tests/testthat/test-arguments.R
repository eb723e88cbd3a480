# SPDX-License-Identifier: Apache-2.0
#
# Arguments that a function does not know, lacks or cannot use are errors that name them.

of_namespace <- parseNamespaceFile("sparkring", dirname(system.file(package = "sparkring")))

test_that("each method refuses an argument that it does not know", {
  skip_if_not_installed("survival")
  comm <- local_world()
  lung <- na.omit(survival::lung[c("time", "status", "age")])
  mean_of <- function(data, weights, comm) sum(weights * data) / sum(weights)
  request <- ring_barrier_start(comm)
  objects <- list(
    ring_lm = ring_lm(comm, dist ~ speed, cars),
    ring_glm = ring_glm(comm, dist ~ speed, data = cars),
    ring_glmnet = ring_glmnet(comm, mtcars[2:4], mtcars$mpg, nlambda = 3),
    ring_coxph = ring_coxph(comm, Surv(time, status) ~ age, lung),
    ring_kmeans = ring_kmeans(comm, cars, 2), ring_prcomp = ring_prcomp(comm, cars),
    ring_mlp = ring_mlp(comm, dist ~ speed, cars, hidden = 1, max_iter = 1),
    ring_bootstrap = ring_bootstrap(comm, cars$dist, mean_of, R = 9, groups = 3),
    ring_summary = ring_summary(comm, cars), ring_comm = comm, ring_request = request,
    ring_explanation = ring_comm_explain(comm, "allreduce", 1), ring_network = list()
  )
  whole <- list(newdata = cars, newx = mtcars[2:4], dataset = cars, tbl = cars,
                path = tempfile("model"), scope = ~.)
  for (name in names(objects)) {
    methods <- of_namespace$S3methods
    methods <- methods[sub("^summary[.]", "", methods[, 2]) == name, , drop = FALSE]
    # plot() passes its arguments on. Others of ring_coxph need rows, whatever their arguments are.
    rows <- name == "ring_coxph" &
      methods[, 1] %in% c("residuals", "fitted", "weights", "model.frame", "model.matrix")
    for (i in which(methods[, 1] != "plot" & !rows)) {
      class <- methods[i, 2]
      generic <- sub(".*::", "", methods[i, 1])
      method <- getFromNamespace(paste0(generic, ".", class), "sparkring")
      object <- if (class == name) objects[[name]] else summary(objects[[name]])
      rest <- whole[intersect(names(whole), names(formals(method)))]
      expect_error(do.call(method, c(list(object), rest, list(nonsense = 1))),
                   "there is no argument `nonsense`", info = paste(generic, class))
    }
  }
  ring_wait(request)
  expect_output(print(list(objects$ring_lm), digits = 3, quote = FALSE), "speed")
  expect_output(print(summary(objects$ring_glm), signif.stars = FALSE, P.values = TRUE), "speed")
  expect_error(anova(objects$ring_lm, objects$ring_lm, lm(dist ~ speed, cars)),
               "the models must all be of class ring_lm, and one is a lm")
})

test_that("each function names the argument that it lacks or cannot use", {
  table <- structure(list(), class = c("tbl_spark", "tbl")) # of no Spark
  for (name in setdiff(of_namespace$exports, c("ring_init", "ring_chunks"))) { # which take any
    for (given in list(list(), list(1), list(data.frame()), list(table))) {
      error <- expect_error(do.call(name, given), info = name)
      named <- paste0("`(", paste(names(formals(name)), collapse = "|"),
                      ")`|package sparklyr is not installed")
      expect_match(conditionMessage(error), named, info = name)
      expect_s3_class(error, "ring_error")
      remedy <- sub(".*is missing: pass ", "", conditionMessage(error))
      start <- paste0("^(it, as in ", name, "\\(|a communicator|the number of ranks)")
      if (remedy != conditionMessage(error)) expect_match(remedy, start, info = name)
    }
  }
  expect_error(ring_allreduce(table, 1), "not a Spark table: call the function in a function of ")
  comm <- local_world()
  expect_error(ring_kmeans(comm, cars),
               "`centers` is missing: pass it, as in ring_kmeans\\(comm, x, centers\\)")
  expect_error(ring_summary(comm, data.frame()), NA)
  expect_error(ring_lm(comm, "none", cars), "`formula` must be a formula, .* not \"none\"")
  expect_error(ring_table(comm, list(mean)), "a variable must be a vector or a factor, not a f")
  expect_error(ring_lm(), "`comm` is missing: pass a communicator, as ring_init\\(\\) returns it")
})

test_that("a value that an argument cannot have is an error on all ranks that names it", {
  skip_if_not_installed("survival")
  none <- as.name("none")
  cases <- list(
    quote(ring_lm(comm, formula = mpg ~ wt, data = mtcars)),
    list(formula = 1, data = "a", data = 2, na.action = 3, na.action = "none", tol = "a",
         tol = NULL, tol = NA, tol = -1, tol = c(0, 0), tol = Inf, ridge = NaN, dta = 1),
    quote(ring_glm(comm, formula = am ~ wt, family = binomial, data = mtcars)),
    list(formula = NULL, family = "none", family = mean, family = 1, data = factor(1),
         na.action = NA, control = 1, control = list(none = 1), control = NULL, famly = 1),
    quote(ring_mlp(comm, formula = am ~ wt, data = mtcars)), list(hidden = "a", hiden = 2),
    quote(ring_glmnet(comm, mtcars[2:4], mtcars$mpg, nlambda = 3)),
    list(family = "none", family = 1, alpha = 2, nfolds = "a", foldid = 1, foldid = "a",
         thresh = 0, maxit = Inf),
    quote(ring_coxph(comm, formula = Surv(time, status) ~ age, data = survival::lung)),
    list(formula = 1, data = "a", ties = "exact", ties = factor("efron"), na.action = 0,
         nonsense = 1),
    quote(ring_optim(comm, par = 1, function(par) sum((cars$dist - par)^2), method = "BFGS")),
    list(par = double(), par = NA_real_, method = 1, lower = "a", lower = c(1, 2), upper = NULL,
         upper = NaN, control = 1, control = list(1), hessian = "a", hessian = NA),
    quote(ring_svd(comm, cars)), list(k = -1, method = "none", method = 2),
    quote(ring_prcomp(comm, cars)), list(rank. = 0, method = NA),
    quote(ring_cor(comm, cars)), list(use = "pairwise", method = "kendall"),
    quote(ring_quantile(comm, cars$dist)), list(probs = 2, names = NULL, names = 1, type = 10),
    quote(ring_kmeans(comm, x = cars, centers = 2)), list(x = none, centers = none),
    quote(ring_glmnet(comm, x = cars, y = cars$dist)), list(x = none, y = none),
    quote(ring_optim(comm, par = 1, fn = abs)), list(par = none, fn = none),
    quote(ring_bootstrap(comm, data = cars, statistic = nrow)), list(data = none, statistic = none),
    quote(ring_svd(comm, x = cars)), list(x = none),
    quote(ring_prcomp(comm, x = cars)), list(x = none),
    quote(ring_cor(comm, x = cars)), list(x = none),
    quote(ring_scale(comm, x = cars)), list(x = none),
    quote(ring_quantile(comm, x = 1)), list(x = none),
    quote(ring_summary(comm, x = 1)), list(x = none),
    quote(ring_allreduce(comm, 1)), list(prescale = factor(2), postscale = c(1, 2))
  )
  results <- run_ring(2, {
    texts <- character()
    for (i in seq(1, length(cases), by = 2)) {
      for (j in seq_along(cases[[i + 1]])) {
        call <- cases[[i]]
        bad <- rank == 1 || call[[1]] == "ring_allreduce" # whose arguments each rank checks alone
        name <- names(cases[[i + 1]])[[j]]
        value <- cases[[i + 1]][j]
        if (identical(value[[1]], as.name("none"))) value <- NULL # leaves the argument out
        if (bad) call[name] <- value
        text <- tryCatch(class(eval(call)), ring_error = conditionMessage)[[1]]
        texts <- c(texts, paste(as.character(call[[1]]), names(cases[[i + 1]])[[j]], text))
      }
    }
    texts
  }, cases = cases)
  for (text in unlist(results)) {
    words <- strsplit(text, " ", fixed = TRUE)[[1]]
    expect_match(text, paste0("`", words[[2]], "`"), fixed = TRUE, info = text)
  }
})

test_that("a choice that an argument of a method does not have is an error that names it", {
  comm <- local_world()
  line <- ring_lm(comm, dist ~ speed, cars)
  model <- ring_glm(comm, am ~ wt, binomial, mtcars)
  reducer <- ring_reducer(comm)
  calls <- list(
    quote(predict(model, mtcars, type = "none")), quote(residuals(model, type = 1)),
    quote(weights(model, type = NA)), quote(confint(model, method = "none")),
    quote(confint(model, method = 2)), quote(drop1(line, test = "Rao")),
    quote(drop1(model, test = character())), quote(drop1(model, test = "Rao")),
    quote(anova(model, test = "none")),
    quote(ring_submit(reducer, "a", 1, kind = "none")),
    quote(ring_submit(reducer, "a", 1, splits = "none"))
  )
  for (call in calls) {
    name <- names(call)[[length(call)]]
    expect_error(eval(call), paste0("`", name, "` must be "), class = "ring_error_invalid",
                 info = deparse(call))
  }
  ring_reducer_close(reducer)
})

test_that("arguments that a job cannot have are errors before it starts", {
  run <- function(...) ring_run(NULL, function(comm) 1, ..., num_proc = -1)
  wrong <- list(timeout = NULL, timeout = "a", packages = NA, packages = 1, options = 1,
                options = NULL, options = list(none = 1), seed = "a", max_restarts = -1,
                progress = NA, timeline = 1, columns = 1)
  for (i in seq_along(wrong)) {
    expect_error(do.call(run, wrong[i]), paste0("`", names(wrong)[[i]], "`"),
                 class = "ring_error_invalid")
  }
  expect_error(ring_launch("true", 1, args = NA), "`args` must be strings, not NA")
})

test_that("a send that is refused leaves no receive", {
  comm <- local_world()
  messages <- ring_messages(comm)
  expect_error(ring_message_sendrecv(messages, "text", 0, source = 0), "`x`",
               class = "ring_error_invalid")
  expect_error(ring_message_sendrecv(messages, 1, 0, source = 7), "`source` is 7: it must be ",
               class = "ring_error_invalid")
  expect_identical(ring_message_sendrecv(messages, 5, peer = 0, source = 0), 5)
  ring_messages_close(messages)
})

test_that("an error of an argument on one rank ends the next call of the other ranks", {
  results <- run_ranks(2, {
    comm <- open()
    own <- tryCatch(if (rank == 1) ring_allreduce(comm, 1, oop = "sum"), error = conditionMessage)
    other <- tryCatch(if (rank == 0) ring_allreduce(comm, 1) else ring_barrier(comm),
                      ring_error_mismatch = conditionMessage)
    c(own, other)
  })
  expect_match(results[[2]][[1]], "unused argument (oop = \"sum\")", fixed = TRUE)
  for (result in results) {
    expect_match(result[[length(result)]], "rank 1 called barrier() as", fixed = TRUE)
  }
})
