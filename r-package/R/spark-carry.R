# SPDX-License-Identifier: Apache-2.0
#
# Columns that R adds to a Spark table, computed in Spark's tasks when they are needed, such as
# predictions. spark_apply() itself converts each row alone, and changes dates and times.
#
# R reads the columns that it needs from record batches of Arrow, as a rank of ring_apply() does.
# The columns of the table pass through R as one string of JSON for each row, which Spark writes and
# reads, so they keep their values and types whatever these are. R returns strings with the JSON of
# some rows and arrays of the new columns. The order and the partitions of the rows stay.
#
# An error in a task reaches the driver as text: R returns it in place of the rows, and Spark raises
# it. sparklyr drops the text of an error of R.

carry_error <- "!" # begins a text that is an error; JSON begins with a brace
# Makes Spark's JSON exact for times within arrays, structs and maps.
carry_options <- paste0(
  "'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX', ",
  "'timestampNTZFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS'"
)

# ---- On the driver -------------------------------------------------------------------------------

# A lazy Spark table: the columns of `tbl`, and the columns `added`: Spark's types (double, int or
# string), by name. In a task `f` is called with a data frame of the columns `needed` of some rows,
# and with `context`. It returns a list with the values of `added`.
carry_table <- function(tbl, needed, added, f, context) {
  sc <- sparklyr::spark_connection(tbl)
  sdf <- sparklyr::spark_dataframe(tbl)
  fields <- carry_fields(sdf)
  codes <- stats::setNames(paste0("c", seq_len(nrow(fields))), fields$name)
  kinds <- character()
  if (length(needed) > 0L) {
    kinds <- batches_kinds(stats::setNames(fields$class, fields$name)[needed])
  }
  sdf <- sparklyr::invoke(sdf, "toDF", as.list(unname(codes)))
  sdf <- sparklyr::invoke(sdf, "selectExpr", as.list(c(
    unname(codes[needed]), paste(carry_write_sql(codes, fields$type), "AS carried")
  )))
  batches <- barrier_job_batches(sc, sdf, c(stats::setNames(kinds, codes[needed]), carried = "c"))
  texts <- carry_texts(sc, batches, list(
    f = f, kinds = stats::setNames(unname(kinds), needed), context = context
  ))
  rows <- barrier_job_view(texts, function(tbl, view) {
    barrier_job_sql(sc, carry_read_sql(view, codes, fields$type, added))
  })
  rows <- sparklyr::invoke(rows, "toDF", as.list(c(fields$name, names(added))))
  sparklyr::sdf_register(rows)
}

# The columns of `sdf`: name, type in SQL, and class, the name of the type in Scala.
carry_fields <- function(sdf) {
  fields <- sparklyr::invoke(sparklyr::invoke(sdf, "schema"), "fields")
  types <- lapply(fields, sparklyr::invoke, "dataType")
  found <- data.frame(
    name = vapply(fields, sparklyr::invoke, "", "name"),
    type = vapply(types, sparklyr::invoke, "", "sql"),
    class = vapply(types, sparklyr::invoke, "", "toString"), stringsAsFactors = FALSE
  )
  carry_check(found)
  found
}

# Refuses a column that Spark's JSON does not bring back as it was.
carry_check <- function(fields) {
  interval <- "\\bINTERVAL\\b(?! (YEAR|MONTH|DAY|HOUR|MINUTE|SECOND))"
  refused <- paste("MAP<(?!STRING,)", interval, "\\b(VARIANT|OBJECT|COLLATE|CHAR|VARCHAR|TIME)\\b",
                   sep = "|")
  odd <- grepl(refused, gsub("`[^`]*`", "", fields$type), perl = TRUE) |
    grepl("UDT", fields$class, fixed = TRUE)
  if (!any(odd)) return()
  first <- which(odd)[[1L]]
  check_stop("column `", fields$name[[first]], "` is of Spark's type ",
             substr(fields$class[[first]], 1L, 60L), ", which cannot be carried along: leave it ",
             "out, by dplyr::select()", call = NULL)
}

# The expression that writes the columns of a row. Days and microseconds are exact in any year.
carry_write_sql <- function(codes, types) {
  values <- codes
  values[types == "DATE"] <- sprintf("unix_date(%s)", codes[types == "DATE"])
  values[types == "TIMESTAMP"] <- sprintf("unix_micros(%s)", codes[types == "TIMESTAMP"])
  sprintf("to_json(struct(%s), map(%s))", toString(paste(values, "AS", codes)), carry_options)
}

