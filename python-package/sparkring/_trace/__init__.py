# SPDX-License-Identifier: Apache-2.0
"""Traces: the timelines of the ranks as one file, and as a picture."""
