#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tells Spark of two GPUs that need not be there.
echo '{"name": "gpu", "addresses": ["0", "1"]}'
