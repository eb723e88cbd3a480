# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of GPUs: how they are read, which device carries a call, what comes back."""
