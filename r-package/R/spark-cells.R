# SPDX-License-Identifier: Apache-2.0
#
# Packs the rows of a Spark table for the ranks. sparklyr itself converts each row alone, which
# takes milliseconds. It sometimes returns dates and timestamps as another type, and it never starts
# R for a partition without rows. So Spark packs the rows here: a cell becomes a string, a thousand
# rows become one string, and every partition also gets a string without rows.
#
# A cell is N for a null, or V and a string. The byte 31 separates cells, and the byte 30 separates
# rows. Within a cell these bytes and the escape byte 27 are written as the byte 27 and a letter.
# Each row has a key. Spark's hash of the key is the partition of the row's rank.

cells_rows <- 1000 # rows in a string

cells_numbers <- c(
  "DoubleType", "FloatType", "ByteType", "ShortType", "IntegerType", "LongType"
)

# The kind of each column. `types` is a named character vector of Spark's names for the types.
cells_kinds <- function(types) {
  kinds <- vapply(types, cells_kind, "")
  odd <- which(is.na(kinds))
  if (length(odd) == 0L) return(kinds)
  check_stop(
    "column ", names(types)[odd[[1L]]], " is of Spark's type ", substr(types[[odd[[1L]]]], 1L, 60L),
    ", which has no vector in R: select other columns, or make numbers, strings or arrays of ",
    "numbers of it first"
  )
}

cells_kind <- function(type) {
  simple <- c(
    FloatType = "double", DoubleType = "double", LongType = "double", ByteType = "integer",
    ShortType = "integer", IntegerType = "integer", BooleanType = "logical",
    StringType = "character", DateType = "date", TimestampType = "timestamp",
    TimestampNTZType = "timestamp", BinaryType = "raw"
  )
  if (type %in% names(simple)) return(simple[[type]])
  if (grepl("^DecimalType", type)) return("double")
  if (grepl("^(Varchar|Char)Type", type)) return("character")
  if (sub("^ArrayType\\((\\w+), ?(true|false)\\)$", "\\1", type) %in% cells_numbers) {
    return("doubles")
  }
  NA_character_
}

# ---- In Spark's SQL ------------------------------------------------------------------------------

# The SQL expression that makes a line from a row.
cells_sql <- function(kinds) {
  cells <- vapply(names(kinds), function(name) cell_sql(name, kinds[[name]]), "")
  paste0("concat_ws(char(31), ", paste(cells, collapse = ", "), ")")
}

cells_name <- function(name) paste0("`", gsub("`", "``", name, fixed = TRUE), "`")

cell_sql <- function(name, kind) {
  x <- cells_name(name)
  escape <- function(x, byte, letter) {
    sprintf("replace(%s, char(%d), concat(char(27), '%s'))", x, byte, letter)
  }
  text <- switch(kind,
    double = sprintf("cast(cast(%s AS double) AS string)", x),
    character = escape(escape(escape(x, 27L, "e"), 30L, "r"), 31L, "u"),
    date = sprintf("cast(unix_date(%s) AS string)", x),
    timestamp = sprintf("cast(cast(cast(%s AS timestamp) AS double) AS string)", x),
    raw = sprintf("hex(%s)", x),
    doubles = sprintf(
      "array_join(transform(%s, x -> coalesce(cast(cast(x AS double) AS string), 'NA')), ' ')", x
    ),
    sprintf("cast(%s AS string)", x)
  )
  sprintf("coalesce(concat('V', %s), 'N')", text)
}

# The SQL for the partitions of the first numbers by Spark's hash, as one string. Spark runs no job
# for it.
cells_hashes_sql <- function(size) {
  sprintf(paste(
    "SELECT array_join(transform(sequence(0, %2$d), x ->",
    "cast(pmod(hash(cast(x AS int)), %1$d) AS string)), ' ') AS parts"
  ), size, 64L * size)
}

# For each partition, from 0, a number whose hash chooses the partition.
cells_keys <- function(hashes, size) {
  match(seq_len(size) - 1L, as.integer(strsplit(hashes, " ", fixed = TRUE)[[1L]])) - 1L
}

