/* SPDX-License-Identifier: Apache-2.0
 *
 * What help() shows for the methods that start a collective: they have the parameters of those that
 * wait, where these are described.
 */
#ifndef SPARKRING_START_DOC_H
#define SPARKRING_START_DOC_H

#include "comm_doc.h"

/* `note` is what else there is to know. */
#define START_DOC(name, parameters, names, note)                                                   \
  PyDoc_STRVAR(comm_##name##_start_doc, #name                                                      \
               "_start($self, " parameters ")\n--\n\n"                                             \
               "Start `" #name "` and return while it goes on.\n"                                  \
               "\n" note "Parameters\n"                                                            \
               "----------\n" names " : as for `" #name "`\n"                                      \
               "    Arrays are left alone until the request is done.\n"                            \
               "\n" START_DOC_RETURNS("What `" #name "` returns is the result of the request."))

#define START_DOC_RETURNS(text)                                                                    \
  "Returns\n"                                                                                      \
  "-------\n"                                                                                      \
  "Request\n"                                                                                      \
  "    " text "\n"                                                                                 \
  "\n"                                                                                             \
  "Raises\n"                                                                                       \
  "------\n"                                                                                       \
  "InvalidError\n"                                                                                 \
  "    For arguments that cannot be used.\n"                                                       \
  "MismatchError, PeerLostError, TimeoutError, AbortedError\n"                                     \
  "    When the communicator is broken already; what happens later, the request raises.\n"

#define START_DOC_LENGTHS                                                                          \
  "The ranks tell each other their lengths first, which waits for the other ranks and for\n"       \
  "all requests before it.\n"                                                                      \
  "\n"

START_DOC(allreduce, "x, op='sum', *, out=None, dtype=None", "x, op, out, dtype", "");
START_DOC(allreduce_group, "xs, op='sum', *, out=None, dtype=None", "xs, op, out, dtype", "");
START_DOC(reduce, "x, op='sum', root=0, *, out=None, dtype=None", "x, op, root, out, dtype", "");
START_DOC(reduce_scatter, "x, op='sum', *, out=None, dtype=None", "x, op, out, dtype", "");
START_DOC(broadcast, "x, root=0, *, out=None, dtype=None", "x, root, out, dtype", "");
START_DOC(allgather, "x, *, out=None, dtype=None", "x, out, dtype", "");
START_DOC(allgatherv, "x, *, dtype=None", "x, dtype", START_DOC_LENGTHS);
START_DOC(gather, "x, root=0, *, out=None, dtype=None", "x, root, out, dtype", "");
START_DOC(gatherv, "x, root=0, *, dtype=None", "x, root, dtype", START_DOC_LENGTHS);
START_DOC(scatter, "x, root=0, *, out=None, dtype=None", "x, root, out, dtype", "");
START_DOC(scatterv, "x, counts, root=0, *, dtype=None", "x, counts, root, dtype", "");
START_DOC(alltoall, "x, *, out=None, dtype=None", "x, out, dtype", "");
START_DOC(alltoallv, "x, counts, *, dtype=None", "x, counts, dtype", START_DOC_LENGTHS);
PyDoc_STRVAR(comm_barrier_start_doc,
             "barrier_start($self, /)\n--\n\n"
             "Start `barrier`: the request is done when every rank has called this.\n"
             "\n" START_DOC_RETURNS("Its result is ``None``."));
START_DOC(send, "x, peer, *, dtype=None", "x, peer, dtype", "");
START_DOC(recv, "x, peer, *, out=None, dtype=None", "x, peer, out, dtype", "");

#endif
