# SPDX-License-Identifier: Apache-2.0
"""Tests of estimators, a package with one session of Spark."""
