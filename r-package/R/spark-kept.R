# SPDX-License-Identifier: Apache-2.0
#
# Tables of ranks that stay in Spark (ring_apply(collect = FALSE)). A rank writes its data frame as
# strings of JSON, each with the columns of some rows as arrays. Spark reads the arrays, and makes
# rows of them, without R.
#
# Two checkpoints in the executors keep what Spark would compute again. The first keeps the results
# of the barrier stage, so that `.f` runs once. The second is behind a shuffle, because Spark runs
# every stage on top of a barrier stage as a barrier stage, too, without head() and union().
# Python's spark/_stage.py does the same.

kept_rows <- 10000L # rows of a string
kept_bytes <- 2^22 # bytes in R of the rows of a string
# The types of columns, and of list columns, that have only NA: they become any other type.
kept_void <- "void"
kept_voids <- "array<void>"

# ---- On a rank -----------------------------------------------------------------------------------

# The part of a rank's result that stays in Spark: the type of each column, and the strings.
kept_pack <- function(value) {
  if (!is.data.frame(value)) {
    stop("`.f` returned ", describe(value), ", and with `collect = FALSE` it must return a data ",
         "frame", call. = FALSE)
  }
  value <- as.data.frame(value)
  columns <- lapply(as.list(value)[!names(value) %in% "rank"], kept_flat)
  if (length(columns) == 0L) stop("`.f` returned a data frame without columns", call. = FALSE)
  columns_refuse_names(c("rank", names(columns)), "`.f`", tolower)
  types <- vapply(names(columns), function(name) kept_type(columns[[name]], name), "")
  most <- kept_most(value)
  starts <- if (nrow(value) > 0L) seq.int(1L, nrow(value), most) else integer()
  fields <- kept_fields(names(columns))
  strings <- vapply(starts, function(start) {
    rows <- seq.int(start, min(nrow(value), start + most - 1L))
    arrays <- vapply(seq_along(columns), function(i) {
      sprintf("\"%s\":%s", fields[[i]], kept_json(columns[[i]][rows], types[[i]]))
    }, "")
    enc2utf8(paste0("{", paste(arrays, collapse = ","), "}"))
  }, "")
  list(types = types, strings = strings)
}

# The number of rows of a string. Neither R nor Spark takes a string of 2 GiB.
kept_most <- function(value) {
  bytes <- as.double(utils::object.size(value)) / max(1L, nrow(value))
  as.integer(max(1, min(kept_rows, kept_bytes %/% max(1, bytes))))
}

# The names of columns in JSON and SQL: in hexadecimal digits, which need no quotes.
kept_fields <- function(names) {
  vapply(names, function(name) {
    paste0("c", paste(charToRaw(enc2utf8(name)), collapse = ""))
  }, "", USE.NAMES = FALSE)
}

# An array of strings reaches `.f` as a list of strings, which becomes a vector here.
kept_flat <- function(x) {
  x <- columns_bare(x)
  if (!is.list(x) || length(dim(x)) > 0L) return(x)
  lapply(x, function(row) {
    row <- columns_bare(row)
    strings <- is.list(row) && all(lengths(row) == 1L) && all(vapply(row, is.character, NA))
    if (strings) as.character(unlist(row)) else row
  })
}

# The type of a column in Spark.
kept_type <- function(x, name) {
  type <- if (is.list(x)) kept_list_type(x) else kept_vector_type(x)
  if (!is.na(type)) return(type)
  stop("column ", name, " is a ", class(x)[[1L]], " that no column of Spark takes: return ",
       "numbers, strings, logicals, finite dates and times, or a list of vectors of one type",
       call. = FALSE)
}

# The type of a vector; NA if Spark has none.
kept_vector_type <- function(x) {
  if (length(dim(x)) > 0L) return(NA_character_)
  if (is.object(x)) return(kept_classed_type(x))
  if (is.logical(x) && all(is.na(x))) return(kept_void)
  types <- c(double = "double", integer = "int", logical = "boolean", character = "string")
  unname(types[typeof(x)])
}

