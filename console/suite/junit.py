"""A report of a run as JUnit XML, which build servers display.

```
testsuites
  testsuite name="replication" tests= failures= skipped= time=
    testcase classname="replication" name="qsync.test.lua" time=
      failure message=    text
      skipped message=
      system-out          notes: retries, new results
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from console.suite.case import TestCase
from console.suite.report import Report, RunOutcome, TestPart

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, results: Iterable[tuple[TestCase, Report]]) -> None:
    """Write the report. Raises OSError."""
    root = Element("testsuites")
    suites: dict[str, Element] = {}
    for case, report in results:
        name = case.suite.name
        suite = suites.get(name)
        if suite is None:
            suite = suites[name] = SubElement(root, "testsuite", name=name)
        _add(suite, case, report)
    for suite in suites.values():
        _count(suite)
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _add(suite: Element, case: TestCase, report: Report) -> None:
    name = case.name.removeprefix(f"{case.suite.name}/")
    if not report.parts:
        _add_case(suite, case.suite.name, TestPart(name, report.outcome, report.text), report.seconds, report.note)
        return
    for part in report.parts:
        _add_case(suite, f"{case.suite.name}.{name}", part, 0.0, "")
    # A failure that belongs to no single test, such as a crash after the last one.
    if report.outcome is RunOutcome.FAILED and all(part.outcome is not RunOutcome.FAILED for part in report.parts):
        _add_case(suite, case.suite.name, TestPart(name, report.outcome, report.text), report.seconds, report.note)


def _add_case(suite: Element, class_name: str, part: TestPart, seconds: float, note: str) -> None:
    element = SubElement(suite, "testcase", classname=class_name, name=_clean(part.name), time=f"{seconds:.3f}")
    text = _clean(part.text)
    if part.outcome is RunOutcome.FAILED:
        SubElement(element, "failure", message=text.partition("\n")[0]).text = text
    elif part.outcome is RunOutcome.SKIPPED:
        SubElement(element, "skipped", message=text)
    elif text:
        note = f"{note}, {text}" if note else text
    if note:
        SubElement(element, "system-out").text = _clean(note)


def _count(suite: Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")


def _clean(text: str) -> str:
    """Remove characters that XML cannot represent, such as escape sequences and invalid UTF-8."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
