/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/sockios.h>
#endif

#include "base/fd_registry.h"

#ifdef POLLRDHUP
#define SOCKET_HANGS_UP POLLRDHUP
#else
#define SOCKET_HANGS_UP 0 /* POLLHUP is always reported */
#endif

#ifdef TCP_KEEPIDLE
#define SOCKET_KEEPIDLE TCP_KEEPIDLE
#else
#define SOCKET_KEEPIDLE TCP_KEEPALIVE /* macOS */
#endif

int ring_socket_resolve(const char *host, uint16_t port, ring_resolved *resolved) {
  char service[8];
  snprintf(service, sizeof service, "%u", (unsigned)port);
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int failure = getaddrinfo(host, service, &hints, &found);
  resolved->count = 0;
  resolved->lack = failure == EAI_MEMORY ? ENOMEM : failure == EAI_SYSTEM ? errno : 0;
  if (failure != 0) return failure;
  for (struct addrinfo *item = found; item != NULL; item = item->ai_next) {
    if (resolved->count == RING_SOCKET_ADDRESSES) break;
    if (item->ai_addrlen > sizeof resolved->items[0].address) continue;
    memcpy(&resolved->items[resolved->count].address, item->ai_addr, item->ai_addrlen);
    resolved->items[resolved->count].length = item->ai_addrlen;
    resolved->count++;
  }
  freeaddrinfo(found);
  return 0;
}

const char *ring_socket_unresolved(int failure) {
  return failure == 0 ? "the name has no addresses" : gai_strerror(failure);
}

bool ring_socket_may_resolve(int failure) {
  return failure == EAI_AGAIN;
}

bool ring_socket_is_numeric(const char *host) {
  struct in_addr four;
  return inet_pton(AF_INET, host, &four) == 1 || strchr(host, ':') != NULL;
}