kept_classed_type <- function(x) {
  if (is.factor(x)) return("string")
  if (!inherits(x, c("Date", "POSIXct")) || any(is.infinite(unclass(x)))) return(NA_character_)
  if (inherits(x, "Date")) "date" else "timestamp"
}

# All vectors of a list column have one type. Those that are empty or NA have any type.
kept_list_type <- function(x) {
  if (length(dim(x)) > 0L) return(NA_character_)
  known <- x[!vapply(x, kept_is_void, NA)]
  if (length(known) == 0L) return(kept_voids)
  if (all(vapply(known, is.raw, NA))) return("binary")
  types <- unique(vapply(known, kept_vector_type, ""))
  if (setequal(types, c("int", "double"))) types <- "double"
  if (length(types) == 1L && !is.na(types)) sprintf("array<%s>", types) else NA_character_
}

kept_is_null <- function(x) is.null(x) || (is.logical(x) && length(x) == 1L && is.na(x))

kept_is_void <- function(x) {
  (length(x) == 0L && !is.raw(x)) || (is.logical(x) && !is.object(x) && all(is.na(x)))
}

# The values of a column as an array of JSON.
kept_json <- function(x, type) {
  values <- if (is.list(x)) vapply(x, kept_json_row, "", type) else kept_json_values(x)
  paste0("[", paste(values, collapse = ","), "]")
}

# A row of a list column.
kept_json_row <- function(x, type) {
  if (kept_is_null(x)) return("null")
  if (length(x) == 0L && !is.raw(x)) return("[]")
  if (type == "binary") return(paste0("\"", paste(x, collapse = ""), "\""))
  kept_json(x, type)
}

# Dates are days, and times are microseconds.
kept_json_values <- function(x) {
  values <- if (inherits(x, "POSIXct")) {
    sprintf("%.0f", as.double(x) * 1e6)
  } else if (inherits(x, "Date")) {
    sprintf("%.0f", floor(as.double(x)))
  } else if (is.factor(x) || is.character(x)) {
    kept_json_strings(as.character(x))
  } else if (is.logical(x)) {
    ifelse(x, "true", "false")
  } else if (is.integer(x)) {
    as.character(x)
  } else {
    kept_json_numbers(x)
  }
  values[is.na(x) & !(is.double(x) & is.nan(x) & !is.object(x))] <- "null"
  values
}

# Seventeen digits are each double exactly. JSON has no NaN, which Spark reads as a string.
kept_json_numbers <- function(x) {
  numbers <- sprintf("%.17g", x)
  odd <- is.nan(x) | is.infinite(x)
  numbers[odd] <- ifelse(is.nan(x[odd]), "\"NaN\"",
                         ifelse(x[odd] > 0, "\"Infinity\"", "\"-Infinity\""))
  numbers
}

kept_json_strings <- function(x) {
  x <- gsub("\\", "\\\\", enc2utf8(x), fixed = TRUE)
  x <- gsub("\"", "\\\"", x, fixed = TRUE)
  for (i in grep("[\001-\037]", x)) x[[i]] <- kept_json_escape(x[[i]])
  sprintf("\"%s\"", x)
}

kept_json_escape <- function(string) {
  codes <- utf8ToInt(string)
  parts <- ifelse(codes < 32L, sprintf("\\u%04x", codes), intToUtf8(codes, multiple = TRUE))
  paste(parts, collapse = "")
}

# ---- On the driver ------------------------------------------------------------------------------

