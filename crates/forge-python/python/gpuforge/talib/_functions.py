GROUPS: dict[str, list[str]] = {}
POSITIONS: dict[str, int] = {}
