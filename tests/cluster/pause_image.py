"""The image of the sandbox of pods: one static program, packed as docker-archive."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

PAUSE_IMAGE = "localhost/pause:1"


def write_pause_image(program: Path, to: Path) -> Path:
    """The image as a file that containerd imports."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, arcname="pause")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    members = {
        name: config,
        "layer.tar": layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(to, "w") as tar:
        for path, data in members.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return to
