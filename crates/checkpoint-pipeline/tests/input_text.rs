//! JSON lines and CSV: types, exactness, compression, windows, and errors that name the place.

mod input_files;

use std::io::Write;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use checkpoint_pipeline::input::{ReadConfig, SourceFile};
use checkpoint_pipeline::{Error, ErrorKind, Format};
use input_files::{Files, assert_same, batch, drain, join};

/// Infers from one file and reads it.
fn read_one(name: &str, bytes: impl Into<Vec<u8>>, format: Format) -> Result<RecordBatch, Error> {
    let mut files = Files::new();
    let file = files.put(name, bytes.into(), format);
    files.infer(std::slice::from_ref(&file))?;
    let config = ReadConfig::new().with_batch_rows(3);
    Ok(join(&files.read(&file, &config)?, &config, 0))
}

fn json(text: &str) -> Result<RecordBatch, Error> {
    read_one("f.jsonl", text, Format::JsonLines)
}

fn csv(text: &str) -> Result<RecordBatch, Error> {
    read_one("f.csv", text, Format::Csv)
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<StringArray>())
}

#[test]
fn json_values_are_exact() {
    let found = json(concat!(
        r#"{"i": 9007199254740993, "u": 18446744073709551615, "f": 1, "b": true, "s": "é\u00e9\n", "big": 18446744073709551616}"#,
        "\n\n   \n",
        r#"{"i": -9223372036854775808, "u": 0, "f": 2.5, "b": null, "s": "", "big": -1}"#,
        "\r\n",
        r#"{"u": 9223372036854775808, "mixed": 1.50}"#,
        "\n",
        r#"{"mixed": "text", "extra": {"a": [1, null, 3], "b": {"c": false}}}"#,
        "\n",
        r#"{"mixed": [1, {"x": 2}], "extra": {"b": null}, "extra": {"a": []}}"#,
    ))
    .expect("reads");
    let ints = ListArray::from_iter_primitive::<Int64Type, _, _>([
        None,
        None,
        None,
        Some(vec![Some(1), None, Some(3)]),
        Some(vec![]),
    ]);
    let c = BooleanArray::from(vec![None, None, None, Some(false), None]);
    let valid = |rows: [bool; 5]| Some(rows.to_vec().into());
    let b = StructArray::new(
        vec![Field::new("c", DataType::Boolean, true)].into(),
        vec![Arc::new(c)],
        valid([false, false, false, true, false]),
    );
    let fields = vec![Field::new("a", ints.data_type().clone(), true), Field::new("b", b.data_type().clone(), true)];
    let extra =
        StructArray::new(fields.into(), vec![Arc::new(ints), Arc::new(b)], valid([false, false, false, true, true]));
    let expected = batch([
        ("i", Arc::new(Int64Array::from(vec![Some(9_007_199_254_740_993), Some(i64::MIN), None, None, None]))),
        ("u", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), Some(1 << 63), None, None]))),
        ("f", Arc::new(Float64Array::from(vec![Some(1.0), Some(2.5), None, None, None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, None, None, None]))),
        ("s", strings(&[Some("éé\n"), Some(""), None, None, None])),
        ("big", strings(&[Some("18446744073709551616"), Some("-1"), None, None, None])),
        ("mixed", strings(&[None, None, Some("1.50"), Some("text"), Some("[1, {\"x\": 2}]")])),
        ("extra", Arc::new(extra)),
    ]);
    assert_eq!(found.schema().fields(), expected.schema().fields());
    for (i, column) in expected.columns().iter().enumerate() {
        assert_eq!(found.column(i), column, "{}", expected.schema().field(i).name());
    }
}

