# SPDX-License-Identifier: Apache-2.0
#
# Arrays that R has on a GPU are objects of Python, of PyTorch or CuPy, by reticulate. So the calls
# on them are those of Python's communicator in the same process, which has the device.

#' Collectives on arrays in the memory of GPUs
#'
#' What R has on a GPU belongs to a library of Python that reticulate has loaded: a tensor of
#' PyTorch, an array of CuPy, or any array with `__cuda_array_interface__` or DLPack.
#' `ring_device()` opens a device, one GPU of each rank, between the ranks of a communicator. The
#' methods of its result are collectives on such arrays, by NCCL or through the host. All ranks call
#' the function.
#'
#' @details
#' The result is Python's communicator between the same ranks, that of [ring_python()]. Its methods
#' `allreduce()`, `reduce()`, `broadcast()`, `allgather()`, `reduce_scatter()`, `alltoall()`,
#' `alltoallv()`, `send()`, `recv()` and those of groups take arrays on GPUs, and return arrays of
#' the same library on the same GPU. With NCCL a method returns when its work is on the stream of
#' the array. `device()$wait(x)` waits for it, and raises the error of a call that has failed.
#' `device()$explain()` has the path, and the reason. The guide *Use GPUs* has the details.
#'
#' [ring_gpus()] gives each rank its own GPUs; call it before.
#'
#' @inheritParams ring_tf_config
#' @param path `"auto"`: by NCCL where every rank can use it, else through the host. `"nccl"`: by
#'   NCCL, whose traffic is neither authenticated nor encrypted, or not at all. `"host"`: through
#'   the memory of the host. The same on every rank.
#' @param gpu The number of this rank's GPU in this process, a whole number from 0. `NULL`: that of
#'   the current CUDA context, or else one for each rank of the host in turn.
#' @returns An object of Python's class `sparkring.Communicator`, whose device is open. Its method
#'   `close()` closes both.
#' @section Errors:
#' As for [ring_python()]. Errors of Python are errors of R with the name of Python's class and its
#' message: `UnsupportedError` on all ranks when a rank has no GPU or no driver.
#' @seealso [ring_gpus()], [ring_python()]
#' @examples
#' \dontrun{
#' # Needs GPUs, and PyTorch in the Python of reticulate.
#' torch <- reticulate::import("torch")
#' comm <- ring_init()
#' ring_gpus(comm, 1)
#' ring <- ring_device(comm)
#' gradient <- torch$ones(1000L, device = "cuda")
#' total <- ring$allreduce(gradient, op = "sum")
#' ring$device()$wait(total)
#' ring_close(comm)
#' }
#' @export
ring_device <- function(comm, path = "auto", gpu = NULL, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    options <- agree(comm, list(
      path = check_string(path, "path"),
      gpu = if (!is.null(gpu)) check_whole(gpu, "gpu", least = 0)
    ))
    python <- ring_python(comm)
    python$device(options$path, options$gpu)
    python
  })
}
