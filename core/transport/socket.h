/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets: small helpers, each so small that an error can name the call that failed. All sockets
 * are non-blocking, close on exec, and are given up by forked children; ring_socket_close closes them.
 * Functions that make a descriptor return it, or -errno.
 */
#ifndef RING_TRANSPORT_SOCKET_H
#define RING_TRANSPORT_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>

#include "sparkring.h"

#define RING_SOCKET_ADDRESSES 8

/* What a host name resolved to. */
typedef struct ring_resolved {
  int count;
  int lack; /* errno, where this host lacked something to resolve it; else 0 */
  struct {
    struct sockaddr_storage address;
    socklen_t length;
  } items[RING_SOCKET_ADDRESSES];
} ring_resolved;

/* Resolves host with the system's resolver, which may block (resolver.h does not). 0, or what
 * getaddrinfo returned; that in words; and whether it may be something else soon. */
int ring_socket_resolve(const char *host, uint16_t port, ring_resolved *resolved);
const char *ring_socket_unresolved(int failure);
bool ring_socket_may_resolve(int failure);

/* True for an address, for which nobody has to be asked. */
bool ring_socket_is_numeric(const char *host);

/* True for "localhost" and numeric loopback addresses: names that mean this machine only. */
bool ring_socket_is_loopback(const char *host);

/* Listens on port (0: any free one). A loopback host is listened on alone; for any other, all
 * interfaces are, because the name by which others reach this machine may not be its own. */
int ring_socket_listen(const char *host, uint16_t port);

/* Binds a port (0: any free one) of all interfaces that nobody else has bound, and does not listen on
 * it. Sockets that ask for it, with SO_REUSEPORT or SO_REUSEADDR, may then share it. */
int ring_socket_hold(uint16_t port);

/* The port that a bound socket got, or -errno. */
int ring_socket_port(int fd);

/* The next waiting connection; -EAGAIN when there is none. */
int ring_socket_accept(int listener);

/* Begins to connect; the descriptor turns writable when it is done. */
int ring_socket_connect(const ring_resolved *resolved, int index);

/* The same between processes of one host, under a name that takes no place in the file system and
 * goes with the listener: on Linux, in the network namespace. -ENOSYS elsewhere. */
int ring_socket_listen_local(const char *name);
int ring_socket_connect_local(const char *name);

/* The ports that this host connects from, "32768 to 60999 (net.ipv4.ip_local_port_range)", for messages:
 * connect fails with EADDRNOTAVAIL when none of them is free. */
void ring_socket_ports_text(char *text, size_t size);

/* Passes a descriptor and `length` bytes over a local connection; takes them, which is -EAGAIN until
 * they are there. */
int ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);
int ring_socket_receive_fd(int fd, void *bytes, size_t length);

/* Whether the other end sends no more, also when there is something to be read from before that. */
bool ring_socket_has_ended(int fd);

/* Why a connection that was begun failed: an errno, or 0 when it did not. */
int ring_socket_failure(int fd);

/* Whether an errno says that this host has run out of something. */
bool ring_socket_lacks(int code);

/* The peer's numeric address into text. */
bool ring_socket_peer_host(int fd, char *text, size_t size);

/* Whether a connection that was begun to an address leads to this machine itself. */
bool ring_socket_is_inside(int fd, const ring_resolved *resolved, int index);

/* Prepares a connection for links: no delays, a congestion control that suits loopback where the peer
 * is on it, and dead hosts noticed. One that vanished without a word is noticed after 50 s: where
 * nothing was sent by the keepalives set here, else by ring_socket_silence. (TCP_USER_TIMEOUT would
 * also end the connection to a living peer that computes for long while its window is closed.) 50 s
 * are more than it takes networks to find a way around a switch that fails. */
void ring_socket_tune(int fd);

/* For how many milliseconds the peer's host has not answered what was sent to it, or asked of it; 0
 * when nothing is open, or the system does not tell. */
uint32_t ring_socket_silence(int fd);

/* Whether the peer's host has confirmed all that was sent to it; true when the system does not tell. */
bool ring_socket_has_arrived(int fd);

void ring_socket_close(int *fd);

#endif
