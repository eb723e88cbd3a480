# SPDX-License-Identifier: Apache-2.0
# Prints what ring_torch_env() says of the way to the other hosts, as PyTorch will read it; and once
# more when one variable is the user's own.
names <- c("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")

say <- function(comm) {
  told <- unlist(sparkring::ring_torch_env(comm)[names])
  stopifnot(identical(told, Sys.getenv(names)))
  told
}

comm <- sparkring::ring_init()
first <- say(comm)
Sys.setenv(TP_SOCKET_IFNAME = "mine")
cat(first, say(comm))
sparkring::ring_close(comm)
