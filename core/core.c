/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole core as one file: what the R and the Python package compile. CMake compiles the same
 * sources one by one, which keeps the headers self-contained.
 */
#include "address.c"
#include "collective.c"
#include "comm.c"
#include "dtype.c"
#include "engine.c"
#include "environment.c"
#include "error.c"
#include "failure.c"
#include "frame.c"
#include "handshake.c"
#include "link_tcp.c"
#include "peers.c"
#include "platform.c"
#include "poller.c"
#include "porch.c"
#include "reduce.c"
#include "rendezvous.c"
#include "rendezvous_guest.c"
#include "rendezvous_root.c"
#include "schedule.c"
#include "secret.c"
#include "socket.c"
#include "wait.c"
