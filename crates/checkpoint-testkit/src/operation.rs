//! The operations of a storage, as plans, counts and hooks name them.

use std::fmt;

/// One method of the storage trait or of its writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `Storage::read`
    Read,
    /// `Storage::write`
    Write,
    /// `Storage::writer`, the start of a streamed write
    Writer,
    /// `StorageWriter::write`
    WriterWrite,
    /// `StorageWriter::finish`
    WriterFinish,
    /// `StorageWriter::abort`
    WriterAbort,
    /// `Storage::stat`
    Stat,
    /// `Storage::list`
    List,
    /// `Storage::copy`
    Copy,
    /// `Storage::delete`
    Delete,
    /// `Storage::delete_many`
    DeleteMany,
    /// `Storage::create_dir`
    CreateDir,
    /// `Storage::rename`
    Rename,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 13] = [
        Operation::Read,
        Operation::Write,
        Operation::Writer,
        Operation::WriterWrite,
        Operation::WriterFinish,
        Operation::WriterAbort,
        Operation::Stat,
        Operation::List,
        Operation::Copy,
        Operation::Delete,
        Operation::DeleteMany,
        Operation::CreateDir,
        Operation::Rename,
    ];

    /// The name in the style of the trait.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Writer => "writer",
            Operation::WriterWrite => "writer_write",
            Operation::WriterFinish => "writer_finish",
            Operation::WriterAbort => "writer_abort",
            Operation::Stat => "stat",
            Operation::List => "list",
            Operation::Copy => "copy",
            Operation::Delete => "delete",
            Operation::DeleteMany => "delete_many",
            Operation::CreateDir => "create_dir",
            Operation::Rename => "rename",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
