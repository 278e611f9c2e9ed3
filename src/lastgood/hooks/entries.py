"""The entries of ours in a host's settings: what tells them from others', how they come and go."""

from __future__ import annotations

import shlex

from lastgood.errors import Invalid
from lastgood.hooks.settings_text import appended, read, without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HOOK, BLOCK = "hook", "--block"
# How a hook starts the Perl that asks first (decision 070). Without -t it heeds PERL5OPT, and ends with 2,
# which blocks an agent, where it does not find what that names. The others keep out sites and locales.
PERL = ("/usr/bin/perl", "-ftX", "-C0")
PLAIN = "PERL_BADLANG=0 PERL_SIGNALS=safe PERL_UNICODE=0"
# What it does once @at and @by say where the package is and what starts the program: it becomes the Python of
# the words behind unless it is told all there is to do.
ASKS = 'do "@at/client.pl"; exec @ARGV; exit 1'


def command_line(words: tuple[str, ...], host: str) -> str:
    """Return the line that has a shell start our hook."""
    return shlex.join((*words, HOOK, host))


def with_entries(text: str, wanted: Mapping[str, object], *, host: str, what: str) -> str:
    """Return settings with our entries, as they are where those are just what they have to be.

    Where one of before was set to block, all do. Raises `Invalid` for settings that nobody understands.
    """
    events = read(text, what=what).get("hooks", {})
    if not isinstance(events, dict) or not all(isinstance(one, list) for one in events.values()):
        raise Invalid(f"the hooks in {what} are of a form that nobody knows", hint="fix them by hand")
    held = {
        name: ours
        for name, groups in events.items()
        if (ours := [one for one in groups if _words(one, host)])
    }
    if any(BLOCK in _words(one, host) for ours in held.values() for one in ours):
        wanted = {name: _blocking(entry) for name, entry in wanted.items()}
    if held == {name: [entry] for name, entry in wanted.items()}:
        return text
    content = without_entries(text, host=host, what=what)
    for name, entry in wanted.items():
        content = appended(content, ("hooks", name), entry)
    read(content, what=what)
    return content


def without_entries(text: str, *, host: str, what: str) -> str:
    """Return settings without our entries; `Invalid` for what is no JSON object."""
    hooks = read(text, what=what).get("hooks")
    for name in hooks if isinstance(hooks, dict) else ():
        text = without(text, ("hooks", name), lambda entry: bool(_words(entry, host)))
    return text


def has_entries(settings: Mapping[str, object], *, host: str) -> bool:
    """Tell whether entries of ours are in settings."""
    return bool(words_entered(settings, host=host))


def words_entered(settings: Mapping[str, object], *, host: str) -> list[str]:
    """Return what an entry of ours in settings starts; nothing where there is none."""
    events = settings.get("hooks")
    groups = events.values() if isinstance(events, dict) else ()
    found = (_words(one, host) for each in groups if isinstance(each, list) for one in each)
    return next((words for words in found if words), [])


def plugins(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return under which names our plugin, which brings the same hooks, is switched on in settings."""
    named = settings.get("enabledPlugins")
    known = named.items() if isinstance(named, dict) else ()
    return tuple(name for name, is_on in known if name.partition("@")[0] == "lastgood" and is_on is True)


def _words(entry: object, host: str) -> list[str]:
    """Return the words that start our hook in an entry, wherever this program was; none if it is not ours."""
    handlers = entry.get("hooks", [entry]) if isinstance(entry, dict) else None
    if not isinstance(handlers, list) or len(handlers) != 1 or not isinstance(handlers[0], dict):
        return []
    line, more = handlers[0].get("command"), handlers[0].get("args")
    if not isinstance(line, str):
        return []
    try:
        words = [line, *map(str, more)] if isinstance(more, list) else shlex.split(line)
    except ValueError:  # a quote that nothing closes
        return []
    place = words.index(HOOK) if HOOK in words else 0
    is_ours = words[place + 1 : place + 2] == [host] and any("lastgood" in one for one in words[:place])
    return words if is_ours else []


def _blocking(entry: object) -> object:
    """Return an entry of ours that keeps what is risky from running where nothing could be kept."""
    if not isinstance(entry, dict):
        return entry
    if "hooks" in entry:
        return {**entry, "hooks": [_blocking(one) for one in entry["hooks"]]}
    if "args" in entry:
        return {**entry, "args": [*entry["args"], BLOCK]}
    return {**entry, "command": f"{entry['command']} {BLOCK}"}