# The SQL expressions for the key of a row, its chunk, and its line. Rows of a chunk keep their
# order. Without `counts` the rows of a partition stay together. With `counts`, the number of rows
# of each partition, rows are dealt out evenly to the ranks, in their order. If Spark chooses other
# partitions than those that were counted, the order is still right, but the parts are uneven.
cells_select_sql <- function(kinds, keys, counts = NULL) {
  size <- length(keys)
  row <- "monotonically_increasing_id()"
  within <- sprintf("(%s & 8589934591L)", row) # its place in its partition
  rank <- sprintf("pmod(spark_partition_id(), %d)", size)
  if (!is.null(counts)) rank <- cells_deal_sql(within, counts, size)
  c(
    sprintf("element_at(%s, 1 + cast(%s AS int)) AS k", cells_array(keys), rank),
    sprintf("shiftright(%s, 33) * 8388608L + %s div %dL AS chunk", row, within, cells_rows),
    paste(cells_sql(kinds), "AS line")
  )
}

# The rank of a row.
cells_deal_sql <- function(within, counts, size) {
  before <- c(0, cumsum(counts)) # rows in the partitions before each
  part <- sprintf("least(1 + spark_partition_id(), %d)", length(before))
  row <- sprintf("(element_at(%s, %s) + %s)", cells_array(sprintf("%.0fL", before)), part, within)
  sprintf("least(%1$d - 1, (%2$s * %1$d) div %3$.0fL)", size, row, max(1, sum(counts)))
}

# The SQL expressions for counting. The hash keeps Spark from leaving columns out, so that it
# chooses the same partitions as for packing.
cells_place_sql <- function(kinds) {
  c("spark_partition_id() AS part", sprintf("hash(%s) AS hash", toString(cells_name(names(kinds)))))
}

cells_count_sql <- function(view) {
  paste("SELECT part, count(*) AS rows, bit_xor(hash) AS hash FROM", view, "GROUP BY part")
}

# The number of rows of each partition, up to the last partition that has rows.
cells_counts <- function(parts, rows) {
  counts <- double(max(0, parts + 1))
  counts[parts + 1] <- rows
  counts
}

# The SQL for the strings without rows.
cells_empty_sql <- function(keys) {
  sprintf("SELECT explode(%s) AS k, -1L AS chunk, cast(NULL AS string) AS line", cells_array(keys))
}

# The SQL that packs the rows of `view`, the strings without rows included: one partition a rank,
# none empty.
cells_pack_sql <- function(view, size) {
  sprintf(paste(
    "SELECT chunk, array_join(collect_list(line), char(30)) AS text",
    "FROM (SELECT /*+ REPARTITION(%d, k) */ * FROM %s) GROUP BY k, chunk"
  ), size, view)
}

cells_array <- function(keys) sprintf("array(%s)", paste(keys, collapse = ", "))

# ---- In R ----------------------------------------------------------------------------------------

# Unpacks the rows of a rank. `packed` has the columns chunk and text.
cells_read <- function(packed, kinds) {
  packed <- packed[packed$chunk >= 0, ]
  text <- as.character(packed$text)[order(packed$chunk)]
  lines <- as.character(unlist(strsplit(text, "\036", fixed = TRUE)))
  cells <- as.character(unlist(strsplit(lines, "\037", fixed = TRUE)))
  cells <- matrix(cells, nrow = length(kinds))
  columns <- lapply(seq_along(kinds), function(i) cells_column(cells[i, ], kinds[[i]]))
  names(columns) <- names(kinds)
  as_table(columns)
}

cells_column <- function(cells, kind) {
  text <- substring(cells, 2L)
  text[cells == "N"] <- NA_character_
  switch(kind,
    double = as.double(text),
    integer = as.integer(text),
    logical = text == "true",
    character = cells_unescape(text),
    date = structure(as.double(text), class = "Date"),
    timestamp = .POSIXct(as.double(text)),
    raw = lapply(text, cells_raw),
    doubles = lapply(strsplit(text, " ", fixed = TRUE), cells_doubles)
  )
}

cells_doubles <- function(text) {
  if (length(text) == 1L && is.na(text)) return(NULL)
  text[text == "NA"] <- NA_character_
  as.double(text)
}

cells_raw <- function(text) {
  if (is.na(text)) return(NULL)
  if (text == "") return(raw())
  starts <- seq.int(1L, by = 2L, length.out = nchar(text) %/% 2L)
  as.raw(strtoi(substring(text, starts, starts + 1L), 16L))
}

cells_unescape <- function(text) {
  escaped <- grep("\033", text, fixed = TRUE)
  for (pair in list(c("\033u", "\037"), c("\033r", "\036"), c("\033e", "\033"))) {
    text[escaped] <- gsub(pair[[1L]], pair[[2L]], text[escaped], fixed = TRUE)
  }
  text
}
