# SPDX-License-Identifier: Apache-2.0
#
# The rows of a Spark table as record batches of Arrow, for the ranks. sparklyr itself converts each
# row alone, which takes milliseconds, holds a partition twice in memory, and never starts R for a
# partition without rows. So Spark packs the rows: by its own converter, which PySpark uses, too. No
# package of Arrow is needed in R (src/record_batch.c).
#
# Stage 1 computes the table and packs up to maxRecordsPerBatch rows into a
# record batch. Spark deals the batches out by a shuffle, which also keeps the table from being
# computed within the barrier stage, and in each attempt again. The barrier stage writes the batches
# of a rank to a file of its host, as lines of text (`batches_command`), so the memory that it takes
# is that of a batch. sparklyr starts R with the name of the file. The rank reads the whole file, or
# one batch after another.
#
# The partition of a rank is found by Spark's hash of a key. Every partition also gets a batch
# without rows, because Spark drops a plan in which all partitions are empty.

batches_setting <- "spark.sql.execution.arrow.maxRecordsPerBatch"
batches_codec <- "spark.sql.execution.arrow.compression.codec" # of Spark 4.1 and later
batches_simple <- c(
  FloatType = "d", DoubleType = "d", LongType = "d", ByteType = "i", ShortType = "i",
  IntegerType = "i", BooleanType = "l", StringType = "c", DateType = "D", TimestampType = "t",
  TimestampNTZType = "t", BinaryType = "r", NullType = "c"
)
# The types to which Spark casts a column, or the elements of its arrays.
batches_casts <- c(
  d = "double", i = "int", b = "int", l = "boolean", c = "string", D = "date", t = "timestamp",
  r = "binary"
)

# The kind of each column (src/record_batch.h). `types` is a named character vector of Spark's names
# for the types.
batches_kinds <- function(types) {
  if (length(types) == 0L) check_stop("`.x` has no columns: select one")
  kinds <- vapply(types, batches_kind, "")
  odd <- which(is.na(kinds))
  if (length(odd) == 0L) return(kinds)
  check_stop(
    "column ", names(types)[odd[[1L]]], " is of Spark's type ", substr(types[[odd[[1L]]]], 1L, 60L),
    ", which has no vector in R: select other columns, or make numbers, strings or arrays of ",
    "them first"
  )
}

batches_kind <- function(type) {
  if (type %in% names(batches_simple)) return(batches_simple[[type]])
  if (grepl("^DecimalType", type)) return("d")
  if (grepl("^(Varchar|Char)Type", type)) return("c")
  if (batches_is_vector(type)) return("[d")
  element <- sub("^ArrayType\\((.*), ?(true|false)\\)$", "\\1", type)
  kind <- if (element == type) NA_character_ else batches_kind(element)
  if (element == "ByteType") kind <- "b" # a list of raw vectors, as sparklyr collects it
  if (kind %in% names(batches_casts) && kind != "r") paste0("[", kind) else NA_character_
}

# Whether a column has vectors of Spark's MLlib.
batches_is_vector <- function(type) grepl("^[\\w.]*VectorUDT(@\\w+)?$", type, perl = TRUE)

batches_check_numbers <- function(types, kinds) {
  odd <- which(!kinds %in% c("d", "i", "l"))
  if (length(odd) == 0L) return()
  check_stop("column ", names(types)[odd[[1L]]], " is of Spark's type ", types[[odd[[1L]]]],
             ", and a matrix has numbers: select other columns")
}

# ---- In Spark's SQL ------------------------------------------------------------------------------

batches_name <- function(name) paste0("`", gsub("`", "``", name, fixed = TRUE), "`")

batches_array <- function(values) sprintf("array(%s)", paste(values, collapse = ", "))

# The expressions that select the columns as their kinds, under names that differ.
batches_select_sql <- function(kinds) {
  types <- batches_casts[sub("^\\[", "", kinds)]
  types[startsWith(kinds, "[")] <- sprintf("array<%s>", types[startsWith(kinds, "[")])
  sprintf("cast(%s AS %s) AS c%d", batches_name(names(kinds)), types, seq_along(kinds))
}

# The SQL for the partitions of the first numbers by Spark's hash, as one string. Spark runs no job
# for it.
batches_hashes_sql <- function(size) {
  sprintf(paste(
    "SELECT array_join(transform(sequence(0, %2$d), x ->",
    "cast(pmod(hash(cast(x AS int)), %1$d) AS string)), ' ') AS parts"
  ), size, 64L * size)
}

