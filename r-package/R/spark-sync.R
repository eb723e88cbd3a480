# SPDX-License-Identifier: Apache-2.0
#
# sparklyr's connection after an interrupt. sparklyr sends requests to the driver's Java on a socket
# and reads one reply for each. After an interrupt the reply of the call that was left is still to
# come: often "cancelled as part of cancellation of all jobs". sparklyr waits for it with requests
# of its own ("echo"), and takes the first reply to one of them for the last. Replies that are left
# over then are taken for those of later calls. So a call of ours first looks whether a reply is
# that of its request, and reads what is left over.

sync_tries <- 5L # a job that was left may end between two of them

# `ask(sc, text)` is the reply of Java to a request for `text`.
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

# Reads until nothing has come for as long as the socket waits (`sparklyr.backend.interval`, 1 s).
sync_drain <- function(sc) {
  if (!inherits(sc$backend, "sockconn")) return()
  attempt(while (length(readBin(sc$backend, raw(), 65536L)) > 0L) NULL)
}
