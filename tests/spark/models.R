# SPDX-License-Identifier: Apache-2.0
# An R rank that fits models: reads an R expression with its barrier and token from the first line
# of stdin and its rows as CSV from the others, writes JSON.

library(sparkring)

lines <- readLines(file("stdin"))
task <- eval(parse(text = lines[[1]]))
rows <- read.csv(text = lines[-1])
comm <- ring_init(task$barrier, token = task$token)
linear <- ring_glm(comm, sepal_length ~ petal_width + species, data = rows)
set.seed(1)
network <- ring_mlp(
  comm, species ~ sepal_length + sepal_width + petal_length + petal_width, data = rows, hidden = 8
)
right <- ring_allreduce(comm, c(sum(predict(network, rows) == rows$species), nrow(rows)))
numbers <- function(x) sprintf("[%s]", paste(format(x, digits = 17, trim = TRUE), collapse = ", "))
cat(sprintf(
  '{"coefficients": %s, "errors": %s, "accuracy": %s}\n', numbers(coef(linear)),
  numbers(sqrt(diag(vcov(linear)))), format(right[[1]] / right[[2]], digits = 17)
))
ring_close(comm)
