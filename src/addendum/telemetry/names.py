"""Names of attributes: those of OpenTelemetry's GenAI conventions, and our own under `addendum.`.

The conventions are experimental, and their Python constants are in a package that isn't needed otherwise.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "addendum"

OPERATION: Final = "gen_ai.operation.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
ERROR: Final = "error.type"

INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
PLAN: Final = "plan"

RUN: Final = "addendum.run"
REVISION: Final = "addendum.revision"
IDENTITY: Final = "addendum.identity"
CAPABILITY: Final = "addendum.capability"
DRIVE: Final = "addendum.drive"
HOW: Final = "addendum.how"
STATUS: Final = "addendum.status"
STOP: Final = "addendum.stop"
ATTEMPT: Final = "addendum.attempt"
TRY: Final = "addendum.try"
SEQ: Final = "addendum.seq"
BRANCH: Final = "addendum.branch"
COST: Final = "addendum.cost_nano_usd"
RESERVED: Final = "addendum.reserved_nano_usd"
TOKENS: Final = "addendum.tokens"
DISPATCHED: Final = "addendum.dispatched"
REPLAYED: Final = "addendum.replayed"
FRONTIER: Final = "addendum.frontier"
PURPOSE: Final = "addendum.purpose"
VERDICT: Final = "addendum.verdict"
