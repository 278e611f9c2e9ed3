"""Known shapes of secrets, and text without them (rule S17).

The store keeps exact bytes; what leaves it goes through `redact`. A shape is what the vendor says of
its own keys, or a name that announces a secret (``password = …``). What has no shape is not found.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Shape and pattern; where the pattern has a group, only that is the secret. Each begins with literal
# text or an anchor, so that a search stays linear.
_TOKENS: tuple[tuple[str, str], ...] = (
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("google-api-key", r"\bAIza[\w-]{35}"),
    ("google-oauth", r"\bya29\.[\w-]{20,}"),
    ("google-oauth", r"\bGOCSPX-[\w-]{20,}"),
    ("azure-storage-key", r"\bAccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-signature", r"[?&]sig=([A-Za-z0-9%+/]{30,}={0,2})"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    ("github-token", r"\bgh[opsur]_[A-Za-z0-9]{36,}"),
    ("github-token", r"\bgithub_pat_\w{22,}"),
    ("gitlab-token", r"\bgl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-[\w.-]{20,}"),
    ("bitbucket-token", r"\bATBB[A-Za-z0-9]{28,}"),
    ("atlassian-token", r"\bATATT3[\w=-]{30,}"),
    ("anthropic-key", r"\bsk-ant-[\w-]{20,}"),
    ("openai-key", r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,}"),
    ("openai-key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("openrouter-key", r"\bsk-or-v1-[a-f0-9]{40,}"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{40,}"),
    ("xai-key", r"\bxai-[A-Za-z0-9]{40,}"),
    ("perplexity-key", r"\bpplx-[A-Za-z0-9]{40,}"),
    ("replicate-token", r"\br8_[A-Za-z0-9]{30,}"),
    ("slack-token", r"\bxox[abeoprs]-[\w-]{10,}"),
    ("slack-token", r"\bxapp-\d-[\w-]{10,}"),
    ("slack-webhook", r"\bhooks\.slack\.com/(?:services|workflows)/([\w/-]{20,})"),
    ("discord-webhook", r"\bdiscord(?:app)?\.com/api/webhooks/\d+/([\w-]{40,})"),
    ("telegram-token", r"\b\d{8,10}:AA[\w-]{33}\b"),
    ("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    ("stripe-key", r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    ("square-token", r"\bsq0(?:atp|csp)-[\w-]{22,}"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("sendgrid-key", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("mailgun-key", r"\bkey-[a-f0-9]{32}\b"),
    ("twilio-key", r"\bSK[a-f0-9]{32}\b"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("npm-token", r":_authToken=([^\s\"'\\]{8,})"),
    ("pypi-token", r"\bpypi-[\w-]{50,}"),
    ("rubygems-key", r"\brubygems_[a-f0-9]{48}"),
    ("crates-token", r"\bcio[A-Za-z0-9]{32}\b"),
    ("docker-token", r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}\b"),
    ("linear-key", r"\blin_api_[A-Za-z0-9]{32,}"),
    ("notion-token", r"\bntn_[A-Za-z0-9]{40,}"),
    ("vault-token", r"\bhv[bs]\.[\w-]{20,}"),
    ("terraform-token", r"\.atlasv1\.[\w-]{40,}"),
    ("doppler-token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}"),
    ("age-key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("json-web-token", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
)
_CONTEXTS: tuple[tuple[str, str], ...] = (
    (
        "authorization",
        r"(?i:\bauthorization\b)[\"'\\]*\s*[:=]\s*[\"'\\]*(?i:bearer|basic|token|digest)\s+([^\s\"'\\,;]{6,})",
    ),
    ("bearer-token", r"\b[Bb]earer\s+([A-Za-z0-9][\w.~+/-]{15,}=*)"),
    ("connection-password", r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s:/@\"'\\]{0,100}:([^\s/@\"'\\]{1,200})@"),
)
_NAMES = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credential|api[_-]?key|apikey|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|encryption[_-]?key|signing[_-]?key|auth[_-]?key|secret[_-]?key)s?"
)
# A name that ends in an announcing word, a sign, and a value: in quotes, or bare up to a space.
_ASSIGNED = re.compile(
    rf"(?i)(?P<name>{_NAMES})(?:[_-](?:id|value|key|prod|dev|test))?"
    r"(?P<close>\\?[\"'])?\]?(?P<gap>\s{0,3})(?P<sign>:=|=>|[:=])\s{0,3}"
    r"(?:(?P<quote>\\?[\"'`])(?P<quoted>[^\"'`\n\\]{4,400})(?P=quote)|(?P<bare>[^\s\"'`,;&)}\]\\<>]{6,400}))"
)
# What stands where a secret would, but is none: a reference to one, a type, a blank.
_HARMLESS = re.compile(
    r"(?i)^(?:[*x.•_-]+|\$\{?.*|<.*|\{.*|%.*|\[.*|none|null|true|false|undefined|required|optional|string|bytes?|str|int"
    r"|redacted.*|your[_-].*|.*placeholder.*|(?:os|process|env|self|settings|config|request|args|options)[.\[(].*)$"
)
_CALL = re.compile(r"^[A-Za-z_][\w.]*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|::|->")
_WORD = re.compile(r"^[A-Za-z_ -]+$")
_KEY_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# Up to its end; one that was cut off, as far as it looks like a key.
_KEY_BLOCK = re.compile(
    rf"{_KEY_BEGIN}(?:(?:(?!-----BEGIN)[\s\S]){{0,20000}}?{_KEY_END}|[A-Za-z0-9+/=\s\\:]{{0,8000}})"
)
_NAMED = re.compile(rf"(?i)(?:^|[_.\s-])(?:{_NAMES}|authorization)$|^[a-z]*(?:password|secret|token|apikey)$")
_BY_TOKEN = re.compile("|".join(f"(?:{pattern})" for _, pattern in _TOKENS))
_SHAPES = tuple((shape, re.compile(pattern)) for shape, pattern in (*_TOKENS, *_CONTEXTS))


def redact(text: str) -> str:
    """Return a text in which every known secret is replaced by ``[redacted: SHAPE]``."""
    found = sorted(_spans(text, named=True), key=_order)
    if not found:
        return text
    parts: list[str] = []
    position = 0
    for start, end, shape in found:
        if end <= position:
            continue
        parts += [text[position : max(position, start)], f"[redacted: {shape}]"]
        position = end
    return "".join([*parts, text[position:]])


def redact_value(value: object) -> object:
    """Return a JSON value in which every text is redacted, and what stands under a secret's name too."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(str(key)): _under(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(item) for item in value]
    return value