#[test]
fn csv_values_are_exact() {
    let found = csv(concat!(
        "\u{feff}id,zip,u,f,b,text,none,mixed\n",
        "9007199254740993,007,18446744073709551615,1,true,\"a \"\"quoted\"\"\nline, two\",,1\n",
        "\n",
        "-1,10115,0,0.5,false,plain,\"\",x\r\n",
        ",,,,,,,\n",
        "5,+1,1,1e3,true, spaced ,,2026-01-01",
    ))
    .expect("reads");
    let expected = batch([
        ("id", Arc::new(Int64Array::from(vec![Some(9_007_199_254_740_993), Some(-1), None, Some(5)]))),
        ("zip", strings(&[Some("007"), Some("10115"), None, Some("+1")])),
        ("u", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None, Some(1)]))),
        ("f", Arc::new(Float64Array::from(vec![Some(1.0), Some(0.5), None, Some(1000.0)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("text", strings(&[Some("a \"quoted\"\nline, two"), Some("plain"), None, Some(" spaced ")])),
        ("none", strings(&[None, None, None, None])),
        ("mixed", strings(&[Some("1"), Some("x"), None, Some("2026-01-01")])),
    ]);
    assert_same(&found, &expected);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compresses");
    encoder.finish().expect("compresses")
}

/// Two compressed parts, one after the other, as appending tools write them.
fn in_two_parts(text: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (a, b) = text.as_bytes().split_at(text.len() / 3);
    [compress(a), compress(b)].concat()
}

#[test]
fn compressed_files_read_the_same() {
    let lines: String = (0..20_000).map(|i| format!("{{\"id\":{i},\"t\":\"row {i}\"}}\n")).collect();
    let table: String =
        std::iter::once("id,t\n".to_owned()).chain((0..20_000).map(|i| format!("{i},row {i}\n"))).collect();
    let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).expect("compresses");
    let expected = batch([
        ("id", Arc::new(Int64Array::from_iter_values(0..20_000))),
        ("t", Arc::new(StringArray::from_iter_values((0..20_000).map(|i| format!("row {i}"))))),
    ]);
    let all = [
        ("a.jsonl", lines.clone().into_bytes(), Format::JsonLines),
        ("a.jsonl.gz", in_two_parts(&lines, gzip), Format::JsonLines),
        ("a.jsonl.zst", in_two_parts(&lines, zstd), Format::JsonLines),
        ("a.csv", table.clone().into_bytes(), Format::Csv),
        ("a.csv.GZ", in_two_parts(&table, gzip), Format::Csv),
        ("a.csv.zst", in_two_parts(&table, zstd), Format::Csv),
    ];
    for (name, bytes, format) in all {
        assert_same(&read_one(name, bytes.clone(), format).expect(name), &expected);
        if name.to_lowercase().ends_with("z") || name.ends_with("zst") {
            let error = read_one(name, &bytes[..bytes.len() - 20], format).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::BadData, "{name}: {error}");
            assert!(error.to_string().contains(&format!("file=memory://t/{name} line=")), "{error}");
        }
    }
    let error = read_one("plain.jsonl.gz", lines.into_bytes(), Format::JsonLines).expect_err("not gzip");
    assert_eq!(error.kind(), ErrorKind::BadData);
}

#[test]
fn all_files_of_a_job_share_one_schema() {
    let mut files = Files::new();
    let inputs = vec![
        files.put("1.jsonl", "{\"a\":1,\"n\":{\"x\":1}}\n", Format::JsonLines),
        files.put("1.csv", "k,v\n1,2\n", Format::Csv),
        files.put("2.jsonl", "", Format::JsonLines),
        files.put("3.jsonl", "{\"b\":\"t\",\"a\":2.5,\"n\":{\"y\":true}}\n", Format::JsonLines),
        files.put("2.csv", "w,k\nx,9223372036854775808\n", Format::Csv),
        files.put("3.csv", "", Format::Csv),
        files.put("4.csv", "v\n", Format::Csv),
    ];
    let schemas = files.infer(&inputs).expect("infers");
    let shape =
        |schema: &Schema| schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect::<Vec<_>>();
    let json = shape(schemas.json_lines.as_ref().expect("there"));
    assert_eq!(json, ["a Float64", "n Struct(\"x\": Int64, \"y\": Boolean)", "b Utf8"]);
    assert_eq!(shape(schemas.csv.as_ref().expect("there")), ["k UInt64", "v Int64", "w Utf8"]);
    for file in &inputs {
        let rows = files.read(file, &ReadConfig::new()).expect("reads");
        assert_eq!(rows.len(), usize::from(!matches!(file.path.as_str(), "2.jsonl" | "3.csv" | "4.csv")));
        for (_, rows) in rows {
            assert_eq!(Some(&rows.schema()), schemas.get(file.format));
        }
    }
    let second = &files.read(&inputs[4], &ReadConfig::new()).expect("reads")[0].1;
    assert!(second.column(1).is_null(0));
    assert_eq!(second.column(0).as_primitive::<UInt64Type>().value(0), 1 << 63);
}

