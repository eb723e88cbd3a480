# SPDX-License-Identifier: Apache-2.0
"""The codec of Python objects: envelopes of pickles."""
