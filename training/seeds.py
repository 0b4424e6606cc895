"""Seeds: one number per (run seed, purpose), so that nothing depends on what was drawn before.

Orders, augmentations and initial weights of a resumed run equal those of a run that was never interrupted because
every one of them is drawn from a generator seeded by where it stands, not by a stream that must be replayed.
"""

import hashlib


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed for the purpose that `path` names; different paths or seeds give unrelated streams."""
    text = "\0".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
