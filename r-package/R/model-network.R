# SPDX-License-Identifier: Apache-2.0
#
# Networks of PyTorch and Keras for Spark tables: the estimators of Python's sparkring.spark.ml, by
# reticulate, in the manner of sparklyr.

#' Networks of PyTorch and Keras on a Spark table
#'
#' `ml_ring_torch()` and `ml_ring_keras()` train a network on the rows of a Spark table, by the
#' estimators `TorchEstimator` and `KerasEstimator` of Python's `sparkring.spark.ml`. The ranks are
#' tasks of a barrier stage, and the rows stay in Spark. The network, its loss and its optimizer are
#' functions of a Python module, which gets to the ranks by `py_files`.
#'
#' `sparklyr::ml_predict(model, tbl)` returns a lazy Spark table with the columns of `tbl` and the
#' predictions, by default `prediction`. `sparklyr::ml_save(model, path)` writes the model in the
#' format of Spark ML, which Python reads, too. `ml_ring_load()` reads it. `model$history` is a data
#' frame with a row for each epoch. `generics::glance()` returns the row of the best epoch; of a
#' loaded model, the epoch with the least loss.
#'
#' @param x A Spark table. Its columns are numbers, or arrays or vectors of numbers.
#' @param formula The column to predict, and the inputs of the network in their order, as in
#'   `weight ~ diet + day` or `weight ~ .`. There are no other terms: compute columns in Spark
#'   first, by `dplyr::mutate()` or the feature transformers of sparklyr.
#' @param model,loss,optimizer Strings `"module:name"`: the functions that make the network, its
#'   loss and its optimizer. `model` and `loss` get `model_params`. `optimizer` gets it, and for
#'   PyTorch also the parameters of the network.
#' @param ... Further Params of the estimator, by name in snake case: `epochs`, `batch_size`,
#'   `num_proc`, `model_params` (a list; whole numbers become ints), `validation`, `patience`,
#'   `seed`, `data`, `verbose`. Python's `TorchEstimator().explainParams()` describes all.
#' @param py_files Paths of Python files that the ranks and the workers of Spark import.
#' @param sc A connection of sparklyr, as for [ring_pyspark()].
#' @param path A path that Spark writes or reads.
#' @param framework `"torch"` or `"keras"`.
#' @returns A model of class `ring_network`.
#' @section Errors:
#' As for [ring_pyspark()]. `ring_error_invalid` for a formula that has other terms than columns,
#' and for Params. An error of sparkring on a rank has its class, as for [ring_allreduce()]. An
#' error of the network's own code is an error of reticulate, with the rank and its traceback.
#' @seealso [ml_ring_mlp()], which needs no Python.
#' @examples
#' \dontrun{
#' # Needs Spark, and a Python with sparkring and torch. The file nets.py has
#' #   import torch
#' #   def make(params): return Net(params["hidden"])
#' #   def loss(params): return torch.nn.MSELoss()
#' #   def adam(params, parameters): return torch.optim.Adam(parameters, lr=params["rate"])
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' cars <- sparklyr::sdf_copy_to(sc, mtcars, "cars", overwrite = TRUE)
#' network <- ml_ring_torch(
#'   cars, mpg ~ wt + hp,
#'   model = "nets:make", loss = "nets:loss", optimizer = "nets:adam", py_files = "nets.py",
#'   model_params = list(hidden = 8, rate = 0.01), epochs = 20, num_proc = 2
#' )
#' network$history
#' sparklyr::ml_predict(network, cars)
#' sparklyr::ml_save(network, "network")
#' network <- ml_ring_load(sc, "network", "torch")
#' }
#' @export
ml_ring_torch <- function(x, formula, model, loss, optimizer, ..., py_files = character()) {
  check_given(x, formula, model, loss, optimizer)
  network_fit("torch", x, formula, list(model = model, loss = loss, optimizer = optimizer, ...),
              py_files)
}

#' @rdname ml_ring_torch
#' @export
ml_ring_keras <- function(x, formula, model, loss, optimizer, ..., py_files = character()) {
  check_given(x, formula, model, loss, optimizer)
  network_fit("keras", x, formula, list(model = model, loss = loss, optimizer = optimizer, ...),
              py_files)
}

#' @rdname ml_ring_torch
#' @export
ml_ring_load <- function(sc, path, framework = c("torch", "keras"), py_files = character()) {
  check_given(sc, path)
  framework <- check_choice(framework)
  if (!is_string(path)) check_stop("`path` must be one string, not ", describe(path))
  if (file.exists(path) && !dir.exists(path)) {
    check_stop("`path` is the file ", path, ", and a saved network is a directory: readRDS(path) ",
               "reads the other models, which ml_save() writes to a file of this machine")
  }
  network_session(sc, py_files)
  network_new(framework, pyspark_call(network_class(framework, "Model")$load(path)))
}

network_refuse_pyspark <- function(tbl) {
  driver_refuse_pyspark(tbl, "an estimator of a network",
                        "pass a DataFrame to Python's module sparkring.spark.ml")
}

network_fit <- function(framework, tbl, formula, params, py_files) {
  driver_check_table(tbl)
  network_refuse_pyspark(tbl)
  columns <- table_names(tbl)
  params <- c(network_columns(formula, columns, params), network_params(params))
  spark <- network_session(sparklyr::spark_connection(tbl), py_files)
  estimator <- pyspark_call(do.call(network_class(framework, "Estimator"), params))
  python <- pyspark_call(pyspark_module()$fit(estimator, network_frame(spark, tbl)))
  network_new(framework, python, params$monitor, identical(params$monitorMode, "max"))
}