# For each partition, from 0, a number whose hash chooses the partition.
batches_keys <- function(hashes, size) {
  match(seq_len(size) - 1L, as.integer(strsplit(hashes, " ", fixed = TRUE)[[1L]])) - 1L
}

# The SQL expressions for counting. The hash keeps Spark from leaving columns out, so that it
# chooses the same partitions as for packing.
batches_place_sql <- function(kinds) {
  columns <- toString(batches_name(names(kinds)))
  c("spark_partition_id() AS part", sprintf("hash(%s) AS hash", columns))
}

batches_count_sql <- function(view) {
  paste("SELECT part, count(*) AS rows, bit_xor(hash) AS hash FROM", view, "GROUP BY part")
}

# The number of rows of each partition, up to the last partition that has rows.
batches_counts <- function(parts, rows) {
  counts <- double(max(0, parts + 1))
  counts[parts + 1] <- rows
  counts
}

# The SQL that places the batches of `view`, its column `value`, on ranks `r`. A rank takes the rows
# from `skip` up to `upto` of a batch, -1 for the last, and its batches in the order of `id`.
# Without `counts` the batches of a partition stay together. With `counts`, the number of rows of
# each partition, rows are dealt out evenly to the ranks, in their order, `most` rows in a batch.
batches_place <- function(view, size, counts = NULL, most = NULL) {
  batch <- paste("SELECT value, monotonically_increasing_id() AS id FROM", view)
  if (is.null(counts)) {
    rank <- sprintf("pmod(shiftright(id, 33), %d)", size)
    return(sprintf("SELECT %s AS r, id, 0L AS skip, -1L AS upto, value FROM (%s)", rank, batch))
  }
  deal <- batches_deal_sql(size, counts, most)
  paste(
    "SELECT r, id,", deal$skip, "AS skip,", deal$upto, "AS upto, value",
    "FROM (SELECT value, id, place, r1, explode(sequence(r0, r1)) AS r",
    "FROM (SELECT value, id, place,", deal$first, "AS r0,", deal$last, "AS r1",
    "FROM (SELECT value, id,", deal$place, "AS place,", deal$rows, "AS rows FROM (", batch, "))))"
  )
}

# The expressions for dealing out. `place` is the place of a batch's first row among all rows, and
# `rows` its number of rows, by the counts. Row x is of rank x * size div total. The last rank of a
# batch takes all its further rows. So each row reaches one rank, also if Spark chooses other
# partitions than those that were counted; then only the parts are uneven. Python's Frame.deal()
# does the same.
batches_deal_sql <- function(size, counts, most) {
  long <- function(x) batches_array(sprintf("%.0fL", x))
  part <- sprintf("least(1 + shiftright(id, 33), %d)", length(counts) + 1L)
  of_part <- function(x) sprintf("element_at(%s, cast(%s AS int))", long(x), part)
  before <- of_part(c(0, cumsum(counts)))
  after <- of_part(c(cumsum(counts), sum(counts)))
  within <- sprintf("(id & 8589934591L) * %.0fL", most)
  left <- paste(of_part(c(counts, 0)), "-", within)
  total <- max(1, sum(counts))
  rank <- function(x) sprintf("least(%dL, ((%s) * %dL) div %.0fL)", size - 1L, x, size, total)
  begin <- function(r) sprintf("(((%s) * %.0fL + %dL) div %dL) - place", r, total, size - 1L, size)
  list(
    place = sprintf("least(%s + %s, %s)", before, within, after),
    rows = sprintf("greatest(1L, least(%.0fL, %s))", most, left),
    first = rank("place"),
    last = rank("place + rows - 1L"),
    skip = sprintf("greatest(0L, %s)", begin("r")),
    upto = sprintf("if(r = r1, -1L, %s)", begin("r + 1L"))
  )
}

# The SQL of the lines: one partition a rank, none empty. `placed` is SQL of batches_place().
batches_lines_sql <- function(placed, keys) {
  sprintf(
    paste(
      "SELECT if(value IS NULL, '',",
      "concat_ws(' ', cast(skip AS string), cast(upto AS string), base64(value))) AS line",
      "FROM (SELECT * FROM (SELECT /*+ REPARTITION(%1$d, k) */ * FROM (",
      "SELECT element_at(%2$s, cast(1 + r AS int)) AS k, id, skip, upto, value FROM (%3$s)",
      "UNION ALL SELECT explode(%2$s) AS k, -1L, 0L, 0L, cast(NULL AS binary))) SORT BY id)"
    ),
    length(keys), batches_array(keys), placed
  )
}

