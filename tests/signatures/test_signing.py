"""Signing, as a provider would."""

from __future__ import annotations

import pytest

from millrace.signatures import ConfigurationMissing, preset
from millrace.signatures.signing import sign
from tests.signatures.cases import NEW, NOW


def test_signing_without_a_secret_an_id_or_a_url_that_is_signed_is_refused() -> None:
    for name in ("github", "standard_webhooks", "square", "twilio"):
        with pytest.raises(ConfigurationMissing):
            sign(preset(name), [] if name == "github" else NEW, b"{}", NOW)
