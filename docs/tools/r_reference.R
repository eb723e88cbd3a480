# SPDX-License-Identifier: Apache-2.0
#
# Writes each page of r-package/man as HTML into a folder, the first argument. r_reference.py makes pages of
# the site of them.

folder <- commandArgs(TRUE)
pages <- dir("r-package/man", "[.]Rd$", full.names = TRUE)

# The page of each topic, for links.
aliases <- lapply(pages, function(page) {
  lines <- grep("^\\\\alias[{]", readLines(page), value = TRUE)
  gsub("\\", "", sub("^.alias[{](.*)[}]$", "\\1", lines), fixed = TRUE)
})
files <- sub("[.]Rd$", ".html", basename(pages))
links <- setNames(rep(files, lengths(aliases)), unlist(aliases))

for (page in pages) {
  tools::Rd2HTML(
    page, file.path(folder, sub("[.]Rd$", ".html", basename(page))), package = "sparkring",
    Links = links, Links2 = links, dynamic = FALSE, stages = c("build", "install", "render")
  )
}
