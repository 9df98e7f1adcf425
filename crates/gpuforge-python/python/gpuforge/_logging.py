"""Logger ``gpuforge``: where work ran and why, and what failed on the way."""

from __future__ import annotations

import json
import logging
from typing import Any

logger = logging.getLogger("gpuforge")


def computed(done: str) -> None:
    """Logs where indicators were computed."""
    if not logger.isEnabledFor(logging.WARNING) and not logger.isEnabledFor(logging.DEBUG):
        return
    report: dict[str, Any] = json.loads(done)
    for event in report.get("events") or ():
        logger.warning("indicators: %s", event)
    decision = report.get("decision") or {}
    logger.debug("indicators on %s: %s", decision.get("place"), decision.get("reason"))
