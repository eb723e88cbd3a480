# SPDX-License-Identifier: Apache-2.0
#
# Models of a Spark table, from the driver: the model is fitted in a function of ring_apply(), and
# predictions are made by spark_apply(), which makes them when they are needed. A model has a
# formula (table_fit), or a function takes columns (table_columns_fit).

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

# ---- Functions of columns ------------------------------------------------------------------------

table_roles <- c("y", "weights", "offset", "foldid") # arguments that name columns, too
table_matrices <- c("ring_kmeans", "ring_prcomp", "ring_svd", "ring_cor") # take numbers only
table_row_flags <- c(ring_svd = "u", ring_prcomp = "retx") # ask for values of each row

# Calls the function `name` for columns of a Spark table, in place of the communicator of `call`.
table_columns_fit <- function(name, call, env) {
  tbl <- eval(call$comm, env)
  driver_check_table(tbl)
  given <- lapply(as.list(call)[-(1:2)], eval, env)
  spark <- table_is_spark(names(given))
  args <- given[!spark]
  odd <- setdiff(names(args), names(formals(name)))
  if (length(odd) > 0L) check_stop("there is no argument `", odd[[1L]], "`")
  columns <- names(sparklyr::sdf_schema(sparklyr::spark_dataframe(tbl)))
  if (inherits(args$x, "formula")) args <- table_of_formula(args, columns)
  roles <- args[names(args) %in% table_roles & !vapply(args, is.null, NA)]
  x <- table_names(columns, args$x, roles)
  args <- table_without_rows(name, args[!names(args) %in% c("x", names(roles))])
  tbl <- dplyr::select(tbl, dplyr::all_of(unique(c(x, unlist(roles, use.names = FALSE)))))
  rows <- if (name %in% table_matrices) "matrix" else "all"
  arguments <- list(name = name, x = x, roles = roles, args = args, rows = rows)
  fit <- table_apply(tbl, table_columns_rank, c(arguments, given[spark]))
  if (is.list(fit) && !is.null(fit$call)) fit$call <- scope_call(call)
  fit
}

# The arguments with the columns that the formula `x` names: `~ a + b`, or `y ~ .`.
table_of_formula <- function(args, columns) {
  empty <- stats::setNames(rep(list(double()), length(columns)), columns)
  terms <- stats::terms(args$x, data = as.data.frame(empty, optional = TRUE))
  named <- vapply(as.list(attr(terms, "variables"))[-1L], is.name, NA)
  if (!all(named) || any(attr(terms, "order") > 1L)) {
    check_stop("`x` must be a formula of columns, such as ~ a + b, not ",
               paste(deparse(args$x), collapse = " "), ": compute other columns by ",
               "dplyr::mutate() first", call = sys.call(-3))
  }
  if (attr(terms, "response") == 1L) args$y <- as.character(args$x[[2L]])
  args$x <- gsub("`", "", attr(terms, "term.labels"), fixed = TRUE)
  args
}

# The arguments, which do not ask for values of each row.
table_without_rows <- function(name, args) {
  flag <- table_row_flags[name]
  if (is.na(flag)) return(args)
  if (isTRUE(args[[flag]])) {
    check_stop("`", flag, "` must be FALSE for a Spark table: it asks for values of each row, ",
               "which stay on the ranks", call = sys.call(-3))
  }
  args[[flag]] <- FALSE
  args
}

# The columns `x`: by default those that no role has.
table_names <- function(columns, x, roles) {
  for (name in names(roles)) {
    if (!all(table_are_names(roles[[name]], columns))) table_refuse(name, roles[[name]], columns)
  }
  if (is.null(x)) x <- setdiff(columns, unlist(roles))
  if (length(x) == 0L || !all(table_are_names(x, columns))) table_refuse("x", x, columns)
  x
}

table_are_names <- function(x, columns) is.character(x) & x %in% columns

table_refuse <- function(name, value, columns) {
  odd <- if (is.character(value)) setdiff(value, columns)
  check_stop("`", name, "` must be names of columns of the Spark table, not ",
             if (length(odd) > 0L) dQuote(odd[[1L]], FALSE) else describe(value), ": it has ",
             toString(utils::head(columns, 20L)), call = sys.call(-3))
}

# On a rank of ring_apply(), as table_rank(). `df` is a matrix or a data frame.
table_columns_rank <- function(df, comm, name, x, roles, args) {
  own <- list(x = if (identical(x, colnames(df))) df else df[, x, drop = FALSE])
  for (role in names(roles)) own[[role]] <- table_columns_role(df, roles[[role]])
  given <- lapply(names(own), function(part) call("$", quote(own), as.name(part)))
  names(given) <- names(own)
  fit <- eval(as.call(c(as.name(name), quote(comm), given, args)))
  if (ring_rank(comm) != 0) return()
  if (inherits(fit, "ring_kmeans")) fit$cluster <- NULL # of the rows of this rank
  fit
}

# One column is a vector.
table_columns_role <- function(df, names) {
  if (length(names) > 1L) return(df[, names, drop = FALSE])
  if (is.matrix(df)) df[, names] else df[[names]]
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
  found <- do.call(stats::predict, c(list(context$model, df), context$arguments))
  if (is.factor(found)) found <- as.character(found)
  parts <- if (is.list(found)) found else list(fit = found)
  extra <- matrix(parts$fit, nrow(df), NCOL(parts$fit))
  extra <- as.data.frame(extra, stringsAsFactors = FALSE)
  if (!is.null(parts$se.fit)) extra <- cbind(extra[1L], unname(parts$se.fit), extra[-1L])
  names(extra) <- table_predicted_names(context$model, context$arguments)
  cbind(as.data.frame(df), extra)
}
