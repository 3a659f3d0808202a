"""What can be seen of runs from outside: spans, metrics, log lines. Nothing decides on any of it.

    driver ─ event ─▶ Watch ┊ queue ┊ own thread ─▶ a sink: spans.Spans, metrics.Metrics, logs.Lines

An event is put into a queue and forgotten: a sink that raises, hangs or is slow changes nothing of a run. When a queue
is full, events are dropped and counted. Sinks get ids, numbers and codes; content (payloads, results, prompts) only
where the setting `telemetry` is `content`.
"""
