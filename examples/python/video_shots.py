"""Pictures of the shots of videos: one row becomes many, so it takes two stages.

    pip install scenedetect-headless
    python video_shots.py --input videos --shots shots --output out --checkpoint checkpoint

A checkpoint knows rows by the ID that they were read with. So the first stage finds the shots and writes them down,
each under an ID of its own, ``VIDEO#NUMBER``. The second one reads those, and has the checkpoint. All paths are on a
file system that all machines share.
"""

import argparse
from pathlib import Path
from typing import Any

import cv2
import ray
from ray.data import DataContext
from scenedetect import ContentDetector, detect

from checkpoint_store.ray import checkpoint_config


def shots_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The shots of a video, as frames from and to."""
    shots = detect(row["path"], ContentDetector(), start_in_scene=True)
    return [
        {"id": f"{row['video']}#{number}", "path": row["path"], "first": first.frame_num, "end": end.frame_num}
        for number, (first, end) in enumerate(shots)
    ]


def picture(path: str, number: int) -> bytes:
    """A frame as a small JPEG."""
    video = cv2.VideoCapture(path)
    video.set(cv2.CAP_PROP_POS_FRAMES, number)
    read, frame = video.read()
    video.release()
    if not read:
        raise ValueError(f"no frame {number} in {path}")
    return cv2.imencode(".jpg", cv2.resize(frame, (160, 90)))[1].tobytes()


def pictures(batch: dict[str, Any]) -> dict[str, Any]:
    """The frame in the middle of each shot."""
    first, end = batch["first"], batch["end"]
    middles = (int(number) for number in (first + end) // 2)
    jpegs = [picture(path, number) for path, number in zip(batch["path"], middles, strict=True)]
    return {"id": batch["id"], "frames": end - first, "jpeg": jpegs}


def find_shots(videos: Path, shots: Path) -> None:
    """Stage 1, without a checkpoint: it is short, and what is not whole is begun again."""
    done = shots / "_SUCCESS"
    if done.exists():
        return
    found = [{"video": path.name, "path": str(path)} for path in sorted(videos.resolve().glob("*.mp4"))]
    ray.data.from_items(found).flat_map(shots_of).write_parquet(str(shots), mode="overwrite")
    done.touch()


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True, type=Path, help="a directory of videos")
    parser.add_argument("--shots", required=True, type=Path, help="what the first stage writes")
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    args = parser.parse_args()

    find_shots(args.input, args.shots)

    # From here on, and for what stage 2 reads: the shots.
    context = DataContext.get_current()
    context.checkpoint_config = checkpoint_config("id", args.checkpoint)
    # A failure costs the blocks that are in work: some shots each, since a row is short and takes long.
    context.target_max_block_size = 512
    ray.data.read_parquet(str(args.shots)).map_batches(pictures, batch_size=4).write_parquet(args.output)


if __name__ == "__main__":
    main()
