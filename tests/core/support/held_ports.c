/* SPDX-License-Identifier: Apache-2.0 */
#include "held_ports.h"

#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "transport/socket.h"

/* Ranks that are forked later would close a listener of the core's. */
static int listen_for_children(uint16_t port) {
  int given_up = ring_socket_listen("127.0.0.1", port), fd = -1;
  if (given_up >= 0) fd = fcntl(given_up, F_DUPFD_CLOEXEC, 0);
  ring_socket_close(&given_up);
  return fd;
}

/* Below the ports that systems hand out by themselves, and below those of the rendezvous. Tests that run at
 * the same time look in different places, as some let go of their ports before their ranks take them. */
held_ports hold_ports(int count) {
  enum { FIRST = 12000, BLOCK = 8, BLOCKS = 1000 };
  CHECK(count <= BLOCK);
  for (int tries = 0; tries < BLOCKS; tries++) {
    uint16_t first = (uint16_t)(FIRST + BLOCK * ((getpid() + tries) % BLOCKS));
    held_ports ports = {.first = first, .last = (uint16_t)(first + count - 1)};
    int fd = 0;
    for (int i = 0; i < count && fd >= 0; i++) {
      fd = listen_for_children((uint16_t)(first + i));
      if (fd >= 0) ports.listeners[ports.held++] = fd;
    }
    bool all = fd >= 0;
    while (ports.held > (all ? count - 2 : 0)) close(ports.listeners[--ports.held]);
    if (all) return ports;
  }
  CHECK(!"no free ports");
  return (held_ports){0};
}

void free_ports(held_ports *ports) {
  while (ports->held > 0) close(ports->listeners[--ports->held]);
}
