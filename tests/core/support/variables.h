/* SPDX-License-Identifier: Apache-2.0
 *
 * Every environment variable that the core reads.
 */
#ifndef RING_VARIABLES_H
#define RING_VARIABLES_H

static const char *const variables[] = {
    "SPARKRING_RANK",
    "SPARKRING_SIZE",
    "SPARKRING_ADDRESSES",
    "SPARKRING_ROOT_ADDRESS",
    "SPARKRING_TOKEN",
    "SPARKRING_TOKEN_FILE",
    "SPARKRING_JOB",
    "SPARKRING_PORTS",
    "SPARKRING_TIMEOUT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SPARKRING_SHARED_MEMORY",
    "SPARKRING_CONNECTIONS",
    "SPARKRING_ENCRYPTION",
    "SPARKRING_ALGORITHM",
    "SPARKRING_WARN_AFTER",
    "SPARKRING_PMIX_SERVER",
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

#endif
