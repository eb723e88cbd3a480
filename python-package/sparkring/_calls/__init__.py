# SPDX-License-Identifier: Apache-2.0
"""Methods of the communicator, one noun a file: bases of the class in `sparkring._communicator`."""
