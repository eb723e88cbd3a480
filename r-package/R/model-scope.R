# SPDX-License-Identifier: Apache-2.0
#
# Makes a small copy of an environment, for functions and formulas that are sent to other processes.
# The environment and its parents, up to a package or the global environment, are copied with only
# the variables that the functions and formulas name. Functions among these variables are copied
# likewise. So every name has the same value as before, and nothing else is sent: neither rows, nor
# promises that refer to rows.

# Copies the variables `names` and the functions `heads`, as seen from `env`.
scope_make <- function(names, heads, env) {
  copies <- new.env(parent = emptyenv())
  copies$from <- copies$to <- list()
  scope <- scope_copy(copies, env)
  for (name in names) scope_add(copies, name, env, "any")
  for (head in heads) scope_add(copies, head, env, "function")
  scope
}

# Whether a scope, or the package or R itself (pi, say) at its end, has `name`. Variables of the
# global environment do not count.
scope_has <- function(name, env) {
  while (!scope_ends(env) && !identical(env, globalenv())) {
    if (exists(name, env, inherits = FALSE)) return(TRUE)
    env <- parent.env(env)
  }
  isNamespace(env) && exists(name, env, inherits = FALSE) ||
    exists(name, baseenv(), inherits = FALSE)
}

# Copies a function with all that it finds.
scope_function <- function(f) {
  copies <- new.env(parent = emptyenv())
  copies$from <- copies$to <- list()
  scope_value(copies, f)
}

scope_ends <- function(env) {
  isNamespace(env) || identical(env, baseenv()) || identical(env, emptyenv()) ||
    startsWith(environmentName(env), "package:")
}

scope_copy <- function(copies, env) {
  if (scope_ends(env)) return(env)
  for (i in seq_along(copies$from)) {
    if (identical(copies$from[[i]], env)) return(copies$to[[i]])
  }
  global <- identical(env, globalenv())
  copy <- new.env(parent = if (global) env else scope_copy(copies, parent.env(env)))
  copies$from <- c(copies$from, env)
  copies$to <- c(copies$to, copy)
  copy
}

# Skips a variable that cannot be evaluated, such as a missing argument: it cannot be needed.
scope_add <- function(copies, name, env, mode) {
  repeat {
    if (scope_ends(env)) return()
    if (exists(name, env, mode = mode, inherits = FALSE)) break
    env <- if (identical(env, globalenv())) emptyenv() else parent.env(env)
  }
  copy <- scope_copy(copies, env)
  if (exists(name, copy, inherits = FALSE)) return()
  found <- attempt(get(name, env, mode = mode, inherits = FALSE))
  if (is.null(found$error)) scope_assign(copies, name, found$value, copy)
}

scope_assign <- function(copies, name, value, copy) {
  assign(name, NULL, copy) # so that a function that names itself comes to an end
  assign(name, scope_value(copies, value), copy)
}

scope_value <- function(copies, value) {
  env <- if (is.function(value)) environment(value)
  if (is.null(env) || scope_ends(env)) return(value)
  attr(value, "srcref") <- NULL
  environment(value) <- scope_copy(copies, env)
  for (name in scope_free(value)) scope_add(copies, name, env, "any")
  value
}

# The names in a function that are neither its arguments nor assigned in it.
scope_free <- function(f) {
  assigned <- character()
  walk <- function(expr) {
    if (!is.call(expr)) return()
    head <- if (is.symbol(expr[[1L]])) as.character(expr[[1L]]) else ""
    if (head %in% c("<-", "=", "for") && is.symbol(expr[[2L]])) {
      assigned <<- c(assigned, as.character(expr[[2L]]))
    }
    for (part in as.list(expr)) if (!missing(part)) walk(part)
  }
  walk(body(f))
  named <- unlist(lapply(c(body(f), formals(f)), all.names))
  setdiff(unique(named), c(names(formals(f)), assigned))
}

# The variables of an expression, without the arguments of functions in it, such as x in
# sapply(a, function(x) x), and elements, such as x in a$x.
scope_vars <- function(expr) {
  if (is.symbol(expr)) return(setdiff(as.character(expr), ""))
  if (!is.call(expr)) return(character())
  if (identical(expr[[1L]], quote(`function`))) {
    return(setdiff(scope_vars(expr[[3L]]), names(expr[[2L]])))
  }
  if (identical(expr[[1L]], quote(`$`)) || identical(expr[[1L]], quote(`@`))) {
    return(scope_vars(expr[[2L]]))
  }
  parts <- as.list(expr)[-1L]
  if (is.call(expr[[1L]])) parts <- as.list(expr)
  unique(as.character(unlist(lapply(parts, function(part) if (!missing(part)) scope_vars(part)))))
}

# The call of a model, without the values that do.call() and the like put in place of names.
scope_call <- function(call) {
  for (name in setdiff(names(call), "")) {
    part <- call[[name]]
    if (is.call(part)) attributes(call[[name]]) <- NULL
    small <- is.language(part) || is.null(part) || is.atomic(part) && length(part) <= 10L
    if (!small) call[[name]] <- as.name(name)
  }
  call
}