# The SQL that makes rows of the texts in `view`.
carry_read_sql <- function(view, codes, types, added) {
  of_json <- types
  of_json[types == "DATE"] <- "INT"
  of_json[types == "TIMESTAMP"] <- "BIGINT"
  new <- paste0("a", seq_along(added))
  schema <- paste0("carried array<struct<", toString(paste0(codes, ": ", of_json)), ">>, ",
                   toString(sprintf("%s array<%s>", new, added)))
  values <- paste0("r.carried.", codes)
  values[types == "DATE"] <- sprintf("date_from_unix_date(%s)", values[types == "DATE"])
  values[types == "TIMESTAMP"] <- sprintf("timestamp_micros(%s)", values[types == "TIMESTAMP"])
  columns <- c(paste(values, "AS", codes), sprintf("r.%1$s AS %1$s", new))
  text <- sprintf("if(startswith(text, '%s'), raise_error(substring(text, %d)), text)",
                  carry_error, nchar(carry_error) + 1L)
  paste0(
    "SELECT ", toString(columns),
    " FROM (SELECT explode(arrays_zip(", toString(paste0("t.", c("carried", new))), ")) AS r",
    " FROM (SELECT from_json(", text, ", ", carry_quote(schema), ", map('mode', 'FAILFAST', ",
    "'maxStringLen', '2147483647', ", carry_options, ")) AS t FROM ", view, "))"
  )
}

carry_quote <- function(text) {
  text <- gsub("\\", "\\\\", text, fixed = TRUE)
  paste0("'", gsub("'", "\\'", text, fixed = TRUE), "'")
}

# The texts of all batches, as a table that Spark computes when it is needed. The settings are those
# of barrier_job_launch().
carry_texts <- function(sc, batches, job) {
  encoder <- sparklyr::invoke_static(sc, "org.apache.spark.sql.Encoders", "BINARY")
  session <- sparklyr::spark_session(sc)
  rows <- sparklyr::invoke(sparklyr::invoke(session, "createDataset", batches, encoder), "toDF")
  texts <- barrier_job_view(rows, function(tbl, view) {
    sparklyr::spark_apply(
      tbl, carry_closure,
      columns = c(text = "character"), memory = FALSE, packages = FALSE, context = job,
      arrow = FALSE, env = list(R_ENABLE_JIT = "0"),
      single_binary_column = barrier_job_has_tibble(sc, FALSE)
    )
  })
  sparklyr::spark_dataframe(texts)
}

# ---- In a task -----------------------------------------------------------------------------------

# The closure that sparklyr sends to the tasks, where sparkring may be missing.
carry_closure <- function(df, context) {
  if (!suppressWarnings(requireNamespace("sparkring", quietly = TRUE))) {
    return(data.frame(stringsAsFactors = FALSE, text = paste(
      "!the package sparkring is not installed on", Sys.info()[["nodename"]], "in the libraries",
      paste(.libPaths(), collapse = ", "), "of R: install it there"
    )))
  }
  get("carry_main", asNamespace("sparkring"))(df, context)
}
environment(carry_closure) <- globalenv()

# The texts of the batches of a partition, or an error.
carry_main <- function(df, job) {
  text <- tryCatch(
    unlist(lapply(df[[1L]], carry_batch, job)),
    error = function(error) {
      paste0(carry_error, "the rows of a Spark task on ", Sys.info()[["nodename"]], ": ",
             conditionMessage(error))
    }
  )
  data.frame(text = as.character(text), stringsAsFactors = FALSE)
}

# The texts of a batch, each with up to `kept_bytes` of JSON, or one row.
carry_batch <- function(batch, job) {
  columns <- .Call(C_record_batch_read, batch, c(unname(job$kinds), "c"))
  carried <- columns[[length(columns)]]
  rows <- Map(batches_class, columns[-length(columns)], job$kinds)
  names(rows) <- names(job$kinds)
  rows <- structure(rows, class = "data.frame", row.names = .set_row_names(length(carried)))
  added <- job$f(rows, job$context)
  lapply(added, function(column) stopifnot(NROW(column) == length(carried)))
  part <- cumsum(nchar(carried, "bytes", keepNA = FALSE)) %/% kept_bytes
  vapply(split(seq_along(carried), part), function(rows) {
    new <- vapply(added, function(column) kept_json(column[rows]), "")
    arrays <- c(paste0("[", paste(carried[rows], collapse = ","), "]"), new)
    names <- c("carried", paste0("a", seq_along(new)))
    enc2utf8(paste0("{", paste0("\"", names, "\":", arrays, collapse = ","), "}"))
  }, "", USE.NAMES = FALSE)
}
