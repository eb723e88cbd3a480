# SPDX-License-Identifier: Apache-2.0
"""``sparkring-run``: the launcher, its supervisor, and their common modules."""