bool ring_socket_is_loopback(const char *host) {
  struct in_addr four;
  struct in6_addr six;
  if (strcasecmp(host, "localhost") == 0) return true;
  if (inet_pton(AF_INET, host, &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static int socket_open(int family) {
  ring_fd_begin();
#ifdef SOCK_CLOEXEC
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return ring_fd_end(fd < 0 ? -errno : fd);
#else
  int fd = socket(family, SOCK_STREAM, 0);
  if (fd < 0) return ring_fd_end(-errno);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return ring_fd_end(fd);
#endif
}

static int socket_fail(int fd) {
  int failure = -errno;
  ring_fd_close(fd);
  return failure;
}

static int socket_listen_on(const struct sockaddr *address, socklen_t length) {
  int fd = socket_open(address->sa_family);
  if (fd < 0) return fd;
  int on = 1, off = 0;
  /* Allows to bind the port of connections that have just ended. */
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return socket_fail(fd);
  if (address->sa_family == AF_INET6 &&
      setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
    return socket_fail(fd);
  if (bind(fd, address, length) != 0) return socket_fail(fd);
  if (listen(fd, SOMAXCONN) != 0) return socket_fail(fd);
  return fd;
}

/* The options are set after bind, so that bind fails if another socket has the port with these
 * options. */
static int socket_hold_on(const struct sockaddr *address, socklen_t length) {
  int fd = socket_open(address->sa_family);
  if (fd < 0) return fd;
  int on = 1, off = 0;
  if (address->sa_family == AF_INET6 &&
      setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
    return socket_fail(fd);
  if (bind(fd, address, length) != 0) return socket_fail(fd);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return socket_fail(fd);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) return socket_fail(fd);
  return fd;
}

/* Both families with one socket or, without IPv6, IPv4. */
static int socket_everywhere(uint16_t port, int (*bound)(const struct sockaddr *, socklen_t)) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  int fd = bound((struct sockaddr *)&six, sizeof six);
  if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL && fd != -EPROTONOSUPPORT) return fd;
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
  return bound((struct sockaddr *)&four, sizeof four);
}

int ring_socket_hold(uint16_t port) {
  return socket_everywhere(port, socket_hold_on);
}

int ring_socket_listen(const char *host, uint16_t port) {
  if (!ring_socket_is_loopback(host)) return socket_everywhere(port, socket_listen_on);
  ring_resolved resolved;
  if (ring_socket_resolve(host, port, &resolved) != 0)
    return resolved.lack != 0 ? -resolved.lack : -EADDRNOTAVAIL;
  int fd = -EADDRNOTAVAIL;
  for (int i = 0; i < resolved.count; i++) {
    fd = socket_listen_on((struct sockaddr *)&resolved.items[i].address, resolved.items[i].length);
    if (fd >= 0 || fd == -EADDRINUSE) break;
  }
  return fd;
}

int ring_socket_port(int fd) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return -errno;
  if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
  return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

int ring_socket_accept(int listener) {
  ring_fd_begin();
#if defined(__linux__)
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  return ring_fd_end(fd < 0 ? -errno : fd);
#else
  int fd = accept(listener, NULL, NULL);
  if (fd < 0) return ring_fd_end(-errno);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return ring_fd_end(fd);
#endif
}

int ring_socket_connect(const ring_resolved *resolved, int index) {
  const struct sockaddr *address = (const struct sockaddr *)&resolved->items[index].address;
  int fd = socket_open(address->sa_family);
  if (fd < 0) return fd;
  if (connect(fd, address, resolved->items[index].length) != 0 && errno != EINPROGRESS)
    return socket_fail(fd);
  return fd;
}

#ifdef __linux__

/* An abstract name: it begins with a zero byte. */
static socklen_t socket_local_name(struct sockaddr_un *address, const char *name) {
  size_t length = strnlen(name, sizeof address->sun_path - 1);
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(address->sun_path + 1, name, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int ring_socket_listen_local(const char *name) {
  struct sockaddr_un address;
  socklen_t length = socket_local_name(&address, name);
  int fd = socket_open(AF_UNIX);
  if (fd < 0) return fd;
  if (bind(fd, (struct sockaddr *)&address, length) != 0) return socket_fail(fd);
  if (listen(fd, SOMAXCONN) != 0) return socket_fail(fd);
  return fd;
}

int ring_socket_connect_local(const char *name) {
  struct sockaddr_un address;
  socklen_t length = socket_local_name(&address, name);
  int fd = socket_open(AF_UNIX);
  if (fd < 0) return fd;
  if (connect(fd, (struct sockaddr *)&address, length) != 0) return socket_fail(fd);
  return fd;
}

#else

int ring_socket_listen_local(const char *name) {
  (void)name;
  return -ENOSYS;
}

int ring_socket_connect_local(const char *name) {
  (void)name;
  return -ENOSYS;
}

#endif

int ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec piece = {(void *)(uintptr_t)bytes, length};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  return sent == (ssize_t)length ? 0 : sent < 0 ? -errno : -EMSGSIZE;
}

int ring_socket_receive_fd(int fd, void *bytes, size_t length) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec piece = {bytes, length};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
#ifdef MSG_CMSG_CLOEXEC
  ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
#else
  ssize_t got = recvmsg(fd, &message, 0);
#endif
  if (got < 0) return -errno;
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  int descriptors[2]; /* lengths are rounded up, so the control buffer may hold two */
  if (rights == NULL || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len < CMSG_LEN(sizeof(int)) || rights->cmsg_len > CMSG_LEN(sizeof descriptors))
    return -EPROTO;
  size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  memcpy(descriptors, CMSG_DATA(rights), count * sizeof(int));
  if (got == (ssize_t)length && count == 1) return descriptors[0];
  for (size_t i = 0; i < count; i++) close(descriptors[i]);
  return -EPROTO;
}

bool ring_socket_has_ended(int fd) {
  struct pollfd end = {.fd = fd, .events = SOCKET_HANGS_UP};
  return poll(&end, 1, 0) != 0;
}

int ring_socket_failure(int fd) {
  int code = 0;
  socklen_t length = sizeof code;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno;
}

/* The ports that the system gives to sockets which ask for any; false if the system does not report them. */
static bool socket_local_ports(unsigned *first, unsigned *last) {
  FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  bool known = file != NULL && fscanf(file, "%5u %5u", first, last) == 2;
  if (file != NULL) fclose(file);
  return known;
}

void ring_socket_ports_text(char *text, size_t size) {
  unsigned first = 0, last = 0;
  bool known = socket_local_ports(&first, &last);
  snprintf(text, size, known ? "%u to %u (net.ipv4.ip_local_port_range)" : "its range of them",
           first, last);
}

bool ring_socket_spare_ports(uint16_t *first, uint16_t *last) {
  unsigned lowest, highest;
  if (!socket_local_ports(&lowest, &highest) || highest >= UINT16_MAX) return false;
  *first = (uint16_t)(highest + 1);
  *last = UINT16_MAX;
  return true;
}

bool ring_socket_lacks(int code) {
  return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS;
}

/* Unwraps an IPv4 address that an IPv6 socket shows as ::ffff:a.b.c.d. */
static int socket_family(const struct sockaddr_storage *address, const void **bytes) {
  if (address->ss_family == AF_INET) {
    *bytes = &((const struct sockaddr_in *)address)->sin_addr;
    return AF_INET;
  }
  const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
  /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): callers have filled it */
  *bytes = IN6_IS_ADDR_V4MAPPED(six) ? (const void *)&six->s6_addr[12] : (const void *)six;
  return IN6_IS_ADDR_V4MAPPED(six) ? AF_INET : AF_INET6;
}

static bool socket_text(const struct sockaddr_storage *address, char *text, size_t size) {
  const void *bytes;
  int family = socket_family(address, &bytes);
  return inet_ntop(family, bytes, text, (socklen_t)size) != NULL;
}

bool ring_socket_peer_host(int fd, char *text, size_t size) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getpeername(fd, (struct sockaddr *)&address, &length) != 0) return false;
  return socket_text(&address, text, size);
}

