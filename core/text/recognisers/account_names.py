"""Whether a string is the name of an account that identifies somebody.

Names that many systems share, such as `root` or `admin`, and expressions of source code are none.
"""

from __future__ import annotations

from core.text.recognisers.secret_values import placeholder, reference

CHARS_MIN = 3
_SHARED_WORDS = (
    "root admin administrator administrateur administrador amministratore beheerder nobody guest anonymous system"
    " daemon public shared default"
    " all user users username usuario utente benutzer service www www-data apache nginx postgres mysql redis oracle"
    " mongodb ubuntu debian"
    " centos ec2-user vagrant docker git jenkins runner runneradmin builder build ci test tester testuser deploy"
    " node app jovyan vscode"
    " codespace gitpod circleci travis sshd bin sys sync mail backup operator owner foo bar baz foobar me you your"
    " yourname your_name"
    " example someuser someone name id login password email none null true false str string int bool text object"
    " self request field"
    " handle generated everyone channel team group param params parameter return returns author deprecated"
    " override since throws see media import"
    " keyframes charset supports layer page container property staticmethod classmethod dataclass abstractmethod"
    " overload pytest fixture"
    " mixin include extend extends if else for each while function type types todo brief code link example file note"
    " warning internal"
    " private protected public final readonly template tailwind apply use forward namespace license version"
    " copyright and or not the"
    " from with is are was has required invalid missing unknown disabled enabled account profile settings model data"
    " value values key"
    " home documents desktop downloads appdata localhost linuxbrew homebrew sandbox work workspace project projects"
    " src lib conda opt"
    " nicht und oder ist der die das est les des une los las que per con van het een nie jest como para"
)
_SHARED = frozenset(_SHARED_WORDS.split())


def identifies(value: str) -> bool:
    """Whether `value` may be the name of an account that is not shared."""
    name = value.casefold().strip(".-_")
    return (
        len(value) >= CHARS_MIN
        and name not in _SHARED
        and any(map(str.isalpha, value))
        and not placeholder(value)
        and not reference(value.replace("\\", ""))
        and not dotted_code(value)
    )


def dotted_code(value: str) -> bool:
    """Whether `value` is an attribute of an object in source code."""
    return value.startswith(("self.", "this.", "request.", "settings.", "config.", "args.", "os.", "user."))


def login(value: str) -> bool:
    """As `identifies`, and dots may separate the parts of the name."""
    dotted = "." in value and not dotted_code(value)
    return identifies(value.replace(".", "") if dotted else value) and " " not in value and "/" not in value
