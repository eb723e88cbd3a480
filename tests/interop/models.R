# SPDX-License-Identifier: Apache-2.0
#
# Models of R ranks, whose rows are a part of the CSV file of the first argument.

library(sparkring)

comm <- ring_init(timeout = 60, call_timeout = 60)
rows <- read.csv(commandArgs(TRUE))
rows <- rows[seq_len(nrow(rows)) %% ring_size(comm) == ring_rank(comm), ]
emit <- function(name, x) cat(name, format(as.vector(x), digits = 17), "\n")

fit <- ring_glm(comm, count ~ a + b, poisson, rows, weights = weight, offset = offset)
emit("coefficients", coef(fit))
emit("errors", sqrt(diag(vcov(fit))))
emit("numbers", c(fit$deviance, fit$null.deviance, fit$aic))
emit("quantiles", ring_quantile(comm, rows$a))
ring_close(comm)
