//! Child processes as a transform: any program that reads batches from its standard input and writes
//! answers to its standard output.

mod arrow_stream;
mod chunk_writer;
mod exchange;
mod json_answer;
mod json_fit;
mod json_lines;
mod json_shape;
mod json_value;
mod output_schema;
mod pool;
mod process_tree;
mod stderr_tail;
mod watch;
mod wire;
mod worker;

pub use exchange::ExecFormat;
pub use pool::ProcessPool;
