/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of PMI that answers the program of this rank: an external pointer of class "ring_pmi",
 * which protects its communicator. Its finaliser aborts a server that is not closed.
 */
#ifndef SPARKRING_PMI_H_OF_R
#define SPARKRING_PMI_H_OF_R

#include <Rinternals.h>

#include "core/sparkring.h"

/* The server. Raises an error when `pmi` is none, or was freed. */
ring_pmi *pmi_of(SEXP pmi);

/* Starts a server on every rank, and with `pmix` also serves PMIx where all hosts can. Collective. */
SEXP pmi_serve(SEXP comm, SEXP pmix);

/* A string: why PMIx is not served; NULL: it is. */
SEXP pmi_pmix_problem(SEXP pmi);

/* Makes this process the program: returns a descriptor, which MPICH closes when it is finalized. */
SEXP pmi_join(SEXP pmi);

/* Closes the descriptor where MPI has not. */
SEXP pmi_leave(void);

/* "NAME=value" for the variables of the program. Its descriptor is GUARDIAN_PMI. */
SEXP pmi_environment(SEXP pmi);

/* A list: `state` of the program, a string, and `code`, of MPI_Abort. Raises an error when the
 * servers have failed. */
SEXP pmi_test(SEXP pmi);

/* Waits for the end of the programs of all ranks. Collective. */
SEXP pmi_close(SEXP pmi);

/* Ends the servers of all ranks, unless they have ended. */
SEXP pmi_abort(SEXP pmi, SEXP reason);

/* Frees the server, which is aborted when it is not closed. */
SEXP pmi_free(SEXP pmi);

#endif
