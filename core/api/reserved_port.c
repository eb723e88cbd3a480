/* SPDX-License-Identifier: Apache-2.0 */
#include "api/reserved_port.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "transport/socket.h"

/* Binds one of the ports. Ranks and jobs begin at different ones. Returns a socket, or -errno. */
static int reserved_port_within(const ring_comm *comm, uint16_t first, uint16_t last) {
  uint32_t range = (uint32_t)(last - first) + 1;
  uint32_t start = (uint32_t)(comm->peers.epoch % range) + (uint32_t)comm->local_rank;
  int fd = -EADDRINUSE;
  for (uint32_t i = 0; i < range && fd == -EADDRINUSE; i++)
    fd = ring_socket_hold((uint16_t)(first + (start + i) % range));
  return fd;
}

/* Without a range the port is, where it can be, none that the system gives away: another process
 * would get it in the moment between its release and the start of its server. */
static int reserved_port_hold(const ring_comm *comm) {
  uint16_t first, last;
  if (comm->port_first != 0) return reserved_port_within(comm, comm->port_first, comm->port_last);
  int fd = -EADDRINUSE;
  if (ring_socket_spare_ports(&first, &last)) fd = reserved_port_within(comm, first, last);
  return fd >= 0 ? fd : ring_socket_hold(0);
}

static ring_status reserved_port_fail(ring_comm *comm, int failure) {
  int rank = comm->peers.rank;
  if (failure == EADDRINUSE && comm->port_first != 0)
    return ring_error_set(&comm->error, RING_SYSTEM, rank, failure,
                          "rank %d found no free port from %u to %u for a server: a host needs one "
                          "for each of its ranks and one for each server, so give a wider range",
                          rank, (unsigned)comm->port_first, (unsigned)comm->port_last);
  return ring_error_set(&comm->error, RING_SYSTEM, rank, failure,
                        "rank %d cannot reserve a port for a server", rank);
}

static ring_status reserved_port_reserve(ring_comm *comm, int *port) {
  ring_reserved_ports *ports = &comm->ports;
  int *sockets = realloc(ports->sockets, (ports->count + 1) * sizeof *sockets);
  if (sockets == NULL) return ring_error_no_memory(&comm->error, comm->peers.rank);
  ports->sockets = sockets;
  int fd = reserved_port_hold(comm);
  if (fd < 0) return reserved_port_fail(comm, -fd);
  int number = ring_socket_port(fd);
  if (number < 0) {
    ring_socket_close(&fd);
    return reserved_port_fail(comm, -number);
  }
  sockets[ports->count++] = fd;
  *port = number;
  return RING_OK;
}

ring_status ring_port_reserve(ring_comm *comm, int *port) {
  if (port != NULL) *port = 0;
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  if (port == NULL)
    status = ring_error_set(&comm->error, RING_INVALID, -1, 0, "port is NULL");
  else
    status = reserved_port_reserve(comm, port);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_port_release(ring_comm *comm, int port) {
  if (comm == NULL) return RING_INVALID;
  ring_reserved_ports *ports = &comm->ports;
  if (port == 0) {
    ring_reserved_ports_fini(comm);
    return RING_OK;
  }
  for (size_t i = 0; i < ports->count; i++) {
    if (ring_socket_port(ports->sockets[i]) != port) continue;
    ring_socket_close(&ports->sockets[i]);
    ports->sockets[i] = ports->sockets[--ports->count];
    return RING_OK;
  }
  return ring_error_set(&comm->error, RING_INVALID, -1, 0,
                        "port %d is not one that this communicator holds", port);
}

void ring_reserved_ports_fini(ring_comm *comm) {
  ring_reserved_ports *ports = &comm->ports;
  while (ports->count > 0) ring_socket_close(&ports->sockets[--ports->count]);
  free(ports->sockets);
  ports->sockets = NULL;
}
