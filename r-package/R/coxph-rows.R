# SPDX-License-Identifier: Apache-2.0
#
# Functions of survival that need the rows of the fit, such as cox.zph() and coxph.detail(), ask for
# its model frame. A distributed model has none, so they end here.

coxph_refuse <- function() {
  stop("a ring_coxph holds no rows, and this function of survival needs all rows of the fit: call ",
       "it for a coxph() of a sample of the rows", call. = FALSE)
}

#' @importFrom stats model.frame model.matrix
#' @export
model.frame.ring_coxph <- function(formula, ...) coxph_refuse() # nolint: object_name_linter.

#' @export
model.matrix.ring_coxph <- function(object, ...) coxph_refuse() # nolint: object_name_linter.

#' @export
weights.ring_coxph <- function(object, ...) coxph_refuse()

#' @exportS3Method survival::concordance
concordance.ring_coxph <- function(object, ...) coxph_refuse() # nolint: object_name_linter.
