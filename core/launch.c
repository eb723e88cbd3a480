/* SPDX-License-Identifier: Apache-2.0
 *
 * The launcher and the guardian as one file, for the packages: R compiles it into its library, and Python, with
 * launch/main.c, as the executable sparkring-launch. It uses nothing else of the core.
 */
#include "launch/command_line.c"
#include "launch/guardian.c"
#include "launch/launcher.c"
#include "launch/line_output.c"
#include "launch/process_end.c"
#include "launch/process_start.c"
#include "launch/process_tree.c"
#include "launch/supervisor.c"
#include "launch/token_file.c"
