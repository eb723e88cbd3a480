/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a server whose PMIx never returns when it ends.
 */
#include <pmix_server.h>
#include <unistd.h>

void PMIx_server_deregister_nspace(const pmix_nspace_t nspace, pmix_op_cbfunc_t done, void *data) {
  (void)nspace, (void)done, (void)data;
  for (;;) pause();
}
