/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "auth/handshake.h"
#include "auth/secret.h"
#include "base/address.h"
#include "base/error.h"
#include "base/platform.h"

#define OPTIONS_TIMEOUT 300.0
#define OPTIONS_CALL_TIMEOUT 600.0
#define OPTIONS_WARN_AFTER 60.0
#define OPTIONS_CONNECTIONS 1
#define OPTIONS_TOKEN_LEAST 16 /* bytes */
#define OPTIONS_RANKS_MAX (1 << 20)

static ring_status options_invalid(ring_error *error, const char *text) {
  return ring_error_set(error, RING_INVALID, -1, 0, "%s", text);
}

/* Copies what the caller's version of the struct has; newer fields keep their defaults. */
static ring_status options_copy(const ring_options *given, ring_options *options,
                                ring_error *error) {
  *options = (ring_options)RING_OPTIONS_INIT;
  if (given == NULL) return RING_OK;
  if (given->struct_size < offsetof(ring_options, shared_memory) || given->struct_size > 4096)
    return options_invalid(error, "options.struct_size is wrong: begin with RING_OPTIONS_INIT");
  size_t known = given->struct_size < sizeof *options ? given->struct_size : sizeof *options;
  memcpy(options, given, known);
  return RING_OK;
}

/* Fills what is missing from the environment, whose strings stay in *environment. */
static ring_status options_fill(ring_options *options, ring_environment *environment,
                                ring_error *error) {
  if (options->address_count > 0 || options->root_address != NULL || options->exchange != NULL ||
      options->size > 0)
    return options_invalid(error, "rank is missing: size, addresses or an exchange were given, so "
                                  "rank must be given too");
  ring_status status = ring_environment_read(environment, error);
  if (status != RING_OK) return status;
  options->rank = environment->rank;
  options->size = environment->size;
  options->addresses = (const char *const *)environment->addresses;
  options->address_count = environment->address_count;
  options->root_address = environment->root_address[0] != '\0' ? environment->root_address : NULL;
  if (options->token == NULL) {
    options->token = environment->token;
    options->token_length = environment->token_length;
  }
  if (options->token == NULL && options->size > 1 && getenv(RING_ENVIRONMENT_PROGRAM) != NULL)
    return options_invalid(error, "ranks have started this MPI program, which gets no token from "
                                  "them, so its own ranks would not be authenticated: pass the "
                                  "same token on every rank, or the variable SPARKRING_TOKEN_FILE");
  if (options->job == NULL) options->job = environment->job;
  if (options->port_first == 0) {
    options->port_first = (uint16_t)environment->port_first;
    options->port_last = (uint16_t)environment->port_last;
  }
  if (options->timeout == 0) options->timeout = environment->timeout;
  return RING_OK;
}

static ring_status options_check_ranks(const ring_options *options, ring_error *error) {
  if (options->size == 0)
    return options_invalid(error, "size is missing: pass it, or the addresses of all ranks");
  if (options->size < 1 || options->size > OPTIONS_RANKS_MAX)
    return ring_error_set(error, RING_INVALID, -1, 0, "size is %d: it must be from 1 to %d",
                          options->size, OPTIONS_RANKS_MAX);
  if (options->rank < 0 || options->rank >= options->size)
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "rank is %d, but size is %d: ranks go from 0 to %d", options->rank,
                          options->size, options->size - 1);
  if (options->addresses == NULL && options->address_count > 0)
    return options_invalid(error, "addresses is NULL, but address_count is not 0");
  if (options->address_count > 0 && options->address_count != options->size)
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "%d addresses were given for size %d: there must be one for each rank",
                          options->address_count, options->size);
  if (options->size == 1) return RING_OK;
  if (options->exchange != NULL && options->address_count == 0)
    return options_invalid(error, "an exchange needs the addresses of all ranks");
  if (options->address_count == 0 && options->root_address == NULL)
    return options_invalid(error,
                           "no addresses were given: pass those of all ranks, in rank order, "
                           "or at least that of rank 0");
  return RING_OK;
}

static ring_status options_check_seconds(double seconds, const char *name, ring_error *error) {
  if (seconds > 0 && seconds < 1e9) return RING_OK;
  if (seconds > 0)
    return ring_error_set(error, RING_INVALID, -1, 0, "%s is %g: it must be less than 1e9 seconds",
                          name, seconds);
  return ring_error_set(error, RING_INVALID, -1, 0,
                        "%s is %g: it must be a positive number of seconds", name, seconds);
}

static ring_status options_check_warn_after(const ring_options *options, ring_error *error) {
  if (options->warn_after == RING_NEVER) return RING_OK;
  return options_check_seconds(options->warn_after, "warn_after", error);
}

static ring_status options_check_choice(ring_choice choice, const char *name, ring_error *error) {
  if (choice == RING_DEFAULT || choice == RING_ON || choice == RING_OFF) return RING_OK;
  return ring_error_set(error, RING_INVALID, -1, 0,
                        "%s is %d: it must be RING_DEFAULT, RING_ON or RING_OFF", name,
                        (int)choice);
}

static ring_status options_check_choices(const ring_options *options, ring_error *error) {
  ring_status status = options_check_choice(options->shared_memory, "shared_memory", error);
  if (status == RING_OK) status = options_check_choice(options->encryption, "encryption", error);
  if (status == RING_OK)
    status = options_check_choice(options->watch_parent, "watch_parent", error);
  return status;
}

