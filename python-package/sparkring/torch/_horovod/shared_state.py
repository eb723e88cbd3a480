# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""An optimizer that shares its groups and its state with the optimizer that it was made of.

PyTorch's ``load_state_dict`` gives an optimizer new groups. A scheduler that was made on the first
optimizer would go on with the old ones. So groups and state are filled in place here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def load_in_place(
    optimizer: torch.optim.Optimizer, load: Callable[[Any], Any], state_dict: dict[str, Any]
) -> None:
    """Load a state by ``load``, and keep the groups and the state as objects."""
    groups, state = optimizer.param_groups, optimizer.state
    load(state_dict)
    for group, loaded in zip(groups, optimizer.param_groups):
        options = dict(loaded)
        group.clear()
        group.update(options)
    entries = dict(optimizer.state)
    state.clear()
    state.update(entries)
    optimizer.param_groups, optimizer.state = groups, state


class SharedState(torch.optim.Optimizer):
    """The methods that both kinds of distributed optimizers have."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state, also for schedulers that were made on the first optimizer."""
        load_in_place(self, super().load_state_dict, state_dict)


def shared_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the attributes of an optimizer without the methods that a scheduler has wrapped."""
    return {name: value for name, value in vars(optimizer).items() if name != "step"}
