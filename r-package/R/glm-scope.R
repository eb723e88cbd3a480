# SPDX-License-Identifier: Apache-2.0
#
# A small copy of an environment, for functions and formulas that are to go elsewhere: each
# environment that they can see, up to a package or the global one, is copied with nothing in it but
# what they name, and functions among that likewise. So what is found is found as before, and
# nothing else travels: neither the rows, nor promises that hold on to them.

# The variables `names` and the functions `heads`, as seen from `env`.
scope_make <- function(names, heads, env) {
  copies <- new.env(parent = emptyenv())
  copies$from <- copies$to <- list()
  scope <- scope_copy(copies, env)
  for (name in names) scope_add(copies, name, env, "any")
  for (head in heads) scope_add(copies, head, env, "function")
  scope
}

# Whether a scope has `name`, or a package or R itself (pi, say) that it ends in; what happens to
# be in the global environment does not count.
scope_has <- function(name, env) {
  while (!scope_ends(env) && !identical(env, globalenv())) {
    if (exists(name, env, inherits = FALSE)) return(TRUE)
    env <- parent.env(env)
  }
  isNamespace(env) && exists(name, env, inherits = FALSE) ||
    exists(name, baseenv(), inherits = FALSE)
}

# A function that finds all that it did.
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

# What cannot be evaluated, such as an argument that was not given, cannot be needed.
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

# The names in a function that are not those of its arguments, nor assigned in it.
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

# The call of a model, without what do.call() and the like have put into it in place of names.
scope_call <- function(call) {
  for (name in setdiff(names(call), "")) {
    part <- call[[name]]
    if (is.call(part)) attributes(call[[name]]) <- NULL
    small <- is.language(part) || is.null(part) || is.atomic(part) && length(part) <= 10L
    if (!small) call[[name]] <- as.name(name)
  }
  call
}