#[test]
fn only_the_start_of_each_file_is_looked_at() {
    let mut files = Files::new();
    let text: String = (0..400_000).map(|i| format!("{{\"id\":{i}}}\n")).collect();
    let size = text.len() as u64;
    assert!(size > 4 << 20);
    let file = files.put("f.jsonl", text, Format::JsonLines);
    files.infer(&[file]).expect("infers");
    assert!((1 << 20..3 << 20).contains(&files.context.bytes_read()), "{}", files.context.bytes_read());
    // A first row beyond the sample still counts whole.
    let long = format!("{{\"s\":\"{}\"}}\n{{\"later\":1}}\n", "x".repeat(3 << 20));
    let file = files.put("long.jsonl", long, Format::JsonLines);
    let schemas = files.infer(&[file]).expect("infers");
    assert_eq!(schemas.json_lines.expect("there").fields().len(), 1);
}

#[test]
fn windows_and_sizes_cut_batches() {
    let mut files = Files::new();
    let rows = |n: usize, size: usize| {
        (0..n).map(|i| format!("{{\"id\":{i},\"t\":\"{}\"}}\n", "x".repeat(size))).collect::<String>()
    };
    let small = files.put("small.jsonl", rows(1000, 10), Format::JsonLines);
    let large = files.put("large.jsonl", rows(40, 300_000), Format::JsonLines);
    let table = files.put(
        "t.csv",
        format!("id,t\n{}", (0..40).map(|i| format!("{i},{}\n", "y".repeat(300_000))).collect::<String>()),
        Format::Csv,
    );
    files.infer(&[small.clone(), large.clone(), table.clone()]).expect("infers");
    let config = ReadConfig::new().with_batch_rows(300).with_batch_bytes(1 << 20);
    let shape = |file: &SourceFile| {
        let batches = files.read(file, &config).expect("reads");
        join(&batches, &config, 0);
        batches.iter().map(|(_, b)| b.num_rows()).collect::<Vec<_>>()
    };
    assert_eq!(shape(&small), [300, 300, 300, 100]);
    assert_eq!(shape(&large), [4; 10]);
    assert_eq!(shape(&table), [4; 10]);
    for start in [1, 299, 300, 999] {
        let mut reader = files.open(&small, &config).expect("opens");
        reader.skip_to(start).expect("skips");
        let rest = join(&drain(reader.as_mut()).expect("reads"), &config, start);
        let ids = rest.column(0).as_primitive::<Int64Type>();
        assert_eq!((ids.value(0), rest.num_rows() as u64), (start as i64, 1000 - start));
    }
    let mut reader = files.open(&small, &config).expect("opens");
    reader.skip_to(5000).expect("skips");
    assert!(reader.next().expect("ends").is_none());

    let one = config.clone().with_columns(Some(vec!["id".to_owned()]));
    let found = join(&files.read(&small, &one).expect("reads"), &one, 0);
    assert_eq!((found.num_columns(), found.num_rows()), (1, 1000));
}

#[test]
fn what_breaks_the_format_names_file_and_line() {
    let cases: Vec<(&str, Result<RecordBatch, Error>, &str)> = vec![
        ("not an object", json("{\"a\":1}\n\n[1]\n"), "line=3"),
        ("a bare value", json("{\"a\":1}\n7\n"), "line=2"),
        ("cut off", json("{\"a\":1}\n{\"a\":"), "line=2"),
        ("rubbish behind", json("{\"a\":1} x\n"), "line=1"),
        ("broken escape", json("{\"a\":\"\\q\"}\n"), "line=1"),
        ("leading zeros", json("{\"a\":01}\n"), "line=1"),
        ("no UTF-8", read_one("f.jsonl", b"{\"a\":1}\n{\"a\":\"\xff\"}\n".to_vec(), Format::JsonLines), "line=2"),
        ("more fields", csv("a,b\n1,2\n\"x\ny\",2,3\n"), "line=3"),
        ("fewer fields", csv("a,b\n1,2\n1\n"), "line=3"),
        ("an empty name", csv("a,,c\n1,2,3\n"), "line=1"),
        ("a doubled name", csv("a,b,a\n1,2,3\n"), "line=1"),
        ("no UTF-8 in a field", read_one("f.csv", b"a\n1\n\xff\n".to_vec(), Format::Csv), "line=3"),
    ];
    for (what, result, place) in cases {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::BadData, "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains("file=memory://t/f.") && text.ends_with(place), "{what}: {text}");
        assert!(!text.contains('\n'), "{what}: {text}");
        assert!(error.hint().is_some(), "{what}");
    }
}

