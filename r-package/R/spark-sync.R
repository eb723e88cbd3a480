# SPDX-License-Identifier: Apache-2.0
#
# Repairs sparklyr's connection after an interrupt. sparklyr sends requests to the driver's Java on
# a socket, and reads one reply for each. After an interrupt the reply to the interrupted request is
# still to come, often "cancelled as part of cancellation of all jobs". sparklyr then sends requests
# of its own ("echo"), and takes the first reply to one of them for the last. Replies that are left
# over would then be returned for later requests. So ring_apply() and ring_run() first check that a
# reply belongs to its request, and read the replies that are left over.

sync_tries <- 5L # a cancelled job may end, and reply, between two tries

# `ask(sc, text)` returns Java's reply to a request for `text`.
sync_connection <- function(sc, ask = sync_ask, drain = sync_drain) {
  for (try in seq_len(sync_tries)) {
    text <- paste(random_bytes(16), collapse = "")
    if (identical(attempt(ask(sc, text))$value, text)) return(invisible())
    drain(sc)
  }
}

sync_ask <- function(sc, text) {
  sparklyr::invoke_static(sc, "java.net.URLEncoder", "encode", text, "UTF-8")
}

# Reads until the socket's timeout passes without a byte (`sparklyr.backend.interval`, 1 s).
sync_drain <- function(sc) {
  if (!inherits(sc$backend, "sockconn")) return()
  attempt(while (length(readBin(sc$backend, raw(), 65536L)) > 0L) NULL)
}
