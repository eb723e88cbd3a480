# SPDX-License-Identifier: Apache-2.0
#
# The R side of models.py, in the place of sparklyr: the SQL of ring_apply() for a table, and a rank
# that fits a model to the rows that Spark has written to a file for it.
#
#   models.R hashes SIZE            the SQL for Spark's hashes of numbers
#   models.R sql SIZE COLUMNS HASHES    the SQL, a line each: the columns, the lines of ranks, and
#                                   the command that writes them to files
#   models.R work JOB FILE COLUMNS RANK ADDRESSES TOKEN
#                                   prints the numbers of the fit; ADDRESSES and COLUMNS with commas
#
# All columns are doubles. A JOB whose name begins with R. is of one process, without a ring.

ours <- asNamespace("sparkring")
arguments <- commandArgs(TRUE)
predictors <- paste0("x", 1:20)
formula_of <- function(response) reformulate(predictors, response)
survival_of <- function() formula_of(quote(survival::Surv(time, status)))

matrix_of <- function(rows) as.matrix(rows[predictors])

jobs_of_ranks <- list(
  kmeans = function(comm, rows) {
    set.seed(1 + ring_rank(comm))
    fit <- ring_kmeans(comm, rows("matrix"), 10, max_iter = 20, tol = 0)
    c(fit$iter, fit$tot.withinss)
  },
  pca = function(comm, rows) ring_prcomp(comm, rows("matrix"), rank. = 10)$sdev[1:10],
  lm = function(comm, rows) coef(ring_lm(comm, formula_of("y"), rows())),
  lm_batches = function(comm, rows) coef(ring_lm(comm, formula_of("y"), rows("batches"))),
  glm = function(comm, rows) coef(ring_glm(comm, formula_of("label"), binomial, rows())),
  glm_batches = function(comm, rows) {
    coef(ring_glm(comm, formula_of("label"), binomial, rows("batches")))
  },
  coxph = function(comm, rows) {
    coef(ring_coxph(comm, survival_of(), rows(), ties = "breslow", baseline = FALSE))
  },
  glmnet = function(comm, rows) {
    rows <- rows()
    fit <- ring_glmnet(comm, rows[predictors], rows$label, "binomial", lambda = lambdas)
    as.matrix(coef(fit))[, length(lambdas)]
  }
)
lambdas <- 0.1 * 0.8^(0:19)

jobs_alone <- list(
  lm = function(rows) coef(lm(formula_of("y"), rows())),
  glm = function(rows) coef(glm(formula_of("label"), binomial, rows())),
  biglm = function(rows) coef(biglm::bigglm(formula_of("label"), rows("batches"), binomial())),
  coxph = function(rows) coef(survival::coxph(survival_of(), rows(), ties = "breslow")),
  glmnet = function(rows) {
    rows <- rows()
    fit <- glmnet::glmnet(matrix_of(rows), rows$label, "binomial", lambda = lambdas)
    as.matrix(coef(fit))[, length(lambdas)]
  }
)

sql <- function(size, columns, hashes) {
  kinds <- setNames(rep("d", length(columns)), columns)
  keys <- ours$batches_keys(hashes, size)
  c(ours$batches_select_sql(kinds),
    ours$batches_lines_sql(ours$batches_place("packing", size), keys), ours$batches_command())
}

work <- function(job, file, columns, rank, addresses, token) {
  kinds <- strsplit(columns, ",")[[1]]
  kinds <- setNames(rep("d", length(kinds)), kinds)
  open <- .Call(ours$C_batch_file_open, file)
  rows <- function(kind = "all") {
    read <- switch(kind, all = ours$batches_all, batches = ours$batches_tables,
                   matrix = ours$batches_matrix)
    read(open, kinds)
  }
  if (startsWith(job, "R.")) return(jobs_alone[[sub("R.", "", job, fixed = TRUE)]](rows))
  barrier <- list(address = as.list(strsplit(addresses, ",")[[1]]), partition = as.integer(rank))
  comm <- ring_init(barrier, token = token)
  on.exit(ring_close(comm))
  jobs_of_ranks[[job]](comm, rows)
}

library(sparkring)
size <- suppressWarnings(as.integer(arguments[[2]])) # not of `work`
switch(arguments[[1]],
  hashes = writeLines(ours$batches_hashes_sql(size)),
  sql = writeLines(sql(size, strsplit(arguments[[3]], ",")[[1]], arguments[[4]])),
  work = cat(format(unname(do.call(work, as.list(arguments[-1]))), digits = 17), "\n")
)
