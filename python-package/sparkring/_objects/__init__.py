# SPDX-License-Identifier: Apache-2.0
"""Methods of the communicator that move Python objects, and how objects travel as bytes."""
