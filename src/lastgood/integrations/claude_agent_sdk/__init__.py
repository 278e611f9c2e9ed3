"""The Claude Agent SDK: sessions kept in lastgood's store, and the files of the same moments with them.

>>> from claude_agent_sdk import ClaudeAgentOptions
>>> from lastgood.integrations.claude_agent_sdk import LastgoodSessionStore
>>> with lastgood.open(project, store=store) as workspace:
...     sessions = LastgoodSessionStore(workspace)
...     options = sessions.attached(ClaudeAgentOptions(cwd=workspace.path))

Needs the package ``claude-agent-sdk`` (``lastgood[claude-agent-sdk]``).
"""

from lastgood.integrations import missing

try:
    from lastgood.integrations.claude_agent_sdk.store import LastgoodSessionStore, Rewound
except ModuleNotFoundError as _error:
    raise missing(_error, extra="claude-agent-sdk") from _error

__all__ = ["LastgoodSessionStore", "Rewound"]
