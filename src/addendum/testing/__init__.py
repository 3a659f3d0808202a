"""Doubles of the ports, for tests of what uses Addendum: each passes its port's suite in tests/conformance.

| double | port |
| --- | --- |
| `MemoryStore` | `Store`, without a disk |
| `ManualClock` | `Clock`, which moves when it is told to |
| `ScriptedProvider` | `Provider`, which answers as it is told |
| `ScriptedModel` | `Model`, which answers as it is told |
| `DemoProvider`, with `DEMO_CATALOG` | `Provider` of the demo capabilities |
| `openai_server.OpenAIServer` | none: a local server that speaks the OpenAI HTTP API |
"""

from __future__ import annotations

from addendum.testing.clock import ManualClock
from addendum.testing.demo import CATALOG as DEMO_CATALOG
from addendum.testing.demo import DemoProvider, Fault
from addendum.testing.memory_store import MemoryStore
from addendum.testing.scripted import ScriptedProvider
from addendum.testing.scripted_model import ScriptedModel

__all__ = ["DEMO_CATALOG", "DemoProvider", "Fault", "ManualClock", "MemoryStore", "ScriptedModel", "ScriptedProvider"]
