# SPDX-License-Identifier: Apache-2.0
#
# Models of R ranks by numerics/, on the first one, two and three ranks. Numbers have all bits.

library(sparkring)

comm <- ring_init(timeout = 60, call_timeout = 60)
all_rows <- as.matrix(read.csv(commandArgs(TRUE)))

for (size in 1:3) {
  group <- ring_comm_split(comm, as.integer(ring_rank(comm) < size))
  if (ring_rank(comm) < size) {
    say <- function(name, x) cat(size, name, sprintf("%a", x), "\n")
    x <- all_rows[seq_len(nrow(all_rows)) %% size == ring_rank(group), ]
    scaled <- ring_scale(group, x)
    say("mean", attr(scaled, "scaled:center"))
    say("squares", sparkring:::columns_known(group, x)$squares)
    data <- as.data.frame(x)
    fit <- ring_lm(group, e ~ a + b + c + d, data, weights = abs(a - 1e6) * (a < 1e6 + 1))
    say("lm", coef(fit))
    say("ridge", coef(ring_lm(group, e ~ a + b + c, data, ridge = 0.5)))
    say("plain", coef(ring_lm(group, e ~ 0 + a + b + c, data)))
    given <- ring_kmeans(group, x, rbind(all_rows[1:4, ], 1e6), tol = 0)
    say("given", t(given$centers))
    say("iterations", given$iter)
    set.seed(1)
    drawn <- ring_kmeans(group, x, 5)
    say("drawn", t(drawn$centers))
    say("labels", drawn$cluster)
    set.seed(1)
    say("seed", floor(runif(1) * 2^31))
  }
  ring_close(group)
}
ring_close(comm)
