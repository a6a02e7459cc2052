"""The settings that `gateway.settings` of the Helm chart takes.

`make chart-settings` writes their names to the schema of the chart's values.
"""

import json

from helm_kit import CHART

from service.config.settings import Settings

# what the chart sets itself, and what only an embedded Redis uses
CHART_SETS = {"DATA_DIR", "HOST", "PORT", "ADMIN_HOST", "ADMIN_PORT", "REDIS_URL", "REDIS_SERVER", "MASTER_KEY"}
CHART_SETS |= {"ADMIN_KEY", "STORE_URL"}
# from existing Secrets alone
SECRET_SETTINGS = {"ADMIN_KEY_PREVIOUS", "INFILL_API_KEY", "STORE_OPTIONS", "TRACES_HEADERS"}
SECRET_SETTINGS |= {"ARCHIVE_REDIS_URL", "RAY_TOKEN"}


def setting_names() -> list[str]:
    """The names, without PRIVACY_GATEWAY_."""
    return sorted({name.upper() for name in Settings.model_fields} - CHART_SETS - SECRET_SETTINGS)


if __name__ == "__main__":
    path = CHART / "values.schema.json"
    schema = json.loads(path.read_text())
    schema["$defs"]["setting"]["enum"] = setting_names()
    path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
