"""Presets: the models that an OpenAI client can name. A preset fixes the mechanism and epsilon.

The operator's TOML file (setting `PRESETS_FILE`) adds presets, and replaces those of `SHIPPED` that have the same name.
`subject` defines the meaning of OpenAI's `user`: it is ignored (`none`), names the subject whose budget is charged if
it is given (`user`), or must name the subject (`required`).
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from core.errors import InvalidInput
from core.mechanisms.sentences.registry import Segmentation
from core.mechanisms.sentences.routes import AUTO
from core.mechanisms.vectors.spec import vector_spec
from core.text.segment import WINDOW_WORDS, WINDOW_WORDS_MAX
from service.config.data_dir import NAME as DOMAIN_NAME
from service.config.settings import Settings, SettingsRefused
from service.domains.store import DEFAULT_NAME
from service.http.choices import Projection, SentenceMechanism, VectorMechanism
from service.http.strict import findings, names

PresetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
SubjectRule = Literal["none", "user", "required"]
_BUNDLED_DIMENSION = 384


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class SentDPPreset(_Model):
    """Each input is one document of `POST /embed/sentdp`."""

    endpoint: Literal["sentdp"]
    mechanism: SentenceMechanism
    epsilon: float = Field(gt=0)
    domain: str = Field(DEFAULT_NAME, pattern=f"^{DOMAIN_NAME}$")
    segmentation: Segmentation = "sentences"
    window_words: int = Field(WINDOW_WORDS, ge=1, le=WINDOW_WORDS_MAX)
    subject: SubjectRule = "user"


class VectorPreset(_Model):
    """Each input is one text of `POST /embed/vector`; the parameters are those of that endpoint."""

    endpoint: Literal["vector"]
    mechanism: VectorMechanism
    epsilon: float = Field(gt=0)
    dimension: int | None = Field(None, ge=1)
    clip_norm: float | None = Field(None, gt=0)
    projection: Projection | None = None
    strict: bool = True
    beta: float | None = None
    delta: float | None = None
    subject: SubjectRule = "user"

    def parameters(self) -> dict[str, Any]:
        """The preset as parameters of the endpoint."""
        return self.model_dump(exclude={"endpoint", "subject"})


Preset = SentDPPreset | VectorPreset

SHIPPED: Mapping[str, Preset] = {
    "minilm-sentdp-eps10": SentDPPreset(endpoint="sentdp", mechanism="sentence_codes", epsilon=10)
}


class _File(_Model):
    presets: dict[PresetName, Annotated[Preset, Field(discriminator="endpoint")]]


def load_presets(settings: Settings) -> dict[str, Preset]:
    """The presets by name, in listing order.

    Raises:
        SettingsRefused: the file cannot be read, is not TOML, or contains a preset that no request could use.
    """
    found = dict(SHIPPED)
    if settings.presets_file is not None:
        found |= _read(settings.presets_file)
    for name, preset in found.items():
        if not settings.epsilon_min <= preset.epsilon <= settings.epsilon_max:
            raise SettingsRefused(f"the preset {name} has an epsilon outside EPSILON_MIN and EPSILON_MAX")
        if isinstance(preset, SentDPPreset) and preset.domain == AUTO and preset.mechanism != "sentence_codes":
            raise SettingsRefused(f"the preset {name}: the domain {AUTO} is for the mechanism sentence_codes")
        if isinstance(preset, VectorPreset) and settings.encoder_path is None:
            _check_vectors(name, preset)
    return found


def _check_vectors(name: str, preset: VectorPreset) -> None:
    """Check that vectors of the bundled encoder can be released by the preset. The dimension of another encoder is not
    known before its worker is ready."""
    params = preset.parameters()
    try:
        vector_spec(dimension=_BUNDLED_DIMENSION, output_dimension=params.pop("dimension"), **params)
    except InvalidInput as error:
        raise SettingsRefused(f"the preset {name}: {error.field}: {error.detail}") from None


def _read(path: Path) -> dict[str, Preset]:
    try:
        return _File.model_validate(tomllib.loads(path.read_text())).presets
    except ValidationError as error:
        wrong = names(findings(error))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        wrong = str(error)
    raise SettingsRefused(f"PRESETS_FILE {path}: {wrong}")
