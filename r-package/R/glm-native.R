# SPDX-License-Identifier: Apache-2.0
#
# Links and families by numerics/glm.h, whose results have the same bits in Python. Other families
# keep their own functions.

native_links <- c("identity", "log", "logit", "probit", "cloglog", "inverse", "sqrt", "1/mu^2")
native_families <- c("gaussian", "binomial", "poisson", "Gamma", "inverse.gaussian")

# The number of a name in numerics/glm.h.
native_number <- function(name, names) match(name, names) - 1L

# The family with functions of numerics in place of those of stats.
native_family <- function(family) {
  if (native_has(family, c("linkfun", "linkinv", "mu.eta"), native_links, family$link)) {
    link <- native_number(family$link, native_links)
    family$linkfun <- function(mu) .Call(C_glm_eta, link, as.double(mu))
    family$linkinv <- function(eta) .Call(C_glm_mean, link, as.double(eta))
    family$mu.eta <- function(eta) .Call(C_glm_slope, link, as.double(eta))
  }
  if (native_has(family, c("variance", "dev.resids"), native_families, family$family)) {
    number <- native_number(family$family, native_families)
    family$variance <- function(mu) .Call(C_glm_variance, number, as.double(mu))
    family$dev.resids <- function(y, mu, wt) .Call(C_glm_deviance, number, y, mu, wt)
  }
  family
}

# Whether these functions of a family are those of stats.
native_has <- function(family, functions, known, name) {
  if (!name %in% known || !family$family %in% native_families) return(FALSE)
  standard <- attempt(do.call(family$family, list(link = family$link)))$value
  same <- function(f) {
    identical(family[[f]], standard[[f]], ignore.bytecode = TRUE, ignore.environment = TRUE)
  }
  !is.null(standard) && all(vapply(functions, same, NA))
}
