"""Text without known secrets: the store keeps exact bytes, what leaves it is redacted (rule S17)."""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Span = tuple[int, int, str]


# --- Known shapes of secrets: what vendors say of their own keys, and what surroundings announce (rule S17)
# ---


class Shape:
    """A shape of secrets: the literals that one of them has in it, and the whole pattern.

    Where the pattern has a group, only that is the secret. A search looks for the literals alone, which is
    quick, and stays linear; ``before`` is what stands before them, of at most ``reach`` characters.
    """

    __slots__ = ("_before", "_reach", "literals", "name", "pattern")

    def __init__(self, name: str, literals: str, pattern: str, *, before: str = "", reach: int = 0) -> None:
        self.name: str = name
        self._reach = reach
        self.literals: tuple[str, ...] = tuple(literals.split())
        self.pattern: re.Pattern[str] = re.compile(pattern)
        self._before = re.compile(rf"{before}\Z") if before else None

    def places(self, text: str, at_hand: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield what `finditer` would, given where the literals stand: a match begins at no other place."""
        group, over = self.pattern.groups, 0
        for at in at_hand:
            start = at if self._before is None else self._start(text, at, over=over)
            if start < over:
                continue
            match = self.pattern.match(text, start)
            if match is None:
                continue
            over = match.end()
            if not group or not harmless(match[1]):
                yield match.span(group)

    def _start(self, text: str, at: int, *, over: int) -> int:
        assert self._before is not None
        before = self._before.search(text, max(over, at - self._reach), at)
        return -1 if before is None else before.start()


TOKENS = (
    Shape("aws-access-key", "AKIA ASIA ABIA ACCA", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    Shape("google-api-key", "AIza", r"\bAIza[\w-]{35}"),
    Shape("google-oauth", "ya29.", r"\bya29\.[\w-]{20,}"),
    Shape("google-oauth", "GOCSPX-", r"\bGOCSPX-[\w-]{20,}"),
    Shape("azure-storage-key", "AccountKey=", r"\bAccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    Shape("azure-signature", "sig=", r"[?&]sig=([A-Za-z0-9%+/]{30,}={0,2})", before="[?&]", reach=1),
    Shape("digitalocean-token", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b", before="do[opr]", reach=3),
    Shape("github-token", "gho_ ghp_ ghs_ ghu_ ghr_", r"\bgh[opsur]_[A-Za-z0-9]{36,}"),
    Shape("github-token", "github_pat_", r"\bgithub_pat_\w{22,}"),
    Shape(
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glcbt- glft- glsoat- glagent- glimt-",
        r"\bgl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-[\w.-]{20,}",
    ),
    Shape("bitbucket-token", "ATBB", r"\bATBB[A-Za-z0-9]{28,}"),
    Shape("atlassian-token", "ATATT3", r"\bATATT3[\w=-]{30,}"),
    Shape("anthropic-key", "sk-ant-", r"\bsk-ant-[\w-]{20,}"),
    Shape("openai-key", "sk-", r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,}"),
    Shape("openai-key", "sk-", r"\bsk-[A-Za-z0-9]{32,}"),
    Shape("openrouter-key", "sk-or-v1-", r"\bsk-or-v1-[a-f0-9]{40,}"),
    Shape("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    Shape("groq-key", "gsk_", r"\bgsk_[A-Za-z0-9]{40,}"),
    Shape("xai-key", "xai-", r"\bxai-[A-Za-z0-9]{40,}"),
    Shape("perplexity-key", "pplx-", r"\bpplx-[A-Za-z0-9]{40,}"),
    Shape("replicate-token", "r8_", r"\br8_[A-Za-z0-9]{30,}"),
    Shape("slack-token", "xox", r"\bxox[abeoprs]-[\w-]{10,}"),
    Shape("slack-token", "xapp-", r"\bxapp-\d-[\w-]{10,}"),
    Shape("slack-webhook", "hooks.slack.com/", r"\bhooks\.slack\.com/(?:services|workflows)/([\w/-]{20,})"),
    Shape(
        "discord-webhook",
        "discord.com/api/ discordapp.com/api/",
        r"\bdiscord(?:app)?\.com/api/webhooks/\d+/([\w-]{40,})",
    ),
    Shape("telegram-token", ":AA", r"\b\d{8,10}:AA[\w-]{33}\b", before=r"\b\d{8,10}", reach=10),
    Shape("stripe-key", "k_live_ k_test_", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,}", before="[rs]", reach=1),
    Shape("stripe-key", "whsec_", r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    Shape("square-token", "sq0atp- sq0csp-", r"\bsq0(?:atp|csp)-[\w-]{22,}"),
    Shape("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    Shape("sendgrid-key", "SG.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    Shape("mailgun-key", "key-", r"\bkey-[a-f0-9]{32}\b"),
    Shape("twilio-key", "SK", r"\bSK[a-f0-9]{32}\b"),
    Shape("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    Shape("npm-token", ":_authToken=", r":_authToken=([^\s\"'\\]{8,})"),
    Shape("pypi-token", "pypi-", r"\bpypi-[\w-]{50,}"),
    Shape("rubygems-key", "rubygems_", r"\brubygems_[a-f0-9]{48}"),
    Shape("crates-token", "cio", r"\bcio[A-Za-z0-9]{32}\b"),
    Shape("docker-token", "dckr_pat_ dckr_oat_", r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    Shape("databricks-token", "dapi", r"\bdapi[a-f0-9]{32}\b"),
    Shape("linear-key", "lin_api_", r"\blin_api_[A-Za-z0-9]{32,}"),
    Shape("notion-token", "ntn_", r"\bntn_[A-Za-z0-9]{40,}"),
    Shape("vault-token", "hvb. hvs.", r"\bhv[bs]\.[\w-]{20,}"),
    Shape("terraform-token", ".atlasv1.", r"\.atlasv1\.[\w-]{40,}"),
    Shape(
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}",
    ),
    Shape("age-key", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    Shape("json-web-token", "eyJ", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
)
# Looked for in whatever case.
AUTHORIZATION = Shape(
    "authorization",
    "authorization",
    r"(?i:\bauthorization\b)[\"'\\]*\s*[:=]\s*[\"'\\]*(?i:bearer|basic|token|digest)\s+([^\s\"'\\,;]{6,})",
)
CONTEXTS = (
    Shape("bearer-token", "earer", r"\b[Bb]earer\s+([A-Za-z0-9][\w.~+/-]{15,}=*)", before="[Bb]", reach=1),
    Shape(
        "connection-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s:/@\"'\\]{0,100}:([^\s/@\"'\\]{1,200})@",
        before=r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}",
        reach=31,
    ),
)

# Names that announce a secret. All that end in a key have something before it that says which.
NAMES = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credential|api[_-]?key|apikey|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|encryption[_-]?key|signing[_-]?key|auth[_-]?key|secret[_-]?key)s?"
)
STEMS = ("pass", "pwd", "secret", "token", "credential")
KEYED = r"(?:api|access|private|account|encryption|signing|auth|secret)[_-]?"
KEYED_LIMIT = 11
# A name that ends in an announcing word, a sign, and a value: in quotes, or bare up to a space.
ASSIGNED = (
    rf"(?i)(?P<name>{NAMES})(?:[_-](?:id|value|key|prod|dev|test))?"
    r"(?P<close>\\?[\"'])?\]?(?P<gap>\s{0,3})(?P<sign>:=|=>|[:=])\s{0,3}"
    r"(?:(?P<quote>\\?[\"'`])(?P<quoted>[^\"'`\n\\]{4,400})(?P=quote)|(?P<bare>[^\s\"'`,;&)}\]\\<>]{6,400}))"
)

_KEY_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# Up to its end; one that was cut off, as far as it looks like a key.
KEY_BLOCK = rf"{_KEY_BEGIN}(?:(?:(?!-----BEGIN)[\s\S]){{0,20000}}?{_KEY_END}|[A-Za-z0-9+/=\s\\:]{{0,8000}})"


# --- Where secrets stand in a text, by their known shapes (rule S17); what has no shape is not found ---

# Nothing shorter can be a secret together with what announces it.
LEAST = 8
# Up to so many literals with one first letter are looked for one by one; together they cost a look at
# each place with that letter.
_FEW = 2
# Characters whose lower case is no letter of the literals, and that match one all the same.
_ODD = re.compile("[\u0130\u0131\u017f\u212a]")
# What stands where a secret would, but is none: a reference to one, a type, a blank.
_HARMLESS = re.compile(
    r"(?i)^(?:[*x.•_-]+|\$\{?.*|<.*|\{.*|%.*|\[.*|none|null|true|false|undefined|required|optional|string|bytes?|str|int"
    r"|redacted.*|your[_-].*|.*placeholder.*|(?:os|process|env|self|settings|config|request|args|options)[.\[(].*)$"
)
_CALL = re.compile(r"^[A-Za-z_][\w.]*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|::|->")
_WORD = re.compile(r"^[A-Za-z_ -]+$")
_ASSIGNED = re.compile(ASSIGNED)
_KEY_BLOCK = re.compile(KEY_BLOCK)
_KEYED = re.compile(rf"{KEYED}\Z")


def _sieves() -> tuple[tuple[str, ...], tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]]:
    """Return the literals to be looked for one by one, and those together that begin alike."""
    literals = sorted({literal for shape in (*TOKENS, *CONTEXTS) for literal in shape.literals})
    alike: dict[str, list[str]] = {}
    for literal in literals:
        alike.setdefault(literal[0], []).append(literal)
    lone = tuple(literal for group in alike.values() if len(group) <= _FEW for literal in group)
    together = tuple(
        (re.compile(first + "(?:" + "|".join(re.escape(one[1:]) for one in group) + ")"), tuple(group))
        for first, group in alike.items()
        if len(group) > _FEW
    )
    return lone, together


_LONE, _TOGETHER = _sieves()


def spans(text: str, *, named: bool) -> list[Span]:
    """Return where secrets stand, and their shapes; what tells most comes first, some perhaps twice.

    ``named`` also looks for what is assigned to names such as ``password``.
    """
    if len(text) < LEAST:
        return []
    found: list[Span] = []
    if "PRIVATE KEY" in text:
        found += [(*match.span(), "private-key") for match in _KEY_BLOCK.finditer(text)]
    present = _present(text)
    odd = not text.isascii() and _ODD.search(text) is not None
    lower = "" if odd else text.lower()
    found += _of(TOKENS, text, present=present)
    found += [(*place, "authorization") for place in _authorized(text, lower)]
    found += _of(CONTEXTS, text, present=present)
    if named:
        assigned = _ASSIGNED.finditer(text) if odd else _assigned(text, lower)
        found += [
            (*match.span(_value_of(match)), "assigned-secret") for match in assigned if _is_secret(match)
        ]
    found.sort(key=_order)
    return found


def harmless(value: str) -> bool:
    """Tell whether what stands where a secret would is none."""
    return _HARMLESS.match(value) is not None


def _present(text: str) -> set[str]:
    """Return the literals that are in a text; hardly ever are there any."""
    present = {literal for literal in _LONE if literal in text}
    for pattern, literals in _TOGETHER:
        if pattern.search(text) is not None:
            present.update(literal for literal in literals if literal in text)
    return present


def _of(shapes: Iterable[Shape], text: str, *, present: set[str]) -> Iterator[Span]:
    for shape in shapes if present else ():
        literals = present.intersection(shape.literals)
        if literals:
            for start, end in shape.places(text, _places(literals, text)):
                yield start, end, shape.name


def _places(literals: Iterable[str], text: str) -> list[int]:
    """Return where literals stand, in order."""
    found = set()
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            found.add(at)
            at = text.find(literal, at + 1)
    return sorted(found)


def _authorized(text: str, lower: str) -> Iterator[tuple[int, int]]:
    if lower:
        yield from AUTHORIZATION.places(text, _places(AUTHORIZATION.literals, lower))
        return
    for match in AUTHORIZATION.pattern.finditer(text):
        if not harmless(match[1]):
            yield match.span(1)


def _assigned(text: str, lower: str) -> Iterator[re.Match[str]]:
    """Yield what `finditer` would: an assignment can begin only at a stem, or at what leads to a key."""
    starts = set(_places(STEMS, lower))
    for at in _places(("key",), lower):
        before = _KEYED.search(lower, max(0, at - KEYED_LIMIT), at)
        if before is not None:
            starts.add(before.start())
    over = 0
    for start in sorted(starts):
        match = _ASSIGNED.match(text, start) if start >= over else None
        if match is not None:
            over = match.end()
            yield match


def _value_of(match: re.Match[str]) -> str:
    return "quoted" if match["quoted"] is not None else "bare"


def _order(span: Span) -> tuple[int, bool, int]:
    """Put what tells most first: a vendor's shape before a name, the longer before the shorter."""
    start, end, shape = span
    return start, shape == "assigned-secret", -end


def _is_secret(match: re.Match[str]) -> bool:
    quoted = match["quoted"]
    value = quoted if quoted is not None else match["bare"]
    if harmless(value):
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


# --- Text without known secrets: the store keeps exact bytes, what leaves it is redacted (rule S17) ---

_NAMED = re.compile(rf"(?i)(?:^|[_.\s-])(?:{NAMES}|authorization)$|^[a-z]*(?:password|secret|token|apikey)$")
# The keys of JSON are few and come again and again.
_KEYS = 4096
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# What stands between texts in bytes, without and with a length that looks like a letter.
_UNTOLD = re.compile(rb"[^\t\n\r -~]+")
_TOLD = re.compile(rb"[^\t\n\r -~]+[ -~]")
_PART = 4 << 20
_OVERLAP = 1 << 17


def redact(text: str) -> str:
    """Return a text in which every known secret is replaced by ``[redacted: SHAPE]``."""
    return _replaced(text, lambda _start, _end, shape: f"[redacted: {shape}]")


def redact_each_line(text: str) -> str:
    """Return a text as `redact` does, with as many lines: each that had a part of a secret says so."""

    def replacement(start: int, end: int, shape: str) -> str:
        return "\n".join([f"[redacted: {shape}]"] * (1 + text.count("\n", start, end)))

    return _replaced(text, replacement)


def _replaced(text: str, replacement: Callable[[int, int, str], str]) -> str:
    found = spans(text, named=True)
    if not found:
        return text
    parts: list[str] = []
    position = 0
    for start, end, shape in found:
        if end <= position:
            continue
        begin = max(position, start)
        parts += [text[position:begin], replacement(begin, end, shape)]
        position = end
    return "".join([*parts, text[position:]])


def redact_value(value: object) -> object:
    """Return a JSON value in which every text is redacted, and what stands under a secret's name too."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_key(str(key)): _under(str(key), item) for key, item in value.items()}
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


def first_secret(read: Callable[[int, int], bytes], size: int) -> tuple[str, int] | None:
    """Return the first of the secrets that `secrets_in` finds, None if there is none.

    ``read`` returns so many bytes from a place on. A large file is looked at in parts that overlap,
    so that whatever is shorter than half of that is seen whole.
    """
    if size <= _PART + _OVERLAP:
        return next(iter(secrets_in(read(0, size))), None)
    encoding = _WIDE.get(read(0, 2), "latin-1")
    wide = 1 if encoding == "latin-1" else 2

    def text(at: int) -> str:
        return read(at, _PART + _OVERLAP).decode(encoding, "replace")

    places = range(0, size, _PART)
    named = not any("\0" in text(at) for at in places)
    lines = 1
    for at in places:
        part = text(at)
        # What begins before this was seen whole at the end of the part before.
        since = _OVERLAP // wide // 2 if at else 0
        found = next((span for span in spans(part, named=named) if span[0] >= since), None)
        if found is not None:
            return found[2], lines + part.count("\n", 0, found[0])
        lines += part.count("\n", 0, _PART // wide)
    return None


def secrets_in(content: bytes) -> tuple[tuple[str, int], ...]:
    """Return every secret that a file shows: its shape, and the number of the line where it begins.

    In files that are no text only tokens are looked for: a name tells nothing there.
    """
    text = content.decode("utf-16" if content[:2] in _WIDE else "latin-1", "replace")
    found = spans(text, named="\0" not in text)
    lines: list[tuple[str, int]] = []
    position, line, over = 0, 1, -1
    for start, end, shape in found:
        if end <= over:
            continue
        line += text.count("\n", position, start)
        position, over = start, end
        lines.append((shape, line))
    return tuple(lines)


def secret_under(key: str, said: str | bytes) -> tuple[str, int] | None:
    """Return the first secret of a text or bytes in a program's records, None if there is none.

    ``key`` is the name that it stands under, "" without one. In bytes a text may have its length before
    it (msgpack, pickles), which must not be taken for a letter of the text.
    """
    if isinstance(said, str):
        found = secrets_in(said.encode("utf-8", "surrogatepass"))
        if not found and key and _under(key, said) != said:
            return "assigned-secret", 1
        return found[0] if found else None
    for look in (said, _UNTOLD.sub(b" ", said), _TOLD.sub(b" ", said)):
        found = secrets_in(look) if look is said else _tokens_in(look)
        if found:
            return found[0]
    return None


def _tokens_in(content: bytes) -> tuple[tuple[str, int], ...]:
    return tuple((shape, 1) for _, _, shape in spans(content.decode("latin-1"), named=False))


_key = lru_cache(maxsize=_KEYS)(redact)


@lru_cache(maxsize=_KEYS)
def _announces(key: str) -> bool:
    return _NAMED.search(key) is not None


def _under(key: str, value: object) -> object:
    if isinstance(value, str) and len(value) >= 4 and _announces(key) and not harmless(value):
        return "[redacted: assigned-secret]"
    return redact_value(value)