bool ring_socket_is_inside(int fd, const ring_resolved *resolved, int index) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  char own[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return false;
  if (!socket_text(&address, own, sizeof own)) return false;
  if (!socket_text(&resolved->items[index].address, other, sizeof other)) return false;
  return ring_socket_is_loopback(own) || strcmp(own, other) == 0;
}

void ring_socket_tune(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  int idle = 20, interval = 10, count = 3;
  setsockopt(fd, IPPROTO_TCP, SOCKET_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#endif
#ifdef __APPLE__
  int silence = 50;
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, &silence, sizeof silence);
#endif
#ifdef TCP_CONGESTION
  /* BBR runs at half the speed on loopback, which loses no packets and has no queue to probe. */
  char host[INET6_ADDRSTRLEN];
  if (ring_socket_peer_host(fd, host, sizeof host) && ring_socket_is_loopback(host))
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
#endif
}

#if defined(__linux__) && defined(TCP_INFO)

/* The system counts retransmissions and probes since the last answer. */
uint32_t ring_socket_silence(int fd) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  bool owes = info.tcpi_retransmits > 0 || info.tcpi_probes > 0;
  return owes ? info.tcpi_last_ack_recv : 0;
}

#else

uint32_t ring_socket_silence(int fd) {
  (void)fd;
  return 0;
}

#endif

bool ring_socket_has_arrived(int fd) {
  int left = 0;
#if defined(SIOCOUTQ)
  if (ioctl(fd, SIOCOUTQ, &left) != 0) return true;
#elif defined(SO_NWRITE)
  socklen_t length = sizeof left;
  if (getsockopt(fd, SOL_SOCKET, SO_NWRITE, &left, &length) != 0) return true;
#endif
  return left == 0;
}

void ring_socket_close(int *fd) {
  if (*fd >= 0) ring_fd_close(*fd);
  *fd = -1;
}