# The types of the columns of the table, by name. The ranks must return the same columns, in any
# order.
kept_agree <- function(rank_results, columns = NULL) {
  types <- lapply(rank_results, function(rank_result) rank_result$table$types)
  names <- if (is.null(columns)) names(types[[1L]]) else setdiff(columns_names(columns), "rank")
  for (rank in seq_along(types) - 1L) {
    own <- names(types[[rank + 1L]])
    odd <- c(setdiff(names, own), if (is.null(columns)) setdiff(own, names))
    if (length(odd) > 0L) columns_refuse(rank, columns, odd[[1L]])
  }
  agreed <- vapply(names, kept_common_type, "", types)
  kept_check_types(agreed, columns)
  agreed
}

# The type of a column that takes the types of all ranks.
kept_common_type <- function(name, types) {
  found <- vapply(types, function(own) own[[name]], "", USE.NAMES = FALSE)
  widest <- 1L
  for (i in seq_along(found)) {
    if (kept_fits(found[[i]], found[[widest]])) next
    if (!kept_fits(found[[widest]], found[[i]])) {
      check_stop("rank ", i - 1L, " returned column ", name, " as ", found[[i]], ", and rank ",
                 widest - 1L, " as ", found[[widest]], ": convert it in `.f`", call = NULL)
    }
    widest <- i
  }
  switch(found[[widest]], void = "boolean", `array<void>` = "array<double>", found[[widest]])
}

# Whether a column of a type takes the values of another type.
kept_fits <- function(type, into) {
  type %in% c(into, kept_void) || identical(c(type, into), c("int", "double")) ||
    identical(c(type, into), c("array<int>", "array<double>")) ||
    (type == kept_voids && grepl("^(array|binary)", into))
}

# The check of `columns` with types.
kept_check_types <- function(types, columns) {
  if (is.null(names(columns))) return()
  spark <- list(
    double = "double", numeric = c("double", "int"), integer = "int", character = "string",
    logical = "boolean", date = "date", timestamp = "timestamp", factor = "string"
  )
  for (name in setdiff(names(columns), "rank")) {
    type <- columns[[name]]
    fits <- if (type == "list") grepl("^array|binary", types[[name]]) else
      types[[name]] %in% spark[[type]]
    if (!fits) columns_refuse_type(types[[name]], name, type)
  }
}

# The SQL that makes rows of the strings in `view`, which has the columns rank, piece and text. The
# option maxStringLen lifts Spark's limit of 20 million characters, as of a large raw vector.
kept_sql <- function(view, agreed, keys) {
  fields <- kept_fields(names(agreed))
  json <- toString(sprintf("%s array<%s>", fields, kept_json_types(agreed)))
  columns <- paste(kept_from_json(paste0("r.", fields), agreed), "AS", batches_name(names(agreed)))
  paste0(
    "SELECT ", toString(c("rank", columns)),
    " FROM (SELECT rank, explode(arrays_zip(", toString(paste0("t.", fields)), ")) AS r",
    " FROM (SELECT rank, from_json(text, '", json, "',",
    " map('mode', 'FAILFAST', 'maxStringLen', '2147483647')) AS t",
    " FROM (SELECT * FROM (SELECT /*+ REPARTITION(", length(keys), ", k) */ * FROM (",
    "SELECT element_at(", batches_array(keys), ", 1 + rank) AS k, rank, piece, text FROM ", view,
    ")) SORT BY rank, piece)))"
  )
}

kept_json_types <- function(types) {
  types <- sub("date", "int", types, fixed = TRUE)
  types <- sub("timestamp", "bigint", types, fixed = TRUE)
  sub("binary", "string", types, fixed = TRUE)
}

kept_from_json <- function(names, types) {
  made <- c(
    date = "date_from_unix_date(%s)", timestamp = "timestamp_micros(%s)", binary = "unhex(%s)",
    `array<date>` = "transform(%s, x -> date_from_unix_date(x))",
    `array<timestamp>` = "transform(%s, x -> timestamp_micros(x))"
  )[types]
  made[is.na(made)] <- "%s"
  vapply(seq_along(names), function(i) sprintf(made[[i]], names[[i]]), "")
}
