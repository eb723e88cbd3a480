# SPDX-License-Identifier: Apache-2.0
#
# Rank 0 runs stats::optim(). The other ranks wait for the parameters at which rank 0 needs a value.
# So there is one optimiser, and ranks whose processors or BLAS round differently stay in step.

optim_orders <- c(done = 0, value = 1, gradient = 2, failed = 3)

#' Distributed optim(): optimise a function whose parts are on many ranks
#'
#' [stats::optim()] for an objective that is a sum over all ranks, such as a log-likelihood of data
#' in many partitions: every rank passes a function that works on its own rows, and gets the optimum
#' of the sum.
#'
#' @inheritParams ring_allreduce
#' @param par Initial values, those of rank 0. On the other ranks only the length counts.
#' @param fn A function of the parameters that returns this rank's part of the objective: one
#'   number. Their sum is minimised, or maximised where `control$fnscale` is negative. A rank
#'   without data returns 0.
#' @param gr A function of the parameters that returns this rank's part of the gradient. `NULL`:
#'   finite differences, which take two values of `fn` for each parameter.
#' @param ... More arguments of `fn` and `gr`.
#' @param method,lower,upper,control,hessian As for [stats::optim()]; those of rank 0 count.
#'   `"SANN"`, whose `gr` is no gradient, is not among the methods.
#' @returns The list that [stats::optim()] returns, the same on every rank.
#' @section Errors:
#' An error of `fn` or `gr` on any rank is an error on all, which names the rank. So is an error of
#' [stats::optim()], a `par` of another length, and a `gr` that only some ranks have. The
#' communicator stays usable. Other errors as for [ring_allreduce()].
#' @seealso [ring_glm()] and [ring_mlp()], which need no objective of your own.
#' @examples
#' comm <- ring_init()
#' x <- rexp(100, rate = 2) # the rows of this rank
#' fit <- ring_optim(
#'   comm, c(rate = 1),
#'   fn = function(par) -sum(dexp(x, par, log = TRUE)),
#'   gr = function(par) sum(x) - length(x) / par,
#'   method = "L-BFGS-B", lower = 1e-6
#' )
#' fit$par
#' ring_close(comm)
#' @export
ring_optim <- function(comm, par, fn, gr = NULL, ...,
                       method = c("Nelder-Mead", "BFGS", "CG", "L-BFGS-B", "Brent"),
                       lower = -Inf, upper = Inf, control = list(), hessian = FALSE) {
  method <- agree(comm, {
    if (!is.numeric(par)) check_stop("`par` must be numbers, not ", describe(par))
    if (!is.function(fn)) check_stop("`fn` must be a function of `par`, not ", describe(fn))
    if (!is.null(gr) && !is.function(gr)) check_stop("`gr` must be a function, not ", describe(gr))
    match.arg(method)
  })
  optim_check_alike(comm, c(length(par), !is.null(gr)))
  parts <- list(
    value = optim_part(function(par) fn(par, ...), 1L, "fn"),
    gradient = if (!is.null(gr)) optim_part(function(par) gr(par, ...), length(par), "gr")
  )
  if (ring_rank(comm) != 0) return(optim_follow(comm, par, parts))
  optim_lead(comm, par, parts, function(par, value, gradient) {
    stats::optim(par, value, gradient,
                 method = method, lower = lower, upper = upper, control = control,
                 hessian = hessian)
  })
}

# Whether the ranks have as many parameters, and all of them a gradient or none.
optim_check_alike <- function(comm, own) {
  told <- matrix(ring_allgather(comm, as.double(own)), nrow = 2L)
  odd <- which(told[1L, ] != told[1L, 1L] | told[2L, ] != told[2L, 1L])
  if (length(odd) == 0L) return()
  what <- sprintf("%g parameters and %s `gr`", told[1L, ], ifelse(told[2L, ] > 0, "a", "no"))
  ring_stop("INVALID", paste0(
    "the ranks differ: rank ", odd[[1L]] - 1L, " passed ", what[[odd[[1L]]]], ", rank 0 ",
    what[[1L]]
  ), rank = odd[[1L]] - 1L, call = NULL)
}

# This rank's part of a value: its numbers, or an error.
optim_part <- function(f, length, name) {
  force(f)
  function(par) {
    attempt({
      part <- f(par)
      if (!is.numeric(part) || length(part) != length) {
        stop("`", name, "` must return ", length, if (length == 1L) " number" else " numbers",
             ", not ", describe(part), call. = FALSE)
      }
      as.double(part)
    })
  }
}

optim_total <- function(comm, part, par, length) {
  agree_total(comm, part(par), double(length))
}

# Runs the optimiser on rank 0. An error in a sum has reached all ranks already; any other error is
# sent to them.
optim_lead <- function(comm, par, parts, optimise) {
  ranks_failed <- FALSE
  ask <- function(order, length) {
    function(par) {
      ring_broadcast(comm, c(optim_orders[[order]], unname(par)))
      ranks_failed <<- TRUE
      total <- optim_total(comm, parts[[order]], par, length)
      ranks_failed <<- FALSE
      total
    }
  }
  gradient <- if (!is.null(parts$gradient)) ask("gradient", length(par))
  attempted <- attempt(optimise(par, ask("value", 1L), gradient))
  if (is.null(attempted$error)) {
    ring_broadcast(comm, c(optim_orders[["done"]], unname(par)))
    return(optim_share(comm, attempted$value, length(par)))
  }
  if (!ranks_failed) {
    ring_broadcast(comm, c(optim_orders[["failed"]], unname(par)))
    broadcast_strings(comm, conditionMessage(attempted$error))
  }
  stop(attempted$error)
}

optim_follow <- function(comm, par, parts) {
  repeat {
    told <- ring_broadcast(comm, double(1L + length(par)))
    order <- names(optim_orders)[[told[[1L]] + 1L]]
    if (order == "done") return(optim_share(comm, list(par = par), length(par)))
    if (order == "failed") {
      message <- paste0("rank 0 could not optimise: ", broadcast_strings(comm, character()))
      ring_stop("INVALID", message, rank = 0L, call = NULL)
    }
    at <- stats::setNames(told[-1L], names(par))
    optim_total(comm, parts[[order]], at, if (order == "value") 1L else length(par))
  }
}

# What rank 0 has found, to all.
optim_share <- function(comm, found, length) {
  has_hessian <- ring_broadcast(comm, !is.null(found$hessian))
  numbers <- c(found$par, found$value, found$counts, found$convergence, found$hessian)
  total <- length + 4L + if (has_hessian) length^2 else 0L
  if (ring_rank(comm) != 0) numbers <- double(total)
  numbers <- ring_broadcast(comm, as.double(numbers))
  message <- broadcast_strings(comm, as.character(found$message))
  rest <- numbers[-seq_len(length)]
  result <- list(
    par = stats::setNames(numbers[seq_len(length)], names(found$par)), value = rest[[1L]],
    counts = stats::setNames(as.integer(rest[2:3]), c("function", "gradient")),
    convergence = as.integer(rest[[4L]]), message = if (length(message) > 0L) message
  )
  result["message"] <- list(result$message)
  if (has_hessian) {
    labels <- if (!is.null(names(found$par))) list(names(found$par), names(found$par))
    result$hessian <- matrix(rest[-(1:4)], length, dimnames = labels)
  }
  result
}