def redact_lines(content: bytes) -> bytes:
    """Return a transcript without secrets: lines that are JSON stay JSON, those without any as they were."""
    import json

    done: list[bytes] = []
    plain: list[bytes] = []  # lines that are no JSON, together: a key block has several
    for line in content.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            plain.append(line)
            continue
        if plain:
            done.append(_redact_bytes(b"\n".join(plain)))
            plain = []
        shown = redact_value(value)
        done.append(line if shown == value else json.dumps(shown, separators=(",", ":")).encode("ascii"))
    if plain:
        done.append(_redact_bytes(b"\n".join(plain)))
    return b"\n".join(done)


def _redact_bytes(content: bytes) -> bytes:
    return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def secrets_in(content: bytes) -> tuple[tuple[str, int], ...]:
    """Return every secret that a file shows: its shape, and the number of the line where it begins.

    In files that are no text only tokens are looked for: a name tells nothing there.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", "replace")
    else:
        text = content.decode("latin-1")
    found = sorted(_spans(text, named="\0" not in text), key=_order)
    lines: list[tuple[str, int]] = []
    position, line, over = 0, 1, -1
    for start, end, shape in found:
        if end <= over:
            continue
        line += text.count("\n", position, start)
        position, over = start, end
        lines.append((shape, line))
    return tuple(lines)


def _spans(text: str, *, named: bool) -> Iterator[tuple[int, int, str]]:
    """Yield where secrets stand, in any order, some perhaps twice."""
    if "PRIVATE KEY" in text:
        yield from ((match.start(), match.end(), "private-key") for match in _KEY_BLOCK.finditer(text))
    some = _BY_TOKEN.search(text) is not None
    for shape, pattern in _SHAPES if some else _SHAPES[len(_TOKENS) :]:
        for match in pattern.finditer(text):
            group = 1 if pattern.groups else 0
            if not group or not _HARMLESS.match(match[1]):
                yield match.start(group), match.end(group), shape
    if named:
        for match in _ASSIGNED.finditer(text):
            place = "quoted" if match["quoted"] is not None else "bare"
            if _is_secret(match):
                yield match.start(place), match.end(place), "assigned-secret"


def _order(span: tuple[int, int, str]) -> tuple[int, bool, int]:
    """Put what tells most first: a vendor's shape before a name, the longer before the shorter."""
    start, end, shape = span
    return start, shape == "assigned-secret", -end


def _is_secret(match: re.Match[str]) -> bool:
    quoted = match["quoted"]
    value = quoted if quoted is not None else match["bare"]
    if _HARMLESS.match(value):
        return False
    if value.isdigit() and "token" in match["name"].lower():
        return False  # a count of tokens, of which transcripts are full
    if quoted is not None:
        return True
    if value.lower() == match["name"].lower():
        return False  # code that hands a name on
    if _CALL.search(value):
        return False
    # Code assigns names to names (`token = token_of`); a bare word counts where settings are written.
    tight = match["sign"] == "=" and not match["gap"]
    return tight or not _WORD.match(value)


def _under(key: str, value: object) -> object:
    if isinstance(value, str) and len(value) >= 4 and _NAMED.search(key) and not _HARMLESS.match(value):
        return "[redacted: assigned-secret]"
    return redact_value(value)
