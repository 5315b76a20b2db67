"""Videos whose shots are known, since they are made here."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from processes import Nodes
from programs import TRIES, Example

#: Frames of a shot.
FRAMES = 24
#: Grounds, bright and dark in turn, so that a cut is one for everybody.
GROUNDS = [
    np.array(color)
    for color in ((230, 230, 230), (20, 20, 20), (60, 230, 240), (90, 20, 20), (240, 180, 100), (20, 20, 90))
]


def film(path: Path, shots: int, seed: int) -> list[np.ndarray]:
    """Writes a video: in each shot something moves over a ground of another colour. Answers the grounds."""
    dice = np.random.default_rng(seed)
    grounds = [GROUNDS[(number + seed) % len(GROUNDS)] for number in range(shots)]
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 24, (320, 180))
    assert video.isOpened()
    for ground in grounds:
        top = int(dice.integers(20, 120))
        for frame in range(FRAMES):
            picture = np.full((180, 320, 3), ground, dtype=np.uint8)
            cv2.circle(picture, (40 + frame * 8, top), 12, (255, 255, 255), -1)
            video.write(picture)
    video.release()
    return grounds


def test_each_shot_has_its_picture_once(nodes: Nodes, tmp_path: Path) -> None:
    videos = {f"film-{number}.mp4": 6 + number % 5 for number in range(8)}
    for number in range(TRIES):
        folder = tmp_path / str(number)
        example = Example(
            nodes.address,
            folder,
            "video_shots.py",
            str(folder / "job"),
            sum(videos.values()),
            arguments=("--shots", folder / "shots"),
        )
        Path(example.input).mkdir(parents=True)
        grounds = {
            name: film(Path(example.input) / name, shots, seed) for seed, (name, shots) in enumerate(videos.items())
        }
        try:
            if example.kill_half_way():
                break
        finally:
            example.stop()
    else:
        pytest.fail("it was always done before it could be killed")
    example.start().done()
    found = example.ends_right([f"{name}#{number}" for name, shots in videos.items() for number in range(shots)])
    for row in found.to_pylist():
        name, _, number = row["id"].partition("#")
        picture = cv2.imdecode(np.frombuffer(row["jpeg"], np.uint8), cv2.IMREAD_COLOR)
        assert picture.shape == (90, 160, 3)
        assert np.abs(picture[-10:, :10].mean(axis=(0, 1)) - grounds[name][int(number)]).max() < 40
        assert row["frames"] == FRAMES
