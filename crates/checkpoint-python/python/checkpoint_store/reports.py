"""What operations on a checkpoint answer: the fields of ``ckpt ... --json``, which only ever grow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

__all__ = ["CompactReport", "LastAttempt", "PlanReport", "RecoverReport", "RunReport", "Status", "VerifyReport"]


class _Report:
    @classmethod
    def _of_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class LastAttempt:
    """Who works on a checkpoint, or did.

    Attributes:
        attempt: Its number, from 1.
        state: ``running``, ``succeeded``, ``failed``, ``interrupted`` or ``maintained``. One that was killed goes on
            saying ``running``, and is renewed no more.
        host: The host of its process.
        pid: Its process.
        started: When it began, by its own clock (RFC 3339).
        renewed: When its lease was last renewed, by its own clock (RFC 3339).
    """

    attempt: int
    state: str
    host: str
    pid: int
    started: str
    renewed: str


@dataclass(frozen=True)
class Status(_Report):
    """How a checkpoint stands.

    Attributes:
        checkpoint: Where it is.
        id_column: The ID column; ``None`` while nothing tells.
        id_type: The Arrow type of the IDs.
        committed_rows: Rows that are done.
        committed_tasks: Tasks that are done.
        pending_rows: Rows of tasks that are prepared and not committed.
        pending_tasks: Those tasks.
        void_tasks: Tasks of closed attempts that left records and do not count.
        attempts: Attempts so far.
        last_attempt: The one that owns the checkpoint, or owned it last.
        complete: Whether the job is done and the checkpoint being deleted.
        bytes: Bytes of the committed records.
        bytes_per_id: Bytes of record per ID; ``None`` without IDs.
        last_commit: When the newest record was written, by the store's clock (RFC 3339).
    """

    checkpoint: str
    id_column: str | None
    id_type: str | None
    committed_rows: int
    committed_tasks: int
    pending_rows: int
    pending_tasks: int
    void_tasks: int
    attempts: int
    last_attempt: LastAttempt | None
    complete: bool
    bytes: int
    bytes_per_id: float | None
    last_commit: str | None

    @classmethod
    def _of_json(cls, text: str) -> Self:
        fields = json.loads(text)
        last = fields.pop("last_attempt")
        return cls(last_attempt=last and LastAttempt(**last), **fields)


@dataclass(frozen=True)
class VerifyReport(_Report):
    """Whether the output holds what the checkpoint says.

    Attributes:
        ok: Whether all of it does.
        committed_ids: IDs that are done.
        output_rows: Rows in the output.
        missing_ids: IDs of a one-to-one job that are not in the output.
        duplicate_ids: IDs in two tasks, or twice in the output of a one-to-one job.
        orphan_files: Files of the job that belong to nothing that counts.
        lost_tasks: Tasks whose record or data is gone or damaged.
        pending_tasks: Tasks that are prepared and not committed.
        examples: What is wrong, in words, some of it.
    """

    ok: bool
    committed_ids: int
    output_rows: int
    missing_ids: int
    duplicate_ids: int
    orphan_files: int
    lost_tasks: int
    pending_tasks: int
    examples: list[str]


@dataclass(frozen=True)
class RecoverReport(_Report):
    """What a recovery did, or would do.

    Attributes:
        rolled_forward: Tasks that were finished and are committed now.
        voided: Tasks that do not count and were removed.
        deleted_files: Files that were deleted.
        repaired_tasks: Tasks whose rows are to be computed again.
        dry_run: Whether nothing was done.
    """

    rolled_forward: int
    voided: int
    deleted_files: int
    repaired_tasks: int
    dry_run: bool


@dataclass(frozen=True)
class CompactReport(_Report):
    """What a compaction did.

    Attributes:
        records_before: Record files that held the IDs before.
        records_after: Record files that hold them now.
        bytes_before: Bytes of the record files before.
        bytes_after: Those bytes now.
    """

    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class RunReport(_Report):
    """What a run did.

    Attributes:
        input_rows: Rows that were read, or known to be done without reading.
        skipped_rows: Rows of them that earlier attempts had done.
        processed_rows: Rows that this run transformed and committed, failed ones included.
        written_rows: Rows that this run wrote.
        written_files: Data files that this run wrote.
        failed_rows: Rows set aside under ``_failed``, earlier attempts included.
        rolled_forward_tasks: Tasks of earlier attempts that were finished and are now committed.
        voided_tasks: Tasks of earlier attempts that did not count and were removed.
        bytes_read: Bytes read of the input.
        attempt: The attempt's number; 0 when the job was complete already and none began.
        already_complete: Whether there was nothing left to do.
        seconds: Time from start to end.
        read_seconds: Time spent reading and decoding.
        transform_seconds: Time spent in the callable, over all workers.
        write_seconds: Time spent encoding and writing data, over all workers.
        commit_seconds: Time spent writing records, over all workers.
    """

    input_rows: int
    skipped_rows: int
    processed_rows: int
    written_rows: int
    written_files: int
    failed_rows: int
    rolled_forward_tasks: int
    voided_tasks: int
    bytes_read: int
    attempt: int
    already_complete: bool
    seconds: float
    read_seconds: float
    transform_seconds: float
    write_seconds: float
    commit_seconds: float


@dataclass(frozen=True)
class PlanReport(_Report):
    """What a run would do.

    Attributes:
        input_files: Input files.
        input_rows: Rows in them.
        done_rows: Rows of them that are done.
        remaining_rows: Rows that are left.
        remaining_files: Files with rows that are left.
        would_roll_forward: Tasks that would be committed without computing them again.
        would_void: Tasks whose remains would be removed.
        already_complete: Whether there is nothing left to do.
        bytes_read: Bytes read of the input to find this out.
    """

    input_files: int
    input_rows: int
    done_rows: int
    remaining_rows: int
    remaining_files: int
    would_roll_forward: int
    would_void: int
    already_complete: bool
    bytes_read: int