# The largest number of rows in a batch, by Spark's setting.
batches_most <- function(setting) {
  most <- as.double(setting)
  if (most > 0) most else 2^31
}

# ---- In a task -----------------------------------------------------------------------------------

# The command by which a Spark task writes its lines to a file, and prints the name of the file. The
# file is in a directory that Spark or its cluster manager removes with the executor, if possible.
# `dirs` is the setting spark.local.dir. R removes the name of the file when it opens it. Spark cuts
# the command at blanks, hence ${IFS}, and a directory with blanks or quotes cannot be in it.
batches_command <- function(dirs = "") {
  if (!grepl("^[A-Za-z0-9_./,+=@-]+$", dirs)) dirs <- "${TMPDIR:-/tmp}"
  script <- paste0(
    "d=${SPARK_EXECUTOR_DIRS:-${SPARK_LOCAL_DIRS:-${LOCAL_DIRS:-", dirs, "}}};d=${d%%[:,]*};",
    "n=sparkring-rows.XXXXXXXX;f=$(mktemp -p \"$d\" $n||mktemp /tmp/$n)||exit 1;",
    "trap 'rm -f \"$f\"' TERM;cat>\"$f\"&&echo \"$f\"||(rm -f \"$f\";exit 1)"
  )
  paste("sh -c", gsub(" ", "${IFS}", script, fixed = TRUE))
}

# ---- On a rank -----------------------------------------------------------------------------------

# All rows of a file that is open, as one table.
batches_all <- function(file, kinds) {
  parts <- batches_parts(file, kinds)
  columns <- lapply(seq_along(kinds), function(i) {
    batches_join(lapply(parts, `[[`, i), kinds[[i]])
  })
  batches_table(columns, kinds)
}

# All rows of a file that is open, as a matrix of doubles.
batches_matrix <- function(file, kinds) {
  rows <- .Call(C_columns_join, batches_parts(file, kinds), length(kinds))
  colnames(rows) <- names(kinds)
  rows
}

# The columns of all batches with rows.
batches_parts <- function(file, kinds) {
  read <- batches_reader(file, kinds)
  parts <- list()
  while (!is.null(part <- read())) parts[[length(parts) + 1L]] <- part
  parts
}

# A function that returns the columns of the next batch with rows, and NULL after the last. With
# `reset` it begins again, and returns NULL.
batches_reader <- function(file, kinds) {
  offset <- 0
  buffer <- raw()
  function(reset = FALSE) {
    if (reset) {
      offset <<- 0
      return(invisible())
    }
    repeat {
      read <- .Call(C_batch_file_read, file, offset, unname(kinds), buffer)
      buffer <<- if (!is.null(read)) read[[3L]] else raw()
      if (is.null(read)) return(NULL)
      offset <<- read[[2L]]
      if (length(read[[1L]][[1L]]) > 0L) return(read[[1L]])
    }
  }
}

# The same, but the function returns tables. It is the first argument of the user's function.
batches_tables <- function(file, kinds) {
  read <- batches_reader(file, kinds)
  function(reset = FALSE) {
    columns <- read(reset)
    if (reset) return(invisible())
    if (is.null(columns)) return(NULL)
    batches_table(Map(batches_class, columns, kinds), kinds)
  }
}

batches_table <- function(columns, kinds) {
  names(columns) <- names(kinds)
  as_table(columns)
}

# One column of the columns of all batches.
batches_join <- function(parts, kind) {
  empty <- switch(kind,
    d = , D = , t = double(), i = integer(), l = logical(), c = character(), list()
  )
  column <- if (length(parts) == 1L) parts[[1L]] else unlist(parts, FALSE, FALSE)
  batches_class(if (is.null(column)) empty else column, kind)
}

# Gives a column its class, by the functions of sparklyr.
batches_class <- function(column, kind) {
  switch(kind,
    D = as.Date(column, origin = "1970-01-01"),
    t = as.POSIXct(column, origin = "1970-01-01"),
    column
  )
}
