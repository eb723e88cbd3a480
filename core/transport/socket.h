/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets: small helpers, each so small that an error can name the call that failed. All sockets
 * are non-blocking, close on exec, and are released by forked children. ring_socket_close closes
 * them. Functions that make a descriptor return it, or -errno.
 */
#ifndef RING_TRANSPORT_SOCKET_H
#define RING_TRANSPORT_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>

#include "sparkring.h"

#define RING_SOCKET_ADDRESSES 8

/* The addresses of a host name. */
typedef struct ring_resolved {
  int count;
  int lack; /* errno of what this host lacked to resolve the name; else 0 */
  struct {
    struct sockaddr_storage address;
    socklen_t length;
  } items[RING_SOCKET_ADDRESSES];
} ring_resolved;

/* Resolves a host with the system's resolver, which may block (resolver.h does not). Returns 0 or
 * the error of getaddrinfo. The other two: the error's text, and whether it is temporary. */
int ring_socket_resolve(const char *host, uint16_t port, ring_resolved *resolved);
const char *ring_socket_unresolved(int failure);
bool ring_socket_may_resolve(int failure);

/* True for an address, which needs no name server. */
bool ring_socket_is_numeric(const char *host);

/* True for "localhost" and numeric loopback addresses, which only this machine can use. */
bool ring_socket_is_loopback(const char *host);

/* Listens on a port (0: any free one): for a loopback host on that address, for any other host on
 * all interfaces, because other machines may use a name that this machine does not know. */
int ring_socket_listen(const char *host, uint16_t port);

/* Binds a port (0: any free one) of all interfaces, and does not listen on it. Fails when another
 * socket has bound it. Sockets with SO_REUSEPORT or SO_REUSEADDR may share it afterwards. */
int ring_socket_hold(uint16_t port);

/* The port of a bound socket, or -errno. */
int ring_socket_port(int fd);

/* The next waiting connection; -EAGAIN when there is none. */
int ring_socket_accept(int listener);

/* Begins to connect. The descriptor becomes writable when the connection is made or has failed. */
int ring_socket_connect(const ring_resolved *resolved, int index);

/* The same between processes of one host, under an abstract name, which belongs to the network
 * namespace and ends with the listener. -ENOSYS on systems other than Linux. */
int ring_socket_listen_local(const char *name);
int ring_socket_connect_local(const char *name);

/* The ports that this host connects from, "32768 to 60999 (net.ipv4.ip_local_port_range)", for
 * error messages: connect fails with EADDRNOTAVAIL when none of them is free. */
void ring_socket_ports_text(char *text, size_t size);

/* The ports above those: no socket that asks for any port gets one of them. False where there are
 * none, or the system does not report it. */
bool ring_socket_spare_ports(uint16_t *first, uint16_t *last);

/* Sends a descriptor and `length` bytes over a local connection; receives them, -EAGAIN until they
 * have arrived. */
int ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);
int ring_socket_receive_fd(int fd, void *bytes, size_t length);

/* Whether the peer has ended its sending side, even if unread bytes remain. */
bool ring_socket_has_ended(int fd);

/* The errno of a connection that failed, or 0. */
int ring_socket_failure(int fd);

/* Whether an errno means that this host lacks descriptors or memory. */
bool ring_socket_lacks(int code);

/* Writes the peer's numeric address into text. False when the socket is not connected. */
bool ring_socket_peer_host(int fd, char *text, size_t size);

/* Whether a connection to an address stays on this machine. */
bool ring_socket_is_inside(int fd, const ring_resolved *resolved, int index);

/* Prepares a connection for links: no delays, a congestion control for loopback, and detection of
 * dead hosts. A host that vanished is detected after 50 s: on an idle connection by the keepalives
 * set here, else by ring_socket_silence. 50 s are longer than a network takes to route around a
 * failed switch. (TCP_USER_TIMEOUT would also end the connection to a living peer that computes for
 * long while its window is closed.) */
void ring_socket_tune(int fd);

/* Milliseconds since the last answer of the peer's host while bytes or a probe are unconfirmed; 0
 * when none are, or the system does not report it. */
uint32_t ring_socket_silence(int fd);

/* Whether the peer's host has confirmed all bytes sent; true when the system does not report it. */
bool ring_socket_has_arrived(int fd);

void ring_socket_close(int *fd);

#endif
