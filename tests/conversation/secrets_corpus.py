"""Made-up secrets in the shapes of real ones, and texts that look like secrets and are none.

The secrets are put together from pieces, so that no scanner of repositories takes this file for a leak.
"""

from __future__ import annotations

A = "a1B2c3D4e5F6g7H8i9J0"
HEX = "0123456789abcdef"

TOKENS: dict[str, str] = {
    "aws-access-key": "AKIA" + "QWERTYUIOPASDF23",
    "google-api-key": "AIza" + (A * 2)[:35],
    "google-oauth": "ya29." + A * 2,
    "azure-storage-key": "AccountKey=" + A * 4 + "==",
    "digitalocean-token": "dop_v1_" + HEX * 4,
    "github-token": "ghp_" + (A * 2)[:36],
    "gitlab-token": "glpat-" + A,
    "bitbucket-token": "ATBB" + A + A[:12],
    "anthropic-key": "sk-ant-" + "api03-" + A * 4,
    "openai-key": "sk-" + "proj-" + A * 3,
    "openrouter-key": "sk-or-v1-" + HEX * 4,
    "huggingface-token": "hf_" + A + A[:14],
    "groq-key": "gsk_" + A * 2 + A[:12],
    "xai-key": "xai-" + A * 4,
    "perplexity-key": "pplx-" + A * 2 + A[:8],
    "replicate-token": "r8_" + A + A[:17],
    "slack-token": "xoxb-" + "123456789012-" + A,
    "slack-webhook": "https://hooks.slack.com/" + "services/T00000000/B00000000/" + A,
    "telegram-token": "123456789:AA" + (A * 2)[:33],
    "stripe-key": "sk_" + "live_" + A,
    "shopify-token": "shpat_" + HEX * 2,
    "sendgrid-key": "SG." + A + "." + A * 2,
    "twilio-key": "SK" + HEX * 2,
    "npm-token": "npm_" + (A * 2)[:36],
    "pypi-token": "pypi-" + A * 3,
    "docker-token": "dckr_pat_" + A + A[:7],
    "databricks-token": "dapi" + HEX * 2,
    "linear-key": "lin_api_" + A * 2,
    "vault-token": "hvs." + A + A,
    "json-web-token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + A,
    "age-key": "AGE-SECRET-KEY-1" + "Q" * 58,
}

# A text, and what must not be left of it.
SENTENCES: tuple[tuple[str, str], ...] = (
    ("password=hunter2!", "hunter2!"),
    ("password = 'correct horse'", "correct horse"),
    ('"password": "hunter22"', "hunter22"),
    ("DB_PASSWORD=swordfish", "swordfish"),
    ("export API_KEY=abcdef123456", "abcdef123456"),
    ("dbPassword: 'opensesame'", "opensesame"),
    ("client_secret: Zm9vYmFy1", "Zm9vYmFy1"),
    ("aws_secret_access_key = " + A * 2, A * 2),
    ('{\\"token\\": \\"abcd1234efgh\\"}', "abcd1234efgh"),
    ('passwd := "tr0ub4dor"', "tr0ub4dor"),
    ("config['secret_key'] = 'not-for-you'", "not-for-you"),
    ("postgres://app:s3cr3t-pw@db.example.org:5432/app", "s3cr3t-pw"),
    ("redis://:p4ssw0rd@cache:6379/0", "p4ssw0rd"),
    ("mongodb+srv://u:pa%24s@cluster.example.net", "pa%24s"),
    ("https://user:tok3n-value@git.example.org/x.git", "tok3n-value"),
    ("Authorization: Bearer " + A, A),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ('-H "authorization: token 1234567890abcdef"', "1234567890abcdef"),
    ("curl -H 'Bearer " + A + "'", A),
    ("//registry.example.org/:_authToken=" + A, A),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----\n", "MIIEow"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNz\\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
    ("-----BEGIN PRIVATE KEY-----\nMIIcutoff", "MIIcutoff"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
)

HARMLESS: tuple[str, ...] = (
    "the password is asked for at the start",
    "password: str",
    "password: string",
    "token = get_token()",
    "token = settings.token",
    "token=os.environ['TOKEN']",
    "password=${DB_PASSWORD}",
    "password: <your password>",
    "password=********",
    '"input_tokens": 1234567, "output_tokens": 98765432',
    "max_tokens=1000000",
    "secret: null",
    "def tokenize(text: str) -> list[str]:",
    "https://example.org/path?query=1",
    "http://localhost:8080/@scope/package",
    "git@example.org:group/project.git",
    "ckpt_0123456789abcdef",
    "0123456789abcdef0123456789abcdef01234567",
    "550e8400-e29b-41d4-a716-446655440000",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "sk-learn is a library",
    "for token in tokens:",
    "self.token = token_of(line)",
)
