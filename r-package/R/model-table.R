# SPDX-License-Identifier: Apache-2.0
#
# Models of a Spark table, from the driver: the model is fitted in a function of ring_apply(), and
# predictions are made by spark_apply(), which makes them when they are needed.

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
  arguments <- c(list(tbl, table_rank, name = name, args = parts$model), parts$spark)
  fit <- do.call("ring_apply", arguments, quote = TRUE)[[1L]]
  fit$call <- scope_call(call)
  fit$session <- session_open(call, env)
  fit
}

# The arguments for the model and for ring_apply(). Those that depend on the rows stay expressions.
# The formula is sent with the values that it needs, and nothing else.
table_arguments <- function(call, env, columns) {
  given <- as.list(call)[-1L]
  given$comm <- NULL
  spark <- names(given) %in% setdiff(names(formals(ring_apply)), c(".x", ".f", "..."))
  of_rows <- names(given) %in% c("weights", "subset", "offset")
  given[!of_rows] <- lapply(given[!of_rows], eval, env)
  exprs <- c(list(given$formula), given[of_rows])
  names <- unlist(lapply(exprs, all.vars))
  heads <- setdiff(unlist(lapply(exprs, all.names)), names)
  from <- environment(given$formula)
  environment(given$formula) <- scope_make(setdiff(names, columns), heads, from)
  list(model = given[!spark], spark = given[spark])
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
  columns <- c(stats::setNames(table_spark_types[types], names(types)),
               table_columns(object, arguments))
  sparklyr::spark_apply(
    tbl, table_predicted, context = list(model = object, arguments = arguments),
    columns = as.list(columns), packages = FALSE
  )
}

# The types of the columns that predictions append, by name: `.fitted`, `.se.fit`, `.lower` and
# `.upper` as the arguments of predict() ask for them. For classes `.fitted` is a string, or there
# is a probability of each class.
table_columns <- function(object, arguments) {
  if (inherits(object, "ring_mlp") && !is.null(object$levels)) {
    if (arguments$type == "class") return(c(.fitted = "character"))
    names <- paste0(".prob_", object$levels)
  } else {
    bounds <- !is.null(arguments$interval) && arguments$interval != "none"
    names <- c(".fitted", if (isTRUE(arguments$se.fit)) ".se.fit",
               if (bounds) c(".lower", ".upper"))
  }
  stats::setNames(rep("double", length(names)), names)
}

table_predicted <- function(df, context) {
  found <- do.call(stats::predict, c(list(context$model, df), context$arguments))
  if (is.factor(found)) {
    return(cbind(as.data.frame(df), .fitted = as.character(found), stringsAsFactors = FALSE))
  }
  if (is.matrix(found) && identical(context$arguments$type, "prob")) {
    colnames(found) <- paste0(".prob_", colnames(found))
    return(cbind(as.data.frame(df), found))
  }
  parts <- if (is.list(found)) found else list(fit = found)
  fit <- as.matrix(parts$fit)
  extra <- data.frame(.fitted = unname(fit[, 1L]))
  if (!is.null(parts$se.fit)) extra$.se.fit <- unname(parts$se.fit)
  if (ncol(fit) == 3L) extra[c(".lower", ".upper")] <- list(unname(fit[, 2L]), unname(fit[, 3L]))
  cbind(as.data.frame(df), extra)
}
