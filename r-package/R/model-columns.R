# SPDX-License-Identifier: Apache-2.0
#
# Functions of columns, such as ring_kmeans(), for a Spark table, from the driver: the ranks of
# ring_apply() call the function with their rows of the columns that are named.

columns_roles <- c("y", "weights", "offset", "foldid") # arguments that name columns, too
columns_of_numbers <- c("ring_kmeans", "ring_prcomp", "ring_svd", "ring_cor") # take no strings
columns_row_flags <- c(ring_svd = "u", ring_prcomp = "retx") # ask for values of each row

# Calls the function `name` for columns of a Spark table, in place of the communicator of `call`.
columns_fit <- function(name, call, env) {
  tbl <- eval(call$comm, env)
  driver_check_table(tbl, "x")
  given <- lapply(as.list(call)[-(1:2)], eval, env)
  spark <- table_is_spark(names(given))
  columns <- table_names(tbl)
  args <- columns_named_by(name, given[!spark], columns)
  columns_check_args(name, args, given[spark])
  roles <- args[names(args) %in% columns_roles & !vapply(args, is.null, NA)]
  x <- columns_chosen(columns, args$x, roles)
  args <- columns_without_rows(name, args[!names(args) %in% c("x", names(roles))])
  wanted <- unique(c(x, unlist(roles, use.names = FALSE)))
  arguments <- list(name = name, x = x, roles = roles, args = args,
                    rows = if (name %in% columns_of_numbers) "matrix" else "all")
  fit <- table_apply(table_select(tbl, wanted), columns_rank, c(arguments, given[spark]))
  if (is.list(fit) && !is.null(fit$call)) fit$call <- scope_call(call)
  fit
}

# Raises an error for arguments that are missing, or that the function does not have for a table.
columns_check_args <- function(name, args, spark) {
  call <- sys.call(-2)
  formals <- formals(name)
  fixed <- intersect(names(spark), c("rows", "columns", "collect"))
  odd <- c(setdiff(names(args), names(formals)), fixed)
  if (length(odd) > 0L) check_stop("there is no argument `", odd[[1L]], "`", call = call)
  needed <- names(formals)[vapply(formals, function(x) is.name(x) && !nzchar(x), NA)]
  absent <- setdiff(needed, c("comm", "x", "...", names(args)))
  example <- c(centers = "centers = 3", y = "y = \"mpg\"")[absent]
  if (length(absent) > 0L) {
    check_stop("`", absent[[1L]], "` is missing: pass it, as in ", example[[1L]], call = call)
  }
}

# The arguments with the columns that a formula `x` names: `~ a + b`, or `y ~ .`.
columns_named_by <- function(name, args, columns) {
  if (!inherits(args$x, "formula")) return(args)
  empty <- stats::setNames(rep(list(double()), length(columns)), columns)
  terms <- stats::terms(args$x, data = as.data.frame(empty, optional = TRUE))
  named <- vapply(as.list(attr(terms, "variables"))[-1L], is.name, NA)
  if (!all(named, attr(terms, "order") == 1L, attr(terms, "intercept") == 1L)) {
    check_stop("`x` must be a formula of columns, such as ~ a + b, not ",
               paste(deparse(args$x), collapse = " "), ": compute other columns by ",
               "dplyr::mutate() first, and pass `intercept = FALSE` to ring_glmnet() for no ",
               "intercept", call = sys.call(-2))
  }
  if (attr(terms, "response") == 1L) {
    if (!"y" %in% names(formals(name)) || !is.null(args$y)) {
      check_stop("`x` has a response, ", deparse(args$x[[2L]]),
                 if (!is.null(args$y)) ", and so has `y`", ": leave it out", call = sys.call(-2))
    }
    args$y <- as.character(args$x[[2L]])
  }
  args$x <- gsub("`", "", attr(terms, "term.labels"), fixed = TRUE)
  args
}

# The arguments, which do not ask for values of each row.
columns_without_rows <- function(name, args) {
  flag <- columns_row_flags[name]
  if (is.na(flag)) return(args)
  if (!is.null(args[[flag]]) && !isFALSE(args[[flag]])) {
    check_stop("`", flag, "` must be FALSE for a Spark table: it asks for values of each row, ",
               "which stay on the ranks", call = sys.call(-2))
  }
  args[[flag]] <- FALSE
  args
}

# The columns `x`: by default those that no role has.
columns_chosen <- function(columns, x, roles) {
  for (name in names(roles)) columns_check_names(name, roles[[name]], columns)
  if (is.null(x)) x <- setdiff(columns, unlist(roles))
  columns_check_names("x", x, columns)
  x
}

columns_check_names <- function(name, value, columns) {
  if (is.character(value) && length(value) > 0L && all(value %in% columns)) return()
  odd <- if (is.character(value)) setdiff(value, columns)
  check_stop("`", name, "` must be names of columns of the Spark table, not ",
             if (length(odd) > 0L) dQuote(odd[[1L]], FALSE) else describe(value), ": it has ",
             toString(utils::head(columns, 20L)), call = sys.call(-3))
}

# On a rank of ring_apply(), as table_rank(). `df` is a matrix or a data frame.
columns_rank <- function(df, comm, name, x, roles, args) {
  own <- list(x = if (identical(x, colnames(df))) df else df[, x, drop = FALSE])
  for (role in names(roles)) own[[role]] <- columns_role(df, roles[[role]])
  given <- lapply(names(own), function(part) call("$", quote(own), as.name(part)))
  names(given) <- names(own)
  fit <- eval(as.call(c(as.name(name), quote(comm), given, args)))
  if (ring_rank(comm) != 0) return()
  if (inherits(fit, "ring_kmeans")) fit$cluster <- NULL # of the rows of this rank
  fit
}

# One column is a vector.
columns_role <- function(df, names) {
  if (length(names) > 1L) return(df[, names, drop = FALSE])
  if (is.matrix(df)) df[, names] else df[[names]]
}
