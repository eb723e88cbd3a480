# SPDX-License-Identifier: Apache-2.0

#' Wait for a request, or test it
#'
#' A function such as [ring_allreduce_start()] starts a collective in the background, and returns a
#' request. `ring_wait()` blocks until the collective is complete, and returns its result. A second
#' `ring_wait()` returns the same result. `ring_test()` returns at once, and reports whether the
#' collective is complete.
#'
#' @details
#' A request refers to its communicator and its vectors, so R does not free them. A request that R
#' frees before it is complete still runs. Its vectors are freed later: when another request is
#' started on the same communicator, or when R frees the communicator. A request belongs to the
#' process that has started it.
#'
#' @param request A request, from [ring_allreduce_start()] or another function with `_start` in its
#'   name.
#' @returns `ring_wait()` returns the result of the blocking function, such as [ring_allreduce()].
#'   `ring_test()` returns `TRUE` or `FALSE`.
#' @section Errors:
#' The errors of the blocking function. `ring_wait()` raises them, and so does `ring_test()` when
#' the request has failed. The communicator is broken then, and all requests that were started later
#' fail with the same error. An interrupt ends `ring_wait()`, and breaks the communicator. See
#' [ring_error].
#' @seealso [ring_start], for the functions that start requests.
#' @examples
#' comm <- ring_init()
#' request <- ring_allreduce_start(comm, c(height = 1.5, width = 2))
#' request
#' ring_test(request)
#' ring_wait(request)
#' ring_close(comm)
#' @export
ring_wait <- function(request) {
  check_given(request)
  result <- .Call(C_request_wait, request)
  if (is.null(result)) invisible(result) else result
}

#' @rdname ring_wait
#' @export
ring_test <- function(request) {
  check_given(request)
  .Call(C_request_test, request)
}

#' @export
format.ring_request <- function(x, ...) {
  check_format_dots(...)
  words <- .Call(C_request_describe, x)
  sprintf("<ring_request> %s, %s", words[[1L]], words[[2L]])
}

#' @export
print.ring_request <- function(x, ...) {
  check_print_dots(...)
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# The number of requests of this process that are not yet freed.
request_live <- function() .Call(C_request_live)
