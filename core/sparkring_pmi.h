/* SPDX-License-Identifier: Apache-2.0
 *
 * PMI: MPI programs that the ranks start find each other. sparkring.h includes this file.
 *
 * Each rank starts one program, and a server beside it answers the program's requests in PMI-1, the protocol
 * between MPI libraries and launchers that Flux RFC 13 describes (https://flux-framework.org, RFC 13). MPICH and
 * libraries made from MPICH use PMI-1. Open MPI uses PMIx (https://pmix.org): the first rank of each host also
 * starts the executable sparkring-pmix, which serves all programs of the host, where every host has it: beside the
 * core, in ../bin from there, or at the path in SPARKRING_PMIX_SERVER. All programs of a run use the same MPI
 * library. The program of rank r becomes rank r of MPI_COMM_WORLD. MPI opens connections of its own between the
 * programs: they are neither authenticated nor encrypted, whatever the communicator does.
 */
#ifndef SPARKRING_PMI_H
#define SPARKRING_PMI_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The server of this rank: a thread, and one end of a socket pair. Functions may be called from any thread at any
 * time, but ring_pmi_close serves one thread, and ring_pmi_free may not run beside another function. In a forked
 * child only ring_pmi_free works. */
typedef struct ring_pmi ring_pmi;

/* The state of the program. */
typedef enum ring_pmi_state {
  RING_PMI_SILENT = 0,    /* MPI_Init has not been called */
  RING_PMI_ACTIVE = 1,    /* between MPI_Init and MPI_Finalize */
  RING_PMI_FINALIZED = 2, /* MPI_Finalize has been called */
  RING_PMI_ABORTED = 3,   /* MPI_Abort has been called */
  RING_PMI_LOST = 4       /* the connection was closed before MPI_Finalize */
} ring_pmi_state;

/* Starts a server on every rank of `comm`, whose options and hooks the servers inherit. Collective. The servers use
 * communicators of their own. `pmix`: whether to serve PMIx, too, on all hosts or on none; all ranks pass the same.
 * On failure, which all ranks have alike, *pmi is NULL and ring_comm_error(comm) explains. A rank without memory,
 * descriptors or a thread is such a failure. */
RING_API ring_status ring_pmi_serve(ring_comm *comm, int pmix, ring_pmi **pmi);

/* Variables that the program needs: PMI_FD, PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS and, where PMIx is
 * served, variables of PMIx, Open MPI and MPICH; each as "NAME=value", with a NULL at the end. PMI_PORT and PMI_ID
 * have to be absent. Valid until ring_pmi_free. */
RING_API const char *const *ring_pmi_environment(const ring_pmi *pmi);

/* NULL where programs are also served by PMIx; else why they are not: "rank 2 (host): ...". The same on all ranks.
 * Valid until ring_pmi_free. */
RING_API const char *ring_pmi_pmix_problem(const ring_pmi *pmi);

/* The program's end of the socket pair, whose number PMI_FD holds; -1 after ring_pmi_started. It closes on exec. A
 * child of fork() gets a socket without a peer in its place, so that no other child keeps the connection open. The
 * caller passes the descriptor in a message (SCM_RIGHTS), or makes a copy before the fork (dup). PMI_FD has to hold
 * the number that the descriptor has in the program. */
RING_API int ring_pmi_fd(ring_pmi *pmi);

/* Closes the descriptor in this process, once the program has it. So the server detects the program's end. Not for
 * a program that runs in this process. */
RING_API void ring_pmi_started(ring_pmi *pmi);

/* RING_OK while no rank has failed, else why the servers have ended; ring_pmi_error explains. Does not wait.
 * *state and *exit_code (both may be NULL) describe this rank's program. The exit code is that of MPI_Abort.
 *
 * The servers of all ranks end when a rank dies or calls ring_pmi_abort. They also end when a program calls
 * MPI_Abort, closes its connection before MPI_Finalize, sends an invalid request, or has ended while another program
 * waits for it. After MPI_Abort and a closed connection the server waits for 0.7 seconds, in which ring_pmi_abort
 * can give a better reason. */
RING_API ring_status ring_pmi_test(ring_pmi *pmi, ring_pmi_state *state, int *exit_code);

/* Called when this rank's program has ended. Waits, without a deadline, for the end of the programs of all ranks, and
 * ends the server. Collective. A program that has called MPI_Init and not MPI_Finalize fails. */
RING_API ring_status ring_pmi_close(ring_pmi *pmi);

/* Ends the servers of all ranks: their next calls return RING_ABORTED with `reason`, this rank and its host. */
RING_API void ring_pmi_abort(ring_pmi *pmi, const char *reason);

/* Why the servers have ended; status RING_OK when they have not failed. Valid until ring_pmi_free. */
RING_API const ring_error *ring_pmi_error(ring_pmi *pmi);

/* Frees the server, which is aborted first when it is not closed. NULL is allowed. */
RING_API void ring_pmi_free(ring_pmi *pmi);

#ifdef __cplusplus
}
#endif

#endif
