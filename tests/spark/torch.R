# SPDX-License-Identifier: Apache-2.0
# Prints the variables of ring_torch_env() for the way to the other hosts, as PyTorch will read it;
# and once more when one variable is the user's own.
names <- c("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")

variables <- function(comm) {
  variables <- unlist(sparkring::ring_torch_env(comm)[names])
  stopifnot(identical(variables, Sys.getenv(names)))
  variables
}

comm <- sparkring::ring_init()
first <- variables(comm)
Sys.setenv(TP_SOCKET_IFNAME = "mine")
cat(first, variables(comm))
sparkring::ring_close(comm)
