"""Known shapes of secrets: what vendors say of their own keys, and what surroundings announce (rule S17)."""

from __future__ import annotations

# Shape, the literals that one of them has in it, what stands before those (a pattern, empty for nothing,
# and how many characters at most), and the whole pattern; where that has a group, only it is the secret.
# A search looks for the literals alone, which is quick, and stays linear.
Row = tuple[str, str, str, int, str]

TOKENS: tuple[Row, ...] = (
    ("aws-access-key", "AKIA ASIA ABIA ACCA", "", 0, r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("google-api-key", "AIza", "", 0, r"\bAIza[\w-]{35}"),
    ("google-oauth", "ya29.", "", 0, r"\bya29\.[\w-]{20,}"),
    ("google-oauth", "GOCSPX-", "", 0, r"\bGOCSPX-[\w-]{20,}"),
    ("azure-storage-key", "AccountKey=", "", 0, r"\bAccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-signature", "sig=", "[?&]", 1, r"[?&]sig=([A-Za-z0-9%+/]{30,}={0,2})"),
    ("digitalocean-token", "_v1_", "do[opr]", 3, r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    ("github-token", "gho_ ghp_ ghs_ ghu_ ghr_", "", 0, r"\bgh[opsur]_[A-Za-z0-9]{36,}"),
    ("github-token", "github_pat_", "", 0, r"\bgithub_pat_\w{22,}"),
    (
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glcbt- glft- glsoat- glagent- glimt-",
        "",
        0,
        r"\bgl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-[\w.-]{20,}",
    ),
    ("bitbucket-token", "ATBB", "", 0, r"\bATBB[A-Za-z0-9]{28,}"),
    ("atlassian-token", "ATATT3", "", 0, r"\bATATT3[\w=-]{30,}"),
    ("anthropic-key", "sk-ant-", "", 0, r"\bsk-ant-[\w-]{20,}"),
    ("openai-key", "sk-", "", 0, r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,}"),
    ("openai-key", "sk-", "", 0, r"\bsk-[A-Za-z0-9]{32,}"),
    ("openrouter-key", "sk-or-v1-", "", 0, r"\bsk-or-v1-[a-f0-9]{40,}"),
    ("huggingface-token", "hf_", "", 0, r"\bhf_[A-Za-z0-9]{30,}"),
    ("groq-key", "gsk_", "", 0, r"\bgsk_[A-Za-z0-9]{40,}"),
    ("xai-key", "xai-", "", 0, r"\bxai-[A-Za-z0-9]{40,}"),
    ("perplexity-key", "pplx-", "", 0, r"\bpplx-[A-Za-z0-9]{40,}"),
    ("replicate-token", "r8_", "", 0, r"\br8_[A-Za-z0-9]{30,}"),
    ("slack-token", "xox", "", 0, r"\bxox[abeoprs]-[\w-]{10,}"),
    ("slack-token", "xapp-", "", 0, r"\bxapp-\d-[\w-]{10,}"),
    ("slack-webhook", "hooks.slack.com/", "", 0, r"\bhooks\.slack\.com/(?:services|workflows)/([\w/-]{20,})"),
    (
        "discord-webhook",
        "discord.com/api/ discordapp.com/api/",
        "",
        0,
        r"\bdiscord(?:app)?\.com/api/webhooks/\d+/([\w-]{40,})",
    ),
    ("telegram-token", ":AA", r"\b\d{8,10}", 10, r"\b\d{8,10}:AA[\w-]{33}\b"),
    ("stripe-key", "k_live_ k_test_", "[rs]", 1, r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    ("stripe-key", "whsec_", "", 0, r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    ("square-token", "sq0atp- sq0csp-", "", 0, r"\bsq0(?:atp|csp)-[\w-]{22,}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", "", 0, r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("sendgrid-key", "SG.", "", 0, r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("mailgun-key", "key-", "", 0, r"\bkey-[a-f0-9]{32}\b"),
    ("twilio-key", "SK", "", 0, r"\bSK[a-f0-9]{32}\b"),
    ("npm-token", "npm_", "", 0, r"\bnpm_[A-Za-z0-9]{36}"),
    ("npm-token", ":_authToken=", "", 0, r":_authToken=([^\s\"'\\]{8,})"),
    ("pypi-token", "pypi-", "", 0, r"\bpypi-[\w-]{50,}"),
    ("rubygems-key", "rubygems_", "", 0, r"\brubygems_[a-f0-9]{48}"),
    ("crates-token", "cio", "", 0, r"\bcio[A-Za-z0-9]{32}\b"),
    ("docker-token", "dckr_pat_ dckr_oat_", "", 0, r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    ("databricks-token", "dapi", "", 0, r"\bdapi[a-f0-9]{32}\b"),
    ("linear-key", "lin_api_", "", 0, r"\blin_api_[A-Za-z0-9]{32,}"),
    ("notion-token", "ntn_", "", 0, r"\bntn_[A-Za-z0-9]{40,}"),
    ("vault-token", "hvb. hvs.", "", 0, r"\bhv[bs]\.[\w-]{20,}"),
    ("terraform-token", ".atlasv1.", "", 0, r"\.atlasv1\.[\w-]{40,}"),
    (
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        "",
        0,
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}",
    ),
    ("age-key", "AGE-SECRET-KEY-1", "", 0, r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("json-web-token", "eyJ", "", 0, r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
)

# Looked for in whatever case.
AUTHORIZATION: Row = (
    "authorization",
    "authorization",
    "",
    0,
    r"(?i:\bauthorization\b)[\"'\\]*\s*[:=]\s*[\"'\\]*(?i:bearer|basic|token|digest)\s+([^\s\"'\\,;]{6,})",
)
CONTEXTS: tuple[Row, ...] = (
    ("bearer-token", "earer", "[Bb]", 1, r"\b[Bb]earer\s+([A-Za-z0-9][\w.~+/-]{15,}=*)"),
    (
        "connection-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}",
        31,
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s:/@\"'\\]{0,100}:([^\s/@\"'\\]{1,200})@",
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
