# SPDX-License-Identifier: Apache-2.0
"""Methods of the communicator for Python objects, and the codec of objects."""