#[test]
fn later_values_that_do_not_fit_name_the_column() {
    let early_json: String = (0..1200)
        .map(|i| format!("{{\"pad\":\"{}\",\"i\":{i},\"f\":0.5,\"b\":true,\"n\":{{\"x\":[1]}}}}\n", "x".repeat(1000)))
        .collect();
    let early_csv =
        format!("pad,i,f,b\n{}", (0..1200).map(|i| format!("{},{i},0.5,true\n", "x".repeat(1000))).collect::<String>());
    assert!(early_json.len() > 1 << 20 && early_csv.len() > 1 << 20);
    let late_json = [
        (r#"{"i": 1.5}"#, "column=i type=Int64 value=\"1.5\""),
        (r#"{"i": 9223372036854775808}"#, "column=i type=Int64"),
        (r#"{"i": "7"}"#, "column=i type=Int64"),
        (r#"{"f": 9007199254740993}"#, "column=f type=Float64"),
        (r#"{"f": 1e999}"#, "column=f type=Float64"),
        (r#"{"b": 1}"#, "column=b type=Boolean"),
        (r#"{"n": {"x": [1, "a"]}}"#, "column=n.x type=Int64"),
        (r#"{"n": {"y": 1}}"#, "column=n.y"),
        (r#"{"n": 5}"#, "column=n type=Struct"),
        (r#"{"new": 5}"#, "column=new"),
    ];
    let late_csv = [
        ("p,1.5,1,true", "column=i type=Int64"),
        ("p,007,1,true", "column=i"),
        ("p,1,x,true", "column=f type=Float64"),
        ("p,1,1,yes", "column=b type=Boolean value=\"yes\""),
    ];
    let json = late_json
        .iter()
        .map(|(row, place)| ("f.jsonl", format!("{early_json}{row}\n"), Format::JsonLines, 1201, *place));
    let csv = late_csv.iter().map(|(row, place)| ("f.csv", format!("{early_csv}{row}\n"), Format::Csv, 1202, *place));
    for (name, text, format, line, place) in json.chain(csv) {
        let error = read_one(name, text, format).expect_err(place);
        assert_eq!(error.kind(), ErrorKind::BadData);
        let text = error.to_string();
        assert!(
            text.contains(&format!("file=memory://t/{name} line={line} ")) && text.contains(place),
            "{text} / {place}"
        );
        assert!(error.hint().is_some());
    }
    // A column that is not known may come as long as it is null, and text takes everything.
    let fits = format!("{early_json}{}\n", r#"{"new": null, "n": {"y": null}}"#);
    assert_eq!(read_one("f.jsonl", fits, Format::JsonLines).expect("reads").num_rows(), 1201);
}

#[test]
fn a_row_without_end_is_refused_before_it_fills_the_memory() {
    let mut files = Files::new();
    for (name, start, format) in
        [("open.csv.zst", "a,b\n1,\"", Format::Csv), ("open.jsonl.zst", "{\"a\":\"", Format::JsonLines)]
    {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("starts");
        encoder.write_all(start.as_bytes()).expect("compresses");
        for _ in 0..257 {
            encoder.write_all(&[b'x'; 1 << 20]).expect("compresses");
        }
        let file = files.put(name, encoder.finish().expect("compresses"), format);
        let error = files.infer(&[file]).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
        assert!(error.to_string().contains("longer than 268435456 bytes"), "{error}");
    }
}

#[test]
fn a_text_file_needs_its_schema_and_must_not_change() {
    let mut files = Files::new();
    let text: String = (0..15_000)
        .map(|i| {
            format!(
                "{{\"id\":{i},\"pad\":\"{}\"}}
",
                "x".repeat(1000)
            )
        })
        .collect();
    let file = files.put("f.jsonl", text, Format::JsonLines);
    let error = files.open(&file, &ReadConfig::new()).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    files.infer(std::slice::from_ref(&file)).expect("infers");
    let mut reader = files.open(&file, &ReadConfig::new()).expect("opens");
    reader.next().expect("reads").expect("rows");
    files.replace("f.jsonl", "{\"id\":1}\n");
    assert_eq!(drain(reader.as_mut()).expect_err("changed").kind(), ErrorKind::Conflict);
}