static ring_status options_check_connections(const ring_options *options, ring_error *error) {
  if (options->connections < 0 || options->connections > RING_CONNECTIONS_MAX)
    return ring_error_set(error, RING_INVALID, -1, 0, "connections is %d: it must be from 1 to %d",
                          options->connections, RING_CONNECTIONS_MAX);
  if (options->connections > 1 && !ring_platform_watches())
    return ring_error_set(
        error, RING_UNSUPPORTED, -1, 0,
        "connections is %d, but only Linux has links of several connections: leave it at 1",
        options->connections);
  return RING_OK;
}

/* MPI would carry in plain text what is to be encrypted. */
static ring_status options_check_backend(const ring_options *options, ring_error *error) {
  bool mpi = strcmp(options->backend, "mpi") == 0;
  if (!mpi && strcmp(options->backend, "native") != 0)
    return ring_error_set(
        error, RING_INVALID, -1, 0,
        "backend is %s: it must be native or mpi (the variable " RING_ENVIRONMENT_BACKEND
        " sets it, too)",
        ring_quote(options->backend).text);
  if (mpi && options->encryption == RING_ON)
    return options_invalid(error, "MPI does not encrypt what it carries: turn encryption off, or "
                                  "take the backend native");
  return RING_OK;
}

static ring_status options_check_encryption(const ring_options *options, ring_error *error) {
  bool secret = options->token != NULL || options->exchange != NULL;
  if (options->encryption != RING_ON || secret || options->size == 1) return RING_OK;
  return options_invalid(error, "encryption needs a token: give all ranks the same one, of at "
                                "least 16 random bytes");
}

static ring_status options_check_openssl(ring_error *error) {
  const char *found;
  if (ring_secret_has_openssl(&found)) return RING_OK;
  return ring_error_set(error, RING_UNSUPPORTED, -1, 0,
                        "a library of this process has put the functions of %s in the place of "
                        "OpenSSL's, as TensorFlow "
                        "does: load sparkring before that library",
                        found);
}

/* A short one could be guessed by whoever has recorded a handshake. */
static ring_status options_check_token(const ring_options *options, ring_error *error) {
  if (options->token == NULL && options->token_length > 0)
    return options_invalid(error, "token is NULL, but token_length is not 0");
  if (options->token == NULL || options->token_length >= OPTIONS_TOKEN_LEAST) return RING_OK;
  if (options->token_length == 0)
    return options_invalid(error, "the token is empty: give at least 16 random bytes, or none");
  return ring_error_set(error, RING_INVALID, -1, 0,
                        "the token is too short, %zu bytes: give at least %d random bytes, or none",
                        options->token_length, OPTIONS_TOKEN_LEAST);
}

/* Defaults, where neither the caller nor the environment has given a value. */
static void options_take_defaults(ring_options *options) {
  if (options->size == 0) options->size = options->address_count;
  if (options->timeout == 0) options->timeout = OPTIONS_TIMEOUT;
  if (options->call_timeout == 0) options->call_timeout = OPTIONS_CALL_TIMEOUT;
  if (options->warn_after == 0) options->warn_after = OPTIONS_WARN_AFTER;
  if (options->job == NULL) options->job = "";
  if (options->connections == 0) options->connections = OPTIONS_CONNECTIONS;
  if (options->encryption == RING_DEFAULT) options->encryption = RING_OFF;
  if (options->shared_memory == RING_DEFAULT) options->shared_memory = RING_ON;
  if (options->watch_parent == RING_DEFAULT) options->watch_parent = RING_OFF;
  if (options->backend == NULL) options->backend = "native";
}

static ring_status options_check(const ring_options *options, ring_error *error) {
  ring_status status = options_check_openssl(error);
  if (status == RING_OK) status = options_check_ranks(options, error);
  if (status == RING_OK) status = options_check_seconds(options->timeout, "timeout", error);
  if (status == RING_OK)
    status = options_check_seconds(options->call_timeout, "call_timeout", error);
  if (status == RING_OK) status = options_check_warn_after(options, error);
  if (status == RING_OK) status = options_check_connections(options, error);
  if (status == RING_OK) status = options_check_choices(options, error);
  if (status == RING_OK) status = options_check_backend(options, error);
  if (status != RING_OK) return status;
  if (options->port_last < options->port_first ||
      (options->port_first == 0) != (options->port_last == 0))
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "the port range %u to %u is empty: give its first and its last port",
                          (unsigned)options->port_first, (unsigned)options->port_last);
  status = options_check_token(options, error);
  if (status == RING_OK) status = options_check_encryption(options, error);
  return status;
}

/* The variables that count beside any of the three ways to find the ranks. */
static ring_status options_heed_variables(ring_options *options, ring_error *error) {
  ring_status status = RING_OK;
  if (options->connections == 0)
    status = ring_environment_connections(&options->connections, error);
  if (status == RING_OK && options->encryption == RING_DEFAULT)
    status = ring_environment_encryption(&options->encryption, error);
  if (status == RING_OK && options->warn_after == 0)
    status = ring_environment_warn_after(&options->warn_after, error);
  if (options->shared_memory == RING_DEFAULT)
    options->shared_memory = ring_environment_shared_memory();
  if (options->backend == NULL) options->backend = getenv(RING_ENVIRONMENT_BACKEND);
  return status;
}

ring_status ring_options_read(const ring_options *given, ring_options *options,
                              ring_environment *environment, ring_error *error) {
  ring_status status = options_copy(given, options, error);
  if (status == RING_OK && options->rank == -1) status = options_fill(options, environment, error);
  if (status == RING_OK) status = options_heed_variables(options, error);
  if (status != RING_OK) return status;
  options_take_defaults(options);
  return options_check(options, error);
}

const char *ring_version(void) {
  return RING_VERSION;
}
