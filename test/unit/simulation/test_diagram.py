"""Traces of simulated runs, and diagrams of them."""

from __future__ import annotations

from xml.etree import ElementTree

from box.testing.simulation.diagram import as_svg, as_text
from box.testing.simulation.trace import Message, Trace


def trace(**options: bool) -> Trace:
    trace = Trace(**options)
    trace.add(1.0, "n1", "write", "x < 3")
    trace.add_message(Message(1.0, "n1", 1.5, "n2", "INSERT"))
    trace.add(1.5, "n2", "apply", "x")
    trace.add_message(Message(1.6, "n2", None, "n1", "ack"))
    trace.add(2.0, "n1", "crash")
    return trace


def test_equal_runs_have_equal_digests_whether_messages_are_kept_or_not() -> None:
    assert trace().digest == trace(keeps_messages=True).digest
    other = trace()
    other.add(2.5, "n1", "start")
    assert other.digest != trace().digest


def test_a_text_has_a_column_for_each_process() -> None:
    lines = as_text(trace()).splitlines()
    assert lines[0].split() == ["time", "n1", "n2"]
    assert lines[2].split() == ["1.500000", "|", "*", "apply", "x"]
    assert len(as_text(trace(), 1.2, 1.8).splitlines()) == 2


def test_a_picture_is_well_formed_and_shows_every_event_and_message() -> None:
    root = ElementTree.fromstring(as_svg(trace(keeps_messages=True)))
    names = [element.attrib.get("class") for element in root.iter()]
    assert names.count("name") == names.count("lane") == 2
    assert names.count("event") == 4
    assert names.count("fault") == 2
    assert names.count("message") == names.count("message lost") == 1
