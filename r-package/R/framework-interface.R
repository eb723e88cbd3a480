# SPDX-License-Identifier: Apache-2.0
#
# The network interface by which this host reaches the other hosts. Frameworks that resolve the
# host's own name get a loopback address on many systems (127.0.1.1 in /etc/hosts), and send it to
# the other hosts. The kernel's table of routes has the right interface. IPv4 on Linux only.
# Python's frameworks/_interface.py does the same.

# The variables of Gloo and TensorPipe, with the interface to the next other host. NULL where there
# is no other host, or the interface is unknown.
interface_variables <- function(comm) {
  hosts <- ring_hosts(comm)
  rank <- seq_along(hosts) - 1L
  others <- hosts[order((rank - ring_rank(comm)) %% length(hosts))]
  others <- others[others != others[[1L]]]
  if (length(others) == 0L || !file.exists("/proc/net/route")) return(NULL)
  address <- suppressWarnings(utils::nsl(others[[1L]]))
  if (!is_string(address)) return(NULL)
  interface <- interface_route(address, readLines("/proc/net/route"))
  if (is.null(interface)) return(NULL)
  names <- c("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
  as.list(Sys.getenv(names, interface, names = TRUE))
}

# The interface for an IPv4 address, by the lines of the kernel's table: of the most specific routes
# the first. NULL where there is no route.
interface_route <- function(address, lines) {
  if (startsWith(address, "127.")) return(NULL)
  wanted <- as.integer(strsplit(address, ".", fixed = TRUE)[[1L]])
  routes <- utils::read.table(text = lines, header = TRUE, colClasses = "character")
  flags <- strtoi(routes$Flags, 16L)
  routes <- routes[bitwAnd(flags, 1L) != 0L & bitwAnd(flags, 0x200L) == 0L, ] # up, not rejected
  bits <- mapply(function(target, mask) {
    mask <- interface_octets(mask)
    if (!identical(bitwAnd(wanted, mask), interface_octets(target))) return(-1L)
    sum(vapply(mask, function(octet) sum(bitwAnd(octet, 2L^(0:7)) != 0L), 0L))
  }, routes$Destination, routes$Mask)
  if (length(bits) == 0L || max(bits) < 0L) NULL else routes$Iface[[which.max(bits)]]
}

# The four octets of an address. The table has addresses in the byte order of this machine.
interface_octets <- function(hex) {
  octets <- strtoi(substring(hex, c(1L, 3L, 5L, 7L), c(2L, 4L, 6L, 8L)), 16L)
  if (.Platform$endian == "little") rev(octets) else octets
}
