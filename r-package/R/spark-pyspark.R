# SPDX-License-Identifier: Apache-2.0
#
# PySpark, in the Python of reticulate, on the Spark of sparklyr. A gateway of Py4J in the JVM of
# sparklyr's driver takes the place of the JVM that PySpark would start.

pyspark_kept <- new.env() # the application, the gateway and the session of the last connection

#' PySpark on the Spark of sparklyr
#'
#' The Python of reticulate gets a session of PySpark on the Spark of a connection of sparklyr. Both
#' see the same tables: a temporary view of one is a table of the other. So R uses what only Python
#' has, such as the estimators of `sparkring.spark.ml`, on Spark tables and without a copy.
#'
#' The gateway for Python listens on the loopback address of the driver, asks for a secret that only
#' this R process has, and ends with the connection. A second call returns the same session. The
#' workers of Spark run the Python of reticulate, unless the environment variable `PYSPARK_PYTHON`
#' names another. Python uses the PySpark that is installed, which must have the version of Spark,
#' or that of Spark's own folder.
#'
#' @param sc A connection of sparklyr to a Spark whose driver runs on this machine, as in
#'   `spark_connect(master = "local")` or `"yarn-client"`.
#' @returns The session, an object of Python's class `pyspark.sql.SparkSession`.
#' @section Errors:
#' `ring_error_unsupported` if reticulate, Python's package sparkring or PySpark is missing, or for
#' a connection by Livy or Spark Connect. `ring_error_invalid` if PySpark has another version than
#' Spark.
#' @seealso [ml_ring_torch()]
#' @examples
#' \dontrun{
#' # Needs Spark, and a Python with sparkring.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' cars <- sparklyr::sdf_copy_to(sc, mtcars, "cars", overwrite = TRUE)
#' spark <- ring_pyspark(sc)
#' spark$table("cars")$count()
#' }
#' @export
ring_pyspark <- function(sc) {
  check_given(sc)
  driver_need_sparklyr()
  if (!inherits(sc, "spark_shell_connection")) {
    ring_stop("UNSUPPORTED", call = NULL, paste0(
      "PySpark needs a connection of sparklyr to a driver on this machine, not ", describe(sc),
      ": connect by spark_connect(master = \"local\") or \"yarn-client\""
    ))
  }
  application <- sparklyr::invoke(sparklyr::spark_context(sc), "applicationId")
  if (identical(pyspark_kept$application, application)) return(pyspark_kept$session)
  module <- pyspark_module()
  secret <- random_hex(32)
  gateway <- pyspark_gateway(sc, secret)
  port <- as.integer(sparklyr::invoke(gateway, "getListeningPort"))
  session <- pyspark_call(
    module$session(port, secret, reticulate::py_config()$python, pyspark_paths(sc))
  )
  pyspark_kept$application <- application
  pyspark_kept$gateway <- gateway # as long as sparklyr knows the object, the JVM keeps it
  pyspark_kept$session <- session
  session
}

# Evaluates code that calls Python. An error of sparkring in Python is the same error in R, and
# KeyboardInterrupt an interrupt. PySpark refuses the value of a Param by a TypeError.
pyspark_call <- function(code) {
  tryCatch(code, error = function(error) {
    text <- sub("\n*(See|Run) `reticulate::py_last_error\\(\\)`.*", "", conditionMessage(error))
    name <- sub("Error: .*", "", sub("^sparkring\\.", "", text))
    kinds <- c(
      Invalid = "INVALID", Type = "INVALID", Unsupported = "UNSUPPORTED", Timeout = "TIMEOUT",
      PeerLost = "PEER_LOST", Mismatch = "MISMATCH", Aborted = "ABORTED"
    )
    if (startsWith(name, "KeyboardInterrupt")) pyspark_interrupt()
    if (!name %in% names(kinds)) stop(error)
    ring_stop(kinds[[name]], sub("^[A-Za-z.]+Error: ", "", trimws(text)), call = NULL)
  })
}

pyspark_interrupt <- function() {
  signalCondition(structure(list(message = ""), class = c("interrupt", "condition")))
  invokeRestart("abort")
}

pyspark_module <- function() pyspark_import("sparkring.spark._gateway", "ring_pyspark()")

# A module of Python's package sparkring, for the function `purpose`.
pyspark_import <- function(module, purpose) {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    ring_stop("UNSUPPORTED", call = NULL, paste(
      "PySpark runs in R by the package reticulate, which is not installed:",
      "install.packages(\"reticulate\")"
    ))
  }
  tryCatch(reticulate::import(module), error = function(error) {
    python_missing(error, paste(purpose, "needs Python's package sparkring"), "sparkring")
  })
}

pyspark_gateway <- function(sc, secret) {
  builder <- sparklyr::invoke_new(sc, "py4j.GatewayServer$GatewayServerBuilder")
  sparklyr::invoke(builder, "javaPort", 0L)
  sparklyr::invoke(builder, "authToken", secret)
  gateway <- sparklyr::invoke(builder, "build")
  sparklyr::invoke(gateway, "start")
  gateway
}

# Spark's own PySpark, and Py4J.
pyspark_paths <- function(sc) as.list(Sys.glob(file.path(sc$spark_home, "python", "lib", "*.zip")))
