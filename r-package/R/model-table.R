# SPDX-License-Identifier: Apache-2.0
#
# Models of a Spark table, from the driver: the model is fitted in a function of ring_apply(), and
# predictions are made by spark_apply(), which makes them when they are needed. These models have a
# formula; model-columns.R has functions of columns.

is_table <- function(x) inherits(x, "tbl_spark")

table_chunked <- c("ring_glm", "ring_lm") # take their rows in chunks: see model-chunks.R

# Fits the model `name` to the rows of a Spark table, in place of the communicator of `call`.
table_fit <- function(name, call, env) {
  tbl <- eval(call$comm, env)
  driver_check_table(tbl)
  if (!is.null(call$data)) {
    check_stop("pass a Spark table in place of `comm`, or rows as `data`, and not both")
  }
  columns <- names(sparklyr::sdf_schema(sparklyr::spark_dataframe(tbl)))
  parts <- table_arguments(call, env, columns)
  odd <- setdiff(names(parts$model), names(formals(name)))
  if (length(odd) > 0L) check_stop("there is no argument `", odd[[1L]], "`")
  if (is.null(parts$spark$rows) && name %in% table_chunked) parts$spark$rows <- "batches"
  fit <- table_apply(tbl, table_rank, c(list(name = name, args = parts$model), parts$spark))
  fit$call <- scope_call(call)
  fit$session <- session_open(call, env)
  fit
}

# The value of rank 0. The call has names in the place of values, so that errors do not show them.
table_apply <- function(tbl, f, args) {
  given <- lapply(names(args), function(name) call("[[", quote(args), name))
  names(given) <- names(args)
  eval(as.call(c(quote(ring_apply), quote(tbl), quote(f), given)))[[1L]]
}

# The arguments for the model and for ring_apply(). Those that depend on the rows stay expressions.
# The formula is sent with the values that it needs, and nothing else.
table_arguments <- function(call, env, columns) {
  given <- as.list(call)[-1L]
  given$comm <- NULL
  spark <- table_is_spark(names(given))
  of_rows <- names(given) %in% c("weights", "subset", "offset")
  given[!of_rows] <- lapply(given[!of_rows], eval, env)
  exprs <- c(list(given$formula), given[of_rows])
  names <- unlist(lapply(exprs, all.vars))
  heads <- setdiff(unlist(lapply(exprs, all.names)), names)
  from <- environment(given$formula)
  environment(given$formula) <- scope_make(setdiff(names, columns), heads, from)
  list(model = given[!spark], spark = given[spark])
}

# Whether these are arguments of ring_apply().
table_is_spark <- function(names) {
  names %in% setdiff(names(formals(ring_apply)), c(".x", ".f", "..."))
}

# On a rank of ring_apply(). Only rank 0 returns the model.
table_rank <- function(df, comm, name, args) {
  fit <- eval(as.call(c(as.name(name), quote(comm), args, data = quote(df))))
  if (ring_rank(comm) == 0) fit
}

# ---- Predictions ---------------------------------------------------------------------------------

table_spark_types <- c(
  DoubleType = "double", FloatType = "double", LongType = "double", IntegerType = "integer",
  ShortType = "integer", ByteType = "integer", StringType = "character", BooleanType = "logical",
  DateType = "date", TimestampType = "timestamp"
)

# A lazy Spark table: the columns of `tbl`, and those of table_columns().
table_predict <- function(object, tbl, ...) {
  driver_check_table(tbl)
  schema <- sparklyr::sdf_schema(sparklyr::spark_dataframe(tbl))
  types <- vapply(schema, function(field) sub("[(].*", "", field$type), "")
  types[startsWith(types, "DecimalType")] <- "DoubleType"
  odd <- names(types)[!types %in% names(table_spark_types)]
  if (length(odd) > 0L) {
    check_stop("column `", odd[[1L]], "` is of type ", types[[odd[[1L]]]], ", which predict() ",
               "cannot carry along: leave it out, by dplyr::select()")
  }
  arguments <- list(...)
  added <- table_columns(object, arguments)
  table_check_columns(object, names(types), names(added))
  columns <- c(stats::setNames(table_spark_types[types], names(types)), added)
  sparklyr::spark_apply(
    tbl, table_predicted, context = list(model = object, arguments = arguments),
    columns = as.list(columns), packages = FALSE
  )
}

# Raises an error for a column that the model needs and the table lacks, or that predictions would
# make again. Terms of a formula are checked where rows are.
table_check_columns <- function(object, columns, added) {
  needed <- c(colnames(object$centers), rownames(object$rotation), object$names)
  absent <- setdiff(needed, columns)
  if (length(absent) > 0L) {
    check_stop("the Spark table has no column `", absent[[1L]], "`", call = sys.call(-3))
  }
  twice <- intersect(added, columns)
  if (length(twice) > 0L) {
    check_stop("the Spark table has a column `", twice[[1L]], "` already: leave it out, by ",
               "dplyr::select()", call = sys.call(-3))
  }
}

# The types of the columns that predictions append, by name: those of the predictions for a row.
table_columns <- function(object, arguments) {
  names <- table_predicted_names(object, arguments)
  type <- if (identical(names, ".cluster")) "integer"
          else if (table_is_class(object, arguments)) "character"
          else "double"
  stats::setNames(rep(type, length(names)), names)
}

# `.fitted`, `.se.fit`, `.lower` and `.upper` as the arguments of predict() ask for them. For
# classes `.fitted` is a string, or there is a probability of each class.
table_predicted_names <- function(object, arguments) {
  if (inherits(object, "ring_kmeans")) return(".cluster")
  if (inherits(object, "ring_prcomp")) return(colnames(object$rotation))
  if (table_is_class(object, arguments)) return(".fitted")
  classes <- if (inherits(object, "ring_mlp")) object$levels
             else if (identical(object$family, "multinomial")) object$classnames
  if (!is.null(classes)) return(paste0(".prob_", classes))
  bounds <- !is.null(arguments$interval) && arguments$interval != "none"
  c(".fitted", if (isTRUE(arguments$se.fit)) ".se.fit", if (bounds) c(".lower", ".upper"))
}

# predict() has the type "class" by default for networks, also for those of a regression.
table_is_class <- function(object, arguments) {
  identical(arguments$type, "class") && !(inherits(object, "ring_mlp") && is.null(object$levels))
}

table_predicted <- function(df, context) {
  arguments <- context$arguments
  if (is.character(arguments$offset)) arguments$offset <- df[[arguments$offset]]
  found <- do.call(stats::predict, c(list(context$model, df), arguments))
  if (is.factor(found)) found <- as.character(found)
  parts <- if (is.list(found)) found else list(fit = found)
  extra <- matrix(parts$fit, nrow(df), NCOL(parts$fit))
  extra <- as.data.frame(extra, stringsAsFactors = FALSE)
  if (!is.null(parts$se.fit)) extra <- cbind(extra[1L], unname(parts$se.fit), extra[-1L])
  names(extra) <- table_predicted_names(context$model, context$arguments)
  cbind(as.data.frame(df), extra)
}
