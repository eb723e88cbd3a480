/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with OpenSSL's names, such as TensorFlow's BoringSSL, which the linker finds first: open() reports it
 * before any of its functions is called for OpenSSL's.
 */
#include <string.h>

#include "check.h"
#include "sparkring.h"

/* The linker prefers this function to that of OpenSSL. */
const char *OpenSSL_version(int type);
const char *OpenSSL_version(int type) {
  (void)type;
  return "BoringSSL";
}

int main(void) {
  ring_comm *comm = NULL;
  ring_error error;
  ring_options options = RING_OPTIONS_INIT;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_UNSUPPORTED);
  CHECK(comm == NULL);
  CHECK(strstr(error.message, "the functions of BoringSSL in the place of OpenSSL's") != NULL);
  return 0;
}
