# SPDX-License-Identifier: Apache-2.0
#
# Models of a Spark table, from the driver: the model is fitted in a function of ring_apply(), and
# Spark's tasks make predictions when they are needed (spark-carry.R). These models have a formula;
# model-columns.R has functions of columns.

is_table <- function(x) inherits(x, "tbl_spark") || pyspark_is_table(x)

# The names of the columns of a Spark table.
table_names <- function(tbl) {
  frame <- pyspark_frame(tbl)
  if (!is.null(frame)) return(names(pyspark_types(frame)))
  names(sparklyr::sdf_schema(sparklyr::spark_dataframe(tbl)))
}

# A Spark table of some columns.
table_select <- function(tbl, columns) {
  exprs <- as.list(batches_name(columns))
  frame <- pyspark_frame(tbl)
  if (!is.null(frame)) return(frame$selectExpr(exprs))
  sparklyr::sdf_register(sparklyr::invoke(sparklyr::spark_dataframe(tbl), "selectExpr", exprs))
}

table_chunked <- c("ring_glm", "ring_lm") # take their rows in chunks: see model-chunks.R

# Fits the model `name` to the rows of a Spark table, in place of the communicator of `call`. With a
# `method` that has the arguments `with`, the value is that of the method on the ranks.
table_fit <- function(name, call, env, method = NULL, with = list()) {
  tbl <- eval(call$comm, env)
  driver_check_table(tbl, "x") # of the functions that begin with ml_; others have a table here
  formula <- eval(call$formula, env)
  table_check_formula(formula)
  if (is_string(formula)) call$formula <- stats::as.formula(formula, env)
  if (!is.null(call$data)) {
    check_stop("pass a Spark table in place of `comm`, or rows as `data`, and not both")
  }
  columns <- table_names(tbl)
  parts <- table_arguments(call, env, columns, lapply(with$scope, str2lang))
  odd <- setdiff(names(parts$model), names(formals(name)))
  if (length(odd) > 0L) check_stop("there is no argument `", odd[[1L]], "`")
  if (is.null(parts$spark$rows) && name %in% table_chunked) parts$spark$rows <- "batches"
  of_rank <- list(name = name, args = parts$model, method = method, with = with)
  fit <- table_apply(tbl, table_rank, c(of_rank, parts$spark))
  if (!is.null(method)) return(fit)
  fit$call <- scope_call(call)
  fit$session <- session_open(call, env)
  fit
}

# The value of drop1() or add1(), which need the rows: the ranks fit the model again, and call it.
table_method <- function(object, method, ...) {
  session <- session_of(object, method)
  table_fit(class(object)[[1L]], session$call, session$env, method, list(...))
}

table_check_formula <- function(formula) {
  if (is_formula(formula)) return()
  check_stop("`formula` must be a formula, such as mpg ~ wt, not ", describe(formula),
             call = sys.call(-3))
}

# The value of rank 0. The call has names in the place of values, so that errors do not show them.
table_apply <- function(tbl, f, args) {
  given <- lapply(names(args), function(name) call("[[", quote(args), name))
  names(given) <- names(args)
  eval(as.call(c(quote(ring_apply), quote(tbl), quote(f), given)))[[1L]]
}

