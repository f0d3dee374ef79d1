"""A topology from the steps of a case, with nothing but logstate's public DSL."""

from __future__ import annotations

from logstate.topology import Topology

from .aggregate_steps import AGGREGATE_STEPS
from .flows import Flows, Step, StepBuilder
from .join_steps import JOIN_STEPS
from .processor_steps import PROCESSOR_STEPS
from .settings import builder_of, optimization_of
from .stream_steps import STREAM_STEPS
from .vectors import Case

STEPS: dict[str, StepBuilder] = {
    **STREAM_STEPS,
    **AGGREGATE_STEPS,
    **JOIN_STEPS,
    **PROCESSOR_STEPS,
}


def build_topology(case: Case) -> Topology:
    """Build the steps in order. A step that is not known is an error."""
    flows = Flows(builder_of(case.config))
    for step in case.steps:
        if step["op"] not in STEPS:
            raise ValueError(f"there is no step {step['op']!r}; known: {', '.join(STEPS)}")
        flow = STEPS[step["op"]](_as_given(step), flows)
        if flow is not None:
            flows.named[step["name"]] = flow
    return flows.builder.build(optimization_of(case.config))


def _as_given(step: Step) -> Step:
    """The step without a name where the user gave its operator none."""
    return {**step, "name": None, "flow": step["name"]} if step.get("is_unnamed") else step