# A model. `monitor` is the number of the history whose best value is at the best epoch.
network_new <- function(framework, python, monitor = NULL, more_is_better = FALSE) {
  history <- network_history(python)
  if (is.null(monitor)) monitor <- intersect(c("val_loss", "loss"), names(history))[[1L]]
  best <- if (more_is_better) which.max(history[[monitor]]) else which.min(history[[monitor]])
  structure(
    list(framework = framework, python = python, history = history,
         best = history[best, , drop = FALSE]),
    class = "ring_network"
  )
}

network_class <- function(framework, kind) {
  name <- c(torch = "Torch", keras = "Keras")[[framework]]
  reticulate::import("sparkring.spark.ml")[[paste0(name, kind)]]
}

# The session of PySpark. Its workers, and this process, import `py_files`.
network_session <- function(sc, py_files) {
  if (!is.character(py_files) || anyNA(py_files)) {
    check_stop("`py_files` must be paths of files, not ", describe(py_files), call = NULL)
  }
  spark <- ring_pyspark(sc)
  for (path in py_files) {
    if (!file.exists(path)) check_stop("`py_files`: there is no file ", path, call = NULL)
    spark$sparkContext$addPyFile(normalizePath(path))
  }
  spark
}

# ---- Params -------------------------------------------------------------------------------------

# The Params inputCols and labelCol. A dot is all columns that have no other use.
network_columns <- function(formula, columns, params) {
  terms <- tryCatch(stats::terms(formula, data = network_columns_of(columns, formula, params)),
                    error = function(error) NULL)
  inputs <- attr(terms, "term.labels")
  label <- if (length(formula) == 3L) formula[[2L]]
  names <- gsub("^`|`$", "", inputs)
  odd <- setdiff(c(names, if (is.name(label)) as.character(label)), columns)
  if (is.null(terms) || !is.name(label) || length(inputs) == 0L || length(odd) > 0L) {
    check_stop(
      "`formula` must be of the form label ~ column + column, with columns of the table",
      if (length(odd) > 0L) paste0(", and `", odd[[1L]], "` is none"),
      ": compute further columns in Spark first", call = NULL
    )
  }
  list(inputCols = as.list(names), labelCol = as.character(label))
}

# A data frame without rows, for terms(): the dot.
network_columns_of <- function(columns, formula, params) {
  used <- c(params$weight_col, if (is_string(params$validation)) params$validation)
  columns <- setdiff(columns, used)
  stats::setNames(rep(list(numeric()), length(columns)), columns)
}

network_params <- function(params) {
  if (is.null(names(params)) || !all(nzchar(names(params)))) {
    check_stop("further arguments must be Params of the estimator, by name", call = NULL)
  }
  names(params) <- gsub("_([a-z])", "\\U\\1", names(params), perl = TRUE)
  Map(network_param, params, names(params))
}

# A dict for a named list, a list for a Param of several values. Whole numbers become ints, as in
# JSON.
network_param <- function(value, name) {
  lists <- c("outputCols", "outputTypes", "classWeights")
  if (is.list(value)) return(lapply(value, network_param, name = ""))
  if (is.double(value) && all(is_whole_double(value))) value <- as.integer(value)
  if (name %in% lists || !is.null(names(value))) as.list(value) else value
}

is_whole_double <- function(x) is.finite(x) & x == trunc(x) & abs(x) <= .Machine$integer.max

# ---- Tables -------------------------------------------------------------------------------------

# The DataFrame of PySpark, by a view that is there for the moment.
network_frame <- function(spark, tbl) {
  view <- paste0("sparkring_", random_hex(8))
  sparklyr::invoke(sparklyr::spark_dataframe(tbl), "createOrReplaceTempView", view)
  on.exit(spark$catalog$dropTempView(view))
  spark$table(view)
}

network_table <- function(sc, frame) {
  view <- paste0("sparkring_", random_hex(8))
  frame$createOrReplaceTempView(view)
  session <- sparklyr::spark_session(sc)
  on.exit(sparklyr::invoke(sparklyr::invoke(session, "catalog"), "dropTempView", view))
  sparklyr::sdf_register(sparklyr::invoke(session, "table", view))
}

network_history <- function(python) {
  rows <- lapply(python$history$collect(), function(row) {
    row <- row$asDict()
    row[vapply(row, is.null, NA)] <- NA_real_
    as.data.frame(row)
  })
  do.call(rbind, rows)
}

# ---- Methods ------------------------------------------------------------------------------------

#' @export
print.ring_network <- function(x, ...) {
  check_print_dots(...)
  cat("A network of ", c(torch = "PyTorch", keras = "Keras")[[x$framework]], ", after ",
      nrow(x$history), " epochs; the best:\n", sep = "")
  print(x$best, row.names = FALSE)
  invisible(x)
}

# nolint start: object_name_linter. The names of methods of other packages.

#' @exportS3Method sparklyr::ml_predict
ml_predict.ring_network <- function(x, dataset, ...) {
  check_method_dots(...)
  driver_check_table(dataset)
  network_refuse_pyspark(dataset)
  sc <- sparklyr::spark_connection(dataset)
  found <- pyspark_call(x$python$transform(network_frame(ring_pyspark(sc), dataset)))
  network_table(sc, found)
}

#' @export
predict.ring_network <- function(object, tbl, ...) ml_predict.ring_network(object, tbl, ...)

#' @exportS3Method sparklyr::ml_save
ml_save.ring_network <- function(x, path, overwrite = FALSE, ...) {
  check_method_dots(...)
  writer <- x$python$write()
  if (check_flag(overwrite, "overwrite")) writer <- writer$overwrite()
  pyspark_call(writer$save(path))
  invisible(path)
}

#' @exportS3Method generics::glance
glance.ring_network <- function(x, ...) {
  check_method_dots(...)
  tidy_frame(x$best)
}
# nolint end
