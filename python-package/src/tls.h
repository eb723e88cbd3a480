/* SPDX-License-Identifier: Apache-2.0
 *
 * Tls: a connected socket as one end of TLS 1.3 with a key that both ends have
 * (core/transport/tls.c). The ranks of sparkring.spark send their output and large results to the
 * driver over it where the ranks encrypt. No method waits.
 */
#ifndef SPARKRING_TLS_H
#define SPARKRING_TLS_H

#include "state.h"

extern PyType_Spec tls_type_spec;

#endif