# The arguments for the model and for ring_apply(). Those that depend on the rows stay expressions.
# The formula is sent with the values that it and the expressions `more` need, and nothing else.
table_arguments <- function(call, env, columns, more = list()) {
  given <- as.list(call)[-1L]
  given$comm <- NULL
  spark <- table_is_spark(names(given))
  of_rows <- names(given) %in% c("weights", "subset", "offset")
  given[!of_rows] <- lapply(given[!of_rows], eval, env)
  exprs <- c(list(given$formula), given[of_rows], more)
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

# On a rank of ring_apply(). Only rank 0 returns the model, or the value of the method.
table_rank <- function(df, comm, name, args, method = NULL, with = list()) {
  fit <- eval(as.call(c(as.name(name), quote(comm), args, data = quote(df))))
  if (!is.null(method)) fit <- do.call(method, c(list(fit), with))
  if (ring_rank(comm) == 0) fit
}

# ---- Predictions ---------------------------------------------------------------------------------

# A lazy Spark table: the columns of `tbl`, and those of table_columns().
table_predict <- function(object, tbl, ...) {
  table_added(object, tbl, list(arguments = list(...), prefix = ""))
}

# The same for augment(), which adds residuals of a response that is a number, too.
table_augment <- function(object, tbl, ...) {
  table_check_predicts(tbl)
  context <- list(arguments = list(...), prefix = if (inherits(object, "ring_prcomp")) ".fitted")
  response <- if (inherits(object, "ring_lm") && length(object$formula) == 3L) object$formula[[2L]]
  if (table_is_number(response, object, tbl)) context$response <- response
  table_added(object, tbl, context)
}

# `context` has what table_predicted() needs besides the model: the arguments of predict(), the
# prefix of names, and the expression of the response for residuals.
table_added <- function(object, tbl, context) {
  table_check_predicts(tbl)
  columns <- table_names(tbl)
  table_check_arguments(context$arguments)
  added <- table_columns(object, context)
  table_check_added(names(added), columns)
  needed <- table_needed(object, context, columns)
  object$session <- NULL
  context <- c(list(model = object, names = names(added)), context)
  carry_table(tbl, needed, added, table_predicted, context)
}

table_check_predicts <- function(tbl) {
  driver_check_table(tbl)
  driver_refuse_pyspark(tbl, "a lazy prediction",
                        "call predict() in a function of ring_apply(collect = FALSE)")
}

# Refuses a column that would be twice in the table. Spark does not distinguish upper case.
table_check_added <- function(added, columns) {
  place <- match(tolower(added), tolower(columns))
  if (all(is.na(place))) return()
  twice <- which(!is.na(place))[[1L]]
  there <- columns[[place[[twice]]]]
  check_stop("the Spark table has a column `", there, "` already",
             if (there != added[[twice]]) {
               paste0(", which Spark does not distinguish from `", added[[twice]], "`")
             },
             ": leave it out, by dplyr::select()", call = sys.call(-3))
}

# predict() of a Spark table makes a number for each row, and keeps all rows.
table_check_arguments <- function(arguments) {
  if (identical(arguments$type, "terms")) {
    check_stop("there is no `type = \"terms\"` for a Spark table, which gets one column of ",
               "predictions: call predict() in a function of ring_apply()", call = sys.call(-3))
  }
  arguments <- arguments[names(arguments) %in% c("na.action", "terms")]
  if (length(arguments) > 0L) {
    check_stop("there is no argument `", names(arguments)[[1L]], "` for a Spark table",
               call = sys.call(-3))
  }
}

# The columns of the table that predict() reads. Raises an error for a column that the table lacks.
table_needed <- function(object, context, columns) {
  given <- context$arguments
  names <- c(colnames(object$centers), rownames(object$rotation), object$names,
             if (is.character(given$offset)) given$offset)
  free <- character()
  if (!is.null(object$terms)) {
    terms <- stats::delete.response(object$terms)
    if (inherits(object, "ring_coxph")) terms <- rows_covariates(terms)
    formulas <- Filter(function(value) inherits(value, "formula"), given)
    evaluated <- or_default(attr(terms, "predvars"), attr(terms, "variables"))
    strata <- if (identical(given$reference, "strata")) {
      as.list(attr(object$terms, "variables"))[1L + attr(object$terms, "specials")$strata]
    }
    exprs <- c(as.list(evaluated)[-1L], strata, object$offset, context$response, formulas)
    free <- as.character(unlist(lapply(exprs, scope_vars)))
    outside <- setdiff(free, columns)
    names <- outside[!vapply(outside, scope_has, NA, environment(terms))]
  }
  absent <- setdiff(names, columns)
  if (length(absent) > 0L) {
    check_stop("the Spark table has no column `", absent[[1L]], "`, which the model needs: it has ",
               toString(utils::head(columns, 20L)), call = sys.call(-3))
  }
  if (is.null(object$terms) && length(names) == 0L) return(columns) # the model has numbers only
  intersect(columns, c(names, free))
}

# Whether the response can be computed from the columns of the table, and is a number.
table_is_number <- function(response, object, tbl) {
  if (is.null(response)) return(FALSE)
  schema <- sparklyr::sdf_schema(sparklyr::spark_dataframe(tbl))
  kinds <- vapply(schema, function(field) batches_kind(field$type), "")
  rows <- lapply(kinds[!is.na(kinds)], function(kind) batches_join(list(), kind))
  names(rows) <- names(schema)[!is.na(kinds)]
  is.numeric(attempt(eval(response, rows, environment(object$terms)))$value)
}

# The types of the columns that predictions append, by name.
table_columns <- function(object, context) {
  names <- paste0(context$prefix, table_predicted_names(object, context$arguments))
  if (!is.null(context$response)) names <- c(names, ".resid")
  type <- if (identical(names, ".cluster")) "int"
          else if (table_is_class(object, context$arguments)) "string"
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
  class <- arguments$type
  if (is.null(class) && inherits(object, "ring_mlp")) class <- "class"
  identical(class, "class") && !(inherits(object, "ring_mlp") && is.null(object$levels))
}

# In a task: the new columns of some rows.
table_predicted <- function(rows, context) {
  arguments <- context$arguments
  if (is.character(arguments$offset)) arguments$offset <- rows[[arguments$offset]]
  found <- do.call(stats::predict, c(list(context$model, rows), arguments))
  if (is.factor(found)) found <- as.character(found)
  parts <- if (is.list(found)) found else list(fit = found)
  found <- as.data.frame(matrix(parts$fit, NROW(parts$fit)), stringsAsFactors = FALSE)
  if (!is.null(parts$se.fit)) found <- cbind(found[1L], unname(parts$se.fit), found[-1L])
  if (!is.null(context$response)) {
    response <- eval(context$response, rows, environment(context$model$terms))
    found <- cbind(found, response - found[[1L]])
  }
  stats::setNames(as.list(found), context$names)
}
