# SPDX-License-Identifier: Apache-2.0
#
# Softmax regression on iris in base R, by as many processes as there are ranks:
#   sparkring-run -n 4 Rscript demo/iris.R
# Every rank holds its share of the flowers and the same weights; the gradients are summed over the
# ranks with ring_allreduce, so all make the same step.

library(sparkring)

softmax <- function(scores) {
  scores <- exp(scores - apply(scores, 1, max))
  scores / rowSums(scores)
}

# Sum of the gradients of the flowers in x; y has a 1 in the column of the right species.
gradient <- function(weights, x, y) crossprod(x, softmax(x %*% weights) - y)

loss <- function(weights, x, y) -sum(log(softmax(x %*% weights)[y == 1]))

best <- function(scores) max.col(scores, ties.method = "first")

right <- function(weights, x, y) sum(best(x %*% weights) == best(y))

comm <- ring_init()
rank <- ring_rank(comm)
size <- ring_size(comm)
started <- proc.time()[["elapsed"]]

x <- cbind(1, scale(as.matrix(iris[1:4])))
y <- diag(3)[as.integer(iris$Species), ]
flower <- seq_len(nrow(x))
held_out <- flower %% 5 == 0
mine <- flower %% size == rank # as if a Spark partition had brought them
train <- which(mine & !held_out)
test <- which(mine & held_out)
x_train <- x[train, , drop = FALSE]
y_train <- y[train, , drop = FALSE]

weights <- matrix(0, ncol(x), ncol(y))
count <- ring_allreduce(comm, length(train))
for (epoch in 1:300) {
  total <- ring_allreduce(comm, gradient(weights, x_train, y_train))
  weights <- weights - 0.5 * total / count
  if (epoch %% 50 == 0) {
    total <- ring_allreduce(comm, loss(weights, x_train, y_train))
    if (rank == 0) cat(sprintf("epoch %3d/300   loss %.4f\n", epoch, total / count))
  }
}

hits <- ring_allreduce(comm, right(weights, x[test, , drop = FALSE], y[test, , drop = FALSE]))
everyone <- matrix(ring_allgather(comm, as.vector(weights)), ncol = size)
agree <- all(everyone == everyone[, 1])
moved <- ring_allreduce(comm, unlist(ring_counters(comm)[c("bytes_shared", "bytes_sent")])) / 1e6
accuracy <- hits / sum(held_out)
seconds <- proc.time()[["elapsed"]] - started

if (rank == 0) {
  cat(sprintf("%d held-out flowers: %.1f%% named rightly\n", sum(held_out), 100 * accuracy))
  cat(sprintf("all %d ranks hold the same weights: %s\n", size, agree))
  cat(sprintf("%.2f MB shared and %.2f MB sent between the ranks; %.1f s\n",
              moved[1], moved[2], seconds))
}
ring_close(comm)
if (!agree || accuracy < 0.9) quit(status = 1)
