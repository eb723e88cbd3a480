# SPDX-License-Identifier: Apache-2.0
#
# Marks comments of a header for Doxygen, which reads no ordinary ones. A comment before a declaration
# documents the declaration; one after a member documents the member. The first comment is that of the file.
# A comment that a blank line follows is about the section, and gets a paragraph of the page. A comment before members
# that have comments of their own is about these members, and not on the page.

function flush_block(marked) {
  if (block == "") return
  if (marked) sub(/\/\* /, "/** ", block)
  printf "%s", block
  block = ""
}
NR == 1 { sub(/\/\*.*/, "/** @file"); print; next }
block != "" && !open { flush_block($0 != "" && !(block ~ /^ / && /;.*\/\*/)) }
open { block = block $0 "\n"; if (/\*\//) open = 0; next }
/^\/\* ----/ { print; next }
/^ *\/\* / { block = $0 "\n"; open = !/\*\//; next }
{ gsub(/\/\* /, "/**< "); print }
