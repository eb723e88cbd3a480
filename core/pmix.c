/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMIx server, the executable sparkring-pmix, as one file, for the packages. It has the messages of the core, and
 * nothing else of it.
 */
#include "pmi/pmix_directory.c"
#include "pmi/pmix_message.c"
#include "pmix/connection.c"
#include "pmix/exchange.c"
#include "pmix/group.c"
#include "pmix/job_info.c"
#include "pmix/main.c"
#include "pmix/module.c"
#include "pmix/names.c"
#include "pmix/request.c"
#include "pmix/server.c"
