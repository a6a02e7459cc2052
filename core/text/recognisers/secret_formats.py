"""Published formats of keys and tokens, as patterns: those of detect-secrets, and own ones where it has none.

From detect-secrets come compiled patterns alone (its `denylist`). Its scans of files, its processes and its requests to
the services that issued a key are not used. Its pattern of web tokens is quadratic in a long word, its pattern of npm
tokens in a long line, and its keyword rules depend on the type of a file, so that this project has its own.

A pattern is tried only on a text that contains one of its literals, which makes a row cheap. Each pattern takes time
linear in the text: it has bounded repeats, or possessive ones that begin at the start of a word.
"""

from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]


class Format(NamedTuple):
    """`literals`: in lower case; the pattern is tried on a text that contains one. A group, if the pattern has one,
    covers the secret."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]


_NOT_INSIDE = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9_])"

# literal, pattern after the start of a word; `\b` is not enough, because a key may end in `-`
_OWN: tuple[tuple[str, str], ...] = (
    ("a3t|akia|asia|abia|acca", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END),
    ("bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/=]{20,400}"),
    ("absk", r"ABSK[A-Za-z0-9+/]{100,270}={0,2}"),
    ("aiza", r"AIza[\w-]{30,40}"),  # Google API
    ("gocspx-", r"GOCSPX-[\w-]{20,40}"),  # Google OAuth client
    ("ya29.", r"ya29\.[\w-]{20,1000}"),  # Google OAuth access
    ("1//0", r"1//0[\w-]{25,200}"),  # Google OAuth refresh
    ("8q~", r"[\w.~-]{3}8Q~[\w.~-]{31,34}"),  # Azure client secret
    ("sig=", r"sig=([A-Za-z0-9%+/]{40,100}={0,2})"),  # Azure shared access signature
    ("sharedaccesskey=|accountkey=", r"(?:SharedAccessKey|AccountKey)=([A-Za-z0-9+/]{20,100}={0,2})"),
    ("github_pat_", r"github_pat_\w{30,90}"),
    ("ghp_|gho_|ghu_|ghs_|ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    (
        "pat-|gldt-|glft-|soat-|glrt-|cbt-|imt-|ptt-|agent-|oas-|ffct-|glwt-",
        r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct|wt)-[\w-]{16,320}",
    ),
    ("xapp-|xoxe|xoxc-|xoxd-|xoxb-|xoxp-|xoxa-|xoxs-|xoxr-", r"(?:xapp|xox[a-z])[-.][A-Za-z0-9%.-]{10,400}"),
    ("hooks.slack.com", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,120}"),
    ("k_live_|k_test_|k_prod_", r"[rsp]k_(?:live|test|prod)_[A-Za-z0-9]{10,255}"),  # Stripe, Clerk, Paystack
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{20,100}"),
    ("sk_", r"sk_[A-Za-z0-9]{32,64}" + _END),  # ElevenLabs and others
    ("ac|sk", r"(?:AC|SK)[0-9a-f]{32}" + _END),  # Twilio
    ("sg.", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
    ("npm_", r"npm_[A-Za-z0-9]{30,40}" + _END),
    ("_authtoken", r"_authToken\s{0,2}=\s{0,2}[\"']?([\w+/=.-]{16,200})"),
    ("_auth", r"(?<![\w])_auth\s{0,2}=\s{0,2}[\"']?([\w+/=]{12,200})"),
    ("pypi-", r"pypi-[\w-]{50,400}"),
    ("rubygems_", r"rubygems_[0-9a-f]{48}" + _END),
    ("oy2", r"oy2[a-z0-9]{43}" + _END),  # NuGet
    ("cio", r"cio[a-zA-Z0-9]{32}" + _END),  # crates.io
    ("sk-", r"sk-(?:(?:proj|svcacct|admin|ant|or|live|lf|None)-)?[\w-]{20,255}"),  # OpenAI, Anthropic, OpenRouter
    ("hf_|api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,40}" + _END),
    ("gsk_|xai-|r8_|pplx-|tgp_v1_|nvapi-|fw_|csk-", r"(?:gsk_|xai-|r8_|pplx-|tgp_v1_|nvapi-|fw_|csk-)[\w-]{20,100}"),
    ("dop_v1_|doo_v1_|dor_v1_|dot_v1_", r"do[oprt]_v1_[0-9a-f]{64}" + _END),
    ("shp", r"shp(?:at|ca|pa|ss|rt|tka)_[0-9A-Fa-f]{32}" + _END),
    (":aa", r"[0-9]{8,10}:AA[\w-]{32,34}(?![\w-])"),  # Telegram bot
    ("discord", r"https://(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{15,21}/[\w-]{50,90}"),
    (".", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![\w-])"),  # Discord bot
    ("webhook.office.com", r"https://[\w-]{1,60}\.webhook\.office\.com/webhookb?2?/[\w@/-]{60,300}"),
    ("key-", r"key-[0-9a-f]{32}" + _END),  # Mailgun
    ("-us", r"[0-9a-f]{32}-us[0-9]{1,2}" + _END),  # Mailchimp
    ("xkeysib-|xsmtpsib-", r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}" + _END),
    ("re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}" + _END),  # Resend
    ("dapi", r"dapi[0-9a-f]{32}(?:-\d)?" + _END),
    ("dose", r"dose[0-9a-f]{32}" + _END),
    ("age-secret-key-1", r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Za-z]{50,80}"),
    ("hv", r"hv[sbr]\.[\w-]{20,400}"),  # Vault
    ("s.", r"s\.[A-Za-z0-9]{24}" + _END),  # Vault, before 1.10
    (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}"),
    ("dckr_", r"dckr_(?:pat|oat)_[\w-]{20,60}"),
    ("sq0|eaaa", r"(?:sq0(?:csp|atp|idp)-[\w-]{22,43}|EAAA[\w-]{56,64})(?![\w-])"),
    ("access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),  # PayPal Braintree
    ("eaa", r"EAA[A-Za-z][A-Za-z0-9]{60,400}" + _END),  # Facebook
    ("igq|ighv", r"IG(?:Q|HV)[\w-]{60,400}"),
    ("hrku-", r"HRKU-[\w-]{36,64}"),
    ("lin_api_|lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}" + _END),
    ("secret_|ntn_", r"(?:secret_[A-Za-z0-9]{43}|ntn_[0-9]{6,14}[A-Za-z0-9]{30,40})" + _END),  # Notion
    ("figd_", r"figd_[\w-]{36,60}"),
    ("atatt3|atctt3|atbb", r"(?:ATATT3|ATCTT3)[\w=-]{40,300}|ATBB[A-Za-z0-9]{24,40}" + _END),  # Atlassian
    ("pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}" + _END),  # Airtable
    ("glc_|glsa_", r"(?:glc_[\w+/=]{32,400}|glsa_[\w]{32}_[0-9a-f]{8})"),  # Grafana
    ("nrak-|nrjs-|nrii-|nral", r"NR(?:AK|JS|II|AL)-[\w-]{19,42}"),
    ("sntr", r"sntr(?:ys|yu|ya)_[\w=+/]{40,400}"),
    ("pscale_", r"pscale_(?:tkn|oauth|pw)_[\w.=-]{32,64}"),
    ("pnu_|pul-|phx_|phc_", r"(?:pnu_|pul-|ph[cx]_)[A-Za-z0-9]{30,60}" + _END),
    ("sbp_|sb_secret_", r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,60})" + _END),
    ("dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,80}"),  # Doppler
    ("ops_ey", r"ops_eyJ[\w=-]{100,1500}"),  # 1Password
    ("akcp|cmvmdg", r"(?:AKCp[A-Za-z0-9]{60,80}|cmVmdG[A-Za-z0-9+/=]{40,80})"),  # Artifactory
    ("frtn_|fio-u-|fo1_|fm1|fm2_", r"(?:fio-u-[\w=-]{60,70}|fo1_[\w-]{43}|fm[12][ar_][\w+/=]{60,500})"),
    ("v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}" + _END),  # Cloudflare origin
    ("eyj", r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),  # JWT, JWE
    ("pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}" + _END),
    ("duffel_|easypost|ezak|eztk", r"(?:duffel_(?:live|test)_[\w-]{40,45}|EZ[AT]K[A-Za-z0-9]{54})"),
    ("sl.", r"sl\.(?:u\.)?[\w-]{100,1400}"),  # Dropbox
    ("live_|test_", r"(?:live|test)_[A-Za-z0-9]{30,64}" + _END),
    ("vercel_|vc", r"(?:vercel_|vc[pika]_)[A-Za-z0-9]{24,60}" + _END),
    ("cfut_|cfat_|cfk_", r"cf(?:ut|at|k)_[A-Za-z0-9]{40,60}" + _END),
    ("hooks.zapier.com", r"https://hooks\.zapier\.com/hooks/catch/\d+/\w{5,20}"),
    ("$2a$|$2b$|$2y$", r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}"),  # hashes of passwords, which can be attacked
    ("$1$|$apr1$", r"\$(?:1|apr1)\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}" + _END),
    ("$5$", r"\$5\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43}" + _END),
    ("$6$", r"\$6\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}" + _END),
    ("$y$|$7$|$gy$", r"\$(?:y|7|gy)\$[./A-Za-z0-9]{1,20}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}" + _END),
    ("$8$|$9$", r"\$[89]\$[./A-Za-z0-9]{14}\$[./A-Za-z0-9]{43}" + _END),  # Cisco
    (
        "{ssha|{sha|{smd5|{md5|{crypt|{pbkdf2",
        r"\{(?:S?SHA(?:256|384|512)?|S?MD5|CRYPT|PBKDF2[\w-]{0,10})\}([\w+/.$=-]{12,200})",
    ),
    ("pbkdf2|$scrypt", r"\$?(?:pbkdf2|scrypt)[_-]?(?:sha\d{1,3})?\$[\w=,$./+-]{1,80}\$[A-Za-z0-9+/.]{20,200}={0,2}"),
    ("$argon2", r"\$argon2(?:id|i|d)\$v=\d+\$[\w=,]{1,60}\$[A-Za-z0-9+/]{8,100}\$[A-Za-z0-9+/]{16,200}"),
)

# plugin of detect-secrets, its class, literals, number of patterns from the first
_DETECT_SECRETS: tuple[tuple[str, str, str, int | None], ...] = (
    ("aws", "AWSKeyDetector", "aws", None),
    ("cloudant", "CloudantDetector", "cloudant|cl", None),
    ("discord", "DiscordBotTokenDetector", ".", None),
    ("github_token", "GitHubTokenDetector", "gh", None),
    ("gitlab_token", "GitLabTokenDetector", "gl|gr1348941", None),
    ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm|iam|cloud", None),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "secret", None),
    ("mailchimp", "MailchimpDetector", "-us", None),
    ("pypi_token", "PypiTokenDetector", "pypi-", None),
    ("sendgrid", "SendGridDetector", "sg.", None),
    ("slack", "SlackDetector", "xox|hooks.slack.com", None),
    ("softlayer", "SoftlayerDetector", "softlayer|sl", None),
    ("square_oauth", "SquareOAuthDetector", "sq0csp-", None),
    ("stripe", "StripeDetector", "k_live_", None),
)


def _own() -> tuple[Format, ...]:
    return tuple(
        Format(tuple(literals.split("|")), regex.compile(_NOT_INSIDE + rf"(?:{pattern})")) for literals, pattern in _OWN
    )


def _detect_secrets() -> tuple[Format, ...]:
    rows = []
    for module, name, literals, count in _DETECT_SECRETS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        for source in tuple(plugin.denylist)[:count]:
            pattern = regex.compile(_NOT_INSIDE + rf"(?:{source.pattern})", source.flags & ~regex.UNICODE)
            rows.append(Format(tuple(literals.split("|")), pattern))
    return tuple(rows)


def formats() -> tuple[Format, ...]:
    return (*_own(), *_detect_secrets())
