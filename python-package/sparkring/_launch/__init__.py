# SPDX-License-Identifier: Apache-2.0
"""``sparkring-run``, and what starts processes: the executable ``sparkring-launch``."""
