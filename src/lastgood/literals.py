"""The words that arguments and fields may be, as types; no command loads them."""

from __future__ import annotations

from typing import Literal

# --- Of reports ---

DiffStatus = Literal["added", "modified", "deleted", "renamed", "mode", "kind"]
State = Literal["idle", "active", "incomplete", "interrupted"]
FindingState = Literal["good", "note", "bad"]

# --- Of what was done ---

Direction = Literal["undo", "redo"]
Period = Literal["day", "week", "month", "all"]

# --- Of packs: all are joined, or those that it is time for after saves, or when nobody works ---

Consolidation = Literal["all", "due", "idle"]

# --- Of paths ---

EntryKind = Literal["file", "link", "directory"]
GapReason = Literal["too-large", "unreadable", "unsupported", "unstable", "budget", "withheld", "purged"]
NotHeldReason = Literal["ignored", "repository", GapReason]
ChangeStatus = Literal["added", "modified", "deleted", "mode", "kind"]

# --- Of git: why HEAD cannot be put back on its branch ---

LeftBranch = Literal["moved", "gone", "taken"]

# --- Of checkpoints ---

Moment = Literal["before", "after"]
Kind = Literal[
    "session-start",
    "turn",
    "tool",
    "task",
    "sprint",
    "feature",
    "iteration",
    "auto",
    "manual",
    "risky",
    "compaction",
    "guard",
    "error",
    "interrupt",
    "session-end",
]
ActorType = Literal["agent", "tool", "person", "lastgood", "unknown"]
GitOperation = Literal["merge", "rebase", "cherry-pick", "bisect", "revert"]
# What the bytes are: messages given by the caller, one JSON object a line; a host's transcript
# in its own form; or lines of JSON of nobody known.
ConversationForm = Literal["messages", "claude-code", "codex", "gemini-cli", "opencode", "lines"]
Ending = Literal["exited", "killed", "stopped", "interrupted", "unstarted"]

# Why nobody knows whose a change is.
Doubt = Literal[
    "beside",  # another session was at work
    "between-calls",  # between two calls of tools, by whoever was at the files then
    "cut-short",  # its turn was not seen to end
    "during-turn",  # a person saved in the middle of a turn
    "gone",  # checkpoints between were let go
    "host-died",
    "no-session",  # no session of an agent was open that tells when it is at work
    "not-said",  # a program saved without saying for whom
    "outside-turn",  # a session's host or agent saved while no turn of it was under way
    "partial",  # a look between was broken off by its time budget
    "restored",  # a restore, undo or redo changed the path meanwhile
    "unnamed",  # a tool's call that names its files changed others
    "unseen",  # ignored, or in a gap, before
]

# --- Of runs ---

CommandState = Literal["done", "failed", "running", "interrupted", "taken-back", "given-up"]
RunEventType = Literal[
    "started",  # a session began, or goes on (``continued``)
    "task-started",  # an attempt of a task begins; ``checkpoint`` is where it can be taken back to
    "output",  # the task wrote a line
    "checkpoint",  # a checkpoint was made: at the start, by interval, after a task, …
    "check-started",  # the task's check runs
    "attempt-failed",  # ``reason`` says why; it may be tried again
    "rolled-back",  # files were taken back; ``paths`` names them, ``checkpoint`` holds what was there
    "task-done",
    "task-failed",  # no attempt is left
    "task-skipped",  # what it needs is not done, or it was done before
    "sprint-done",
    "noticed",  # something that a person should know: ``reason``
    "interrupted",
    "finished",  # the last one
]
RunState = Literal["done", "failed", "interrupted"]
Choice = Literal["continue", "fresh", "review"]
Settled = Literal["finished-restore", "rolled-back-restore"]
Recovered = Literal["continue", "rolled-back", "fresh", "review", "finished-restore", "rolled-back-restore"]
ArtifactState = Literal["present", "reloaded", "missing"]
OnFailure = Literal["rollback", "keep", "stop"]

# --- Of operations ---

OperationType = Literal["restore", "delete", "prune", "undo", "redo"]
Action = Literal["write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip"]
Result = Literal["restored", "removed", "kept", "skipped", "failed", "planned"]
Favour = Literal["ours", "theirs", "markers"]
RewindUnit = Literal["turn", "run", "state"]
PartScope = Literal["conversation", "progress", "git"]
EventType = Literal[
    "saved",
    "restored",
    "undone",
    "deleted",
    "pruned",
    "session_started",
    "session_ended",
    "task_changed",
    "failed",
]

# --- Of sessions ---

TaskState = Literal["pending", "running", "done", "failed", "skipped"]
OwnerState = Literal["alive", "dead", "unknown"]
SessionState = Literal["active", "ended", "incomplete"]
EffectState = Literal["running", "done", "failed", "unknown"]

# --- Of settings ---

OnDemand = Literal["hooks", "always", "never"]
Durability = Literal["full", "fast"]
Scope = Literal["files", "conversation", "progress", "git"]

# --- Of an open workspace ---

Maintenance = Literal["background", "off"]
