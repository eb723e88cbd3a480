/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id of NCCL. R/framework-nccl.R documents the entry point.
 */
#ifndef SPARKRING_NCCL_H
#define SPARKRING_NCCL_H

#include <Rinternals.h>

SEXP nccl_id(SEXP comm, SEXP libraries);

#endif
