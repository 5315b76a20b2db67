//! The promise of the store, tried: crashes at every step, late owners, damage, and what Ray leaves behind.

#![expect(clippy::panic, reason = "what a test does not expect fails it")]

mod appearing_storage;
mod beside;
mod closing;
mod compaction;
mod compaction_deaths;
mod compaction_repair;
mod crash_storage;
mod crashes;
mod damage;
mod elsewhere;
mod ends;
mod fingerprints;
mod golden;
mod leases;
mod loading;
mod named_writes;
mod power_cut;
mod ray_fixtures;
mod requests;
mod saved_set;
mod small_job;
mod unrecorded;
mod zombies;
