"""A Ray cluster of this machine, as fast as it gets here."""

import logging
import os


def start(tuned=True):
    """Starts it, with workers that are ready; as it comes, or tuned for few cores."""
    cores = os.cpu_count() or 1
    if tuned:
        # Ray's defaults are for large machines: 32 actors that read footers, and 160 threads in each reader, take longer
        # to start on a few cores than they save. Its workers run as any other process here, not with less right to a core.
        os.environ.setdefault("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", str(cores))
        os.environ.setdefault("RAY_DATA_PARQUET_READER_CPU_COUNT", str(cores))
        os.environ.setdefault("RAY_DATA_PARQUET_READER_IO_THREAD_COUNT", "8")
        os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    ray.init(
        num_cpus=cores,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=memory // 4,
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    ray.data.range(1000).map_batches(lambda batch: batch).materialize()
    return ray
