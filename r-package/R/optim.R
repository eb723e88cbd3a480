# SPDX-License-Identifier: Apache-2.0
#
# Rank 0 runs stats::optim(). The other ranks receive the parameters for which rank 0 needs a value.
# One optimizer decides, so that ranks whose processors or BLAS round differently make the same
# calls.

optim_orders <- c(done = 0, value = 1, gradient = 2, failed = 3)

#' Distributed optim(): optimize a function whose parts are on many ranks
#'
#' `ring_optim()` runs [stats::optim()] on an objective that is a sum over all ranks, such as a
#' log-likelihood of rows that are spread over the ranks. Every rank passes a function of its own
#' rows. Every rank gets the optimum of the sum.
#'
#' @inheritParams ring_allreduce
#' @param par The initial values, a numeric vector. Rank 0's values are used; the vectors of the
#'   other ranks must have the same length.
#' @param fn A function of the parameters that returns one number: this rank's part of the
#'   objective. A rank without rows returns 0. The sum over the ranks is minimized, or maximized if
#'   `control$fnscale` is negative.
#' @param gr A function of the parameters that returns this rank's part of the gradient, a numeric
#'   vector of the length of `par`. `NULL`, on all ranks: finite differences, which call `fn` twice
#'   for each parameter.
#' @param ... Further arguments of `fn` and `gr`.
#' @param method,lower,upper,control,hessian As for [stats::optim()]. Rank 0's values are used. The
#'   method `"SANN"` is not available.
#' @returns A list as from [stats::optim()], with `par`, `value`, `counts`, `convergence`, `message`
#'   and, if requested, `hessian`. It is the same on every rank.
#' @section Errors:
#' An error of `fn` or `gr` on any rank is an error on all ranks, with the number of the rank. So is
#' an error of [stats::optim()] on rank 0. `ring_error_invalid` if the length of `par` differs
#' between ranks, or if only some ranks have a `gr`. The communicator stays usable. Other errors as
#' for [ring_allreduce()].
#' @seealso [ring_glm()] and [ring_mlp()], which have an objective already.
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
  check_given(comm)
  method <- agree(comm, {
    check_given(comm, par, fn)
    if (!is.numeric(par)) check_stop("`par` must be numbers, not ", describe(par))
    if (!is.function(fn)) check_stop("`fn` must be a function of `par`, not ", describe(fn))
    if (!is.null(gr) && !is.function(gr)) check_stop("`gr` must be a function, not ", describe(gr))
    optim_check(par, lower, upper, control)
    check_flag(hessian, "hessian")
    check_choice(method)
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

optim_check <- function(par, lower, upper, control) {
  if (length(par) == 0L || !all(is.finite(par))) {
    check_stop("`par` must be finite numbers, not ", describe(par))
  }
  optim_check_bound(lower, "lower", length(par))
  optim_check_bound(upper, "upper", length(par))
  if (is.list(control) && length(names(control)) == length(control)) return()
  check_stop("`control` must be a list with names, as for optim(), not ", describe(control))
}

optim_check_bound <- function(bound, name, count) {
  if (is.numeric(bound) && length(bound) %in% c(1L, count) && !anyNA(bound)) return()
  check_stop("`", name, "` must be one number, or one for each parameter, not ", describe(bound))
}

# Checks that all ranks have the same number of parameters, and that all or none have a gradient.
optim_check_alike <- function(comm, own) {
  ranks <- matrix(ring_allgather(comm, as.double(own)), nrow = 2L)
  odd <- which(ranks[1L, ] != ranks[1L, 1L] | ranks[2L, ] != ranks[2L, 1L])
  if (length(odd) == 0L) return()
  what <- sprintf("%g parameters and %s `gr`", ranks[1L, ], ifelse(ranks[2L, ] > 0, "a", "no"))
  ring_stop("INVALID", paste0(
    "the ranks differ: rank ", odd[[1L]] - 1L, " passed ", what[[odd[[1L]]]], ", rank 0 ",
    what[[1L]], ": pass the same on all ranks"
  ), rank = odd[[1L]] - 1L, call = NULL)
}

# Makes a function that computes this rank's part of a sum. It returns numbers or an error, as
# attempt() does.
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

# Runs the optimizer on rank 0. An error in a sum is known to all ranks already. Any other error is
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
    message <- ring_broadcast(comm, double(1L + length(par)))
    order <- names(optim_orders)[[message[[1L]] + 1L]]
    if (order == "done") return(optim_share(comm, list(par = par), length(par)))
    if (order == "failed") {
      text <- paste0("rank 0 could not optimize: ", broadcast_strings(comm, character()))
      ring_stop("INVALID", text, rank = 0L, call = NULL)
    }
    at <- stats::setNames(message[-1L], names(par))
    optim_total(comm, parts[[order]], at, if (order == "value") 1L else length(par))
  }
}

# Broadcasts the result of rank 0.
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
