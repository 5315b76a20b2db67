//! Children that speak JSON lines: answers and their types.

mod child_process;
mod sample_types;

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, UInt64Type};
use checkpoint_pipeline::transform::{Batch, ExecFormat, ProcessPool, Transform};
use child_process::{batch, fails, json, jsonl, one, python, rows};
use sample_types::many_types;
use serde_json::json;

#[tokio::test]
async fn cat_is_the_identity_for_every_type() {
    let records = many_types();
    let pool = jsonl("exec cat");
    for part in [records.clone(), records.slice(1, 3)] {
        let answer = one(&pool, Batch::new(part.clone(), "k")).await;
        assert_eq!(answer.schema_ref().fields(), part.schema_ref().fields());
        for (field, (got, sent)) in part.schema_ref().fields().iter().zip(answer.columns().iter().zip(part.columns())) {
            assert_eq!(got, sent, "{}", field.name());
        }
    }
    assert_eq!(pool.output_schema().expect("is known").fields(), records.schema_ref().fields());
    pool.close().await.expect("closes");
}

#[tokio::test]
async fn more_types_come_back_as_they_went() {
    let runs = RunArray::<arrow::datatypes::Int32Type>::try_new(
        &Int32Array::from(vec![2, 3]),
        &StringArray::from(vec![Some("a"), None]),
    );
    let halves = arrow::compute::cast(&Float32Array::from(vec![0.5, -2.0, 65504.0]), &DataType::Float16);
    let sent = batch(vec![
        ("duration", Arc::new(DurationMicrosecondArray::from(vec![Some(i64::MAX), None, Some(-1)])) as ArrayRef),
        ("half", halves.expect("casts")),
        ("runs", Arc::new(runs.expect("valid"))),
        ("wide", Arc::new(Decimal256Array::from_iter_values([1, -10, 0].map(arrow::datatypes::i256::from_i128)))),
        (
            "large_list",
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>([None, Some(vec![]), Some(vec![Some(1)])])),
        ),
        (
            "pairs",
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(
                [Some(vec![Some(0.1), None]), None, Some(vec![Some(1e300), Some(2.0)])],
                2,
            )),
        ),
    ]);
    let answer = one(&jsonl("exec cat"), sent.clone()).await;
    for (field, (got, sent)) in answer.schema().fields().iter().zip(answer.columns().iter().zip(sent.records.columns()))
    {
        assert_eq!(got.data_type(), sent.data_type(), "{}", field.name());
        assert_eq!(got, sent, "{}", field.name());
    }
}

#[tokio::test]
async fn rows_can_be_mapped_dropped_and_multiplied() {
    let pool = jsonl(&python(
        "row[\"length\"] = len(row[\"text\"]); del row[\"text\"]; i = row[\"_ckpt\"][\"row\"]\n\
         row = None if i % 4 == 1 else [] if i % 4 == 2 else [row, row] if i % 4 == 3 else row",
    ));
    let answer = one(&pool, rows(0, 8)).await;
    let of = |id: i64| json!({"id": id, "length": 6});
    assert_eq!(json(&answer), [of(0), of(3), of(3), of(4), of(7), of(7)]);
    assert_eq!(answer.column(1).data_type(), &DataType::Int64);
    // Everything dropped is no batch, and says nothing about types.
    let dropping = jsonl(&python("row = None"));
    assert!(dropping.apply(rows(0, 3)).await.expect("answers").is_empty());
    assert_eq!(dropping.output_schema(), None);
    assert!(dropping.apply(rows(0, 0)).await.expect("answers").is_empty());
}

#[tokio::test]
async fn the_key_and_the_place_of_each_row_are_given() {
    let pool = jsonl(&python("row = {\"key\": row[\"_ckpt\"][\"idempotency_key\"], \"of\": row[\"_ckpt\"][\"rows\"]}"));
    assert_eq!(json(&one(&pool, rows(0, 2)).await), vec![json!({"key": "key-1", "of": 2}); 2]);
}

#[tokio::test]
async fn integers_beyond_floats_stay_exact() {
    let big = 9_007_199_254_740_993;
    let sent = batch(vec![
        ("i", Arc::new(Int64Array::from(vec![big, i64::MIN])) as ArrayRef),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1]))),
    ]);
    let pool = jsonl(&python("row[\"new_i\"] = row[\"i\"]; row[\"new_u\"] = row[\"u\"]"));
    let answer = one(&pool, sent.clone()).await;
    assert_eq!(answer.column(0), sent.records.column(0));
    assert_eq!(answer.column(1), sent.records.column(1));
    assert_eq!(
        answer.column_by_name("new_i").expect("is there").as_primitive::<Int64Type>().values(),
        &[big, i64::MIN]
    );
    let new_u = answer.column_by_name("new_u").expect("is there");
    assert_eq!(new_u.as_primitive::<UInt64Type>().values(), &[u64::MAX, u64::MAX - 1]);
    let error = fails(&jsonl(&python("row[\"n\"] = 2 ** 64")), rows(0, 1)).await;
    assert!(error.message().contains("64 bits") && error.message().contains("column=n"), "{error}");
}

#[tokio::test]
async fn new_columns_are_typed_by_the_first_answer_and_kept() {
    let pool = jsonl(&python(
        "i = row[\"id\"]\nrow = {\"score\": 0.5, \"tags\": [\"\u{e9}\"], \"meta\": {\"n\": i}, \"ok\": True, \"none\": None, \"id\": i}\n\
         if i >= 10: row = {\"id\": i, \"score\": 1}",
    ));
    let first = one(&pool, rows(0, 2)).await;
    let names: Vec<_> = first.schema_ref().fields().iter().map(|f| f.name().as_str().to_owned()).collect();
    assert_eq!(names, ["id", "score", "tags", "meta", "ok", "none"]);
    assert_eq!(first.column_by_name("none").expect("is there").data_type(), &DataType::Utf8);
    // Later rows: an integer where floats are, and members left out.
    let later = one(&pool, rows(10, 1)).await;
    assert_eq!(later.schema(), first.schema());
    assert_eq!(later.column(1).as_primitive::<Float64Type>().values(), &[1.0]);
    assert!(later.columns()[2..].iter().all(|column| column.null_count() == 1));
}

#[tokio::test]
async fn later_answers_of_other_types_name_the_column_and_both_types() {
    for (body, column, words) in [
        ("row[\"v\"] = 1 if row[\"id\"] < 10 else 0.5", "column=v", "a float \"0.5\" where the column has Int64"),
        ("row[\"v\"] = 1.5 if row[\"id\"] < 10 else \"x\"", "column=v", "where the column has Float64"),
        ("row[\"v\"] = {\"a\": 1}\nif row[\"id\"] >= 10: row[\"v\"][\"b\"] = 2", "column=v.b", "does not have"),
        ("row[\"v\"] = [1]\nif row[\"id\"] >= 10: row[\"v\"] = [[1]]", "column=v[]", "a list"),
        ("if row[\"id\"] >= 10: row[\"late\"] = 1", "column=late", "earlier answers did not have"),
        ("if row[\"id\"] < 10: del row[\"text\"]", "column=text", "earlier answers did not have"),
        ("row[\"id\"] = str(row[\"id\"])", "column=id", "where the column has Int64"),
        ("row[\"text\"] = 5", "column=text", "an integer \"5\" where the column has Utf8"),
    ] {
        let pool = jsonl(&python(body));
        let error = match pool.apply(rows(8, 2)).await {
            Ok(_) => fails(&pool, rows(10, 2)).await,
            Err(error) => error,
        };
        assert!(error.message().contains(column) && error.message().contains(words), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
}

#[tokio::test]
async fn a_schema_that_is_known_from_before_holds_from_the_first_answer() {
    let known = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("score", DataType::Float32, false),
        Field::new("at", DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("+01:00".into())), true),
    ]);
    let pool = |body: &str| jsonl(&python(body)).with_output_schema(&known);
    let works = pool("row = {\"id\": row[\"id\"], \"score\": 1, \"at\": \"2020-01-01T01:00:00+01:00\"}");
    let answer = one(&works, rows(0, 1)).await;
    let types: Vec<_> = answer.schema_ref().fields().iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, known.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>());
    assert_eq!(answer.column(2).as_primitive::<arrow::datatypes::TimestampSecondType>().values(), &[1_577_836_800]);
    assert_eq!(works.output_schema().expect("was given").fields().len(), 3);
    let error = fails(&pool("row = {\"id\": row[\"id\"], \"score\": \"high\"}"), rows(0, 1)).await;
    assert!(error.message().contains("Float32"), "{error}");
}

#[tokio::test]
async fn text_of_every_kind_survives() {
    let odd = ["\u{e9}", "e\u{301}", "\u{1F600}\u{200D}", "\u{2028}\u{7f}\u{0}", "\"\\\n\r\t", "", "null"];
    let sent = batch(vec![("t", Arc::new(StringArray::from(odd.to_vec())) as ArrayRef)]);
    for command in ["exec cat".to_owned(), python("row[\"t\"] = row[\"t\"]"), "exec jq -c .".to_owned()] {
        assert_eq!(one(&jsonl(&command), sent.clone()).await.columns(), sent.records.columns(), "{command}");
    }
}

#[tokio::test]
async fn lines_that_are_no_answers_are_quoted() {
    for (command, words) in [
        (python("row = 5"), "not an object, line=0 output=\"5\""),
        (python("row = [[1]]"), "an array holds what is no object"),
        (python("print(\"loading model\")"), "not JSON at column 1, line=0 output=\"loading model\""),
        ("exec sed -u 's/.*//'".to_owned(), "it is empty"),
        ("exec sed -u 's/.*/{\"a\": 1/'".to_owned(), "not JSON"),
        ("exec sed -u 's/.*/{\"a\": \"\\xff\"}/'".to_owned(), "not UTF-8"),
        ("exec sed -u 's/.*/{\"a\": 1, \"a\": 2}/'".to_owned(), "twice"),
        ("exec sed -u 's/.*/{}/'".to_owned(), "without any column"),
    ] {
        let error = fails(&jsonl(&command), rows(0, 2)).await;
        assert!(error.message().contains(words), "{command}: {error}");
        assert!(!error.message().contains('\n'));
    }
    let error = fails(&jsonl("exec sed -u 's/.*/no json \\x01 éé/'"), rows(0, 1)).await;
    assert!(error.message().contains("output=\"no json \\u{1} "), "{error}");
}

#[tokio::test]
async fn answers_out_of_order_are_found_where_rows_say_their_place() {
    let swapped = "exec python3 -c '\nimport sys, json\nwhile True:\n    a, b = sys.stdin.readline(), sys.stdin.readline()\n    if not b: break\n    print(b + a, end=\"\")\n'";
    let error = fails(&jsonl(swapped), rows(0, 2)).await;
    assert!(error.message().contains("is that of row 1"), "{error}");
    // Whatever else stands there is not looked at.
    let pool = jsonl(&python("row[\"_ckpt\"] = {\"mine\": 1}"));
    assert_eq!(one(&pool, rows(0, 2)).await.num_columns(), 2);
}

#[tokio::test]
async fn too_many_lines_fail_the_batch() {
    let error = fails(&jsonl("exec sed -u 'p'"), rows(0, 100)).await;
    // Row 0 twice: the second stands where row 1 belongs.
    assert!(error.message().contains("row 0"), "{error}");
    // In one write, so that the line too many comes together with the last answer.
    let body = "row = {\"id\": row[\"id\"]}\nif row[\"id\"] == 9: print(json.dumps(row) + \"\\n{}\"); continue";
    let error = fails(&jsonl(&python(body)), rows(0, 10)).await;
    assert!(error.message().contains("wrote more than its answer"), "{error}");
}

#[tokio::test]
async fn workers_share_what_the_first_answer_established() {
    let pool = ProcessPool::new(
        &python("row[\"worker\"] = int(os.environ[\"CKPT_WORKER\"]); time.sleep(0.02)"),
        ExecFormat::JsonLines,
        3,
    );
    let pool = Arc::new(pool.expect("valid"));
    let tasks: Vec<_> = (0..12)
        .map(|i| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { (i, one(&pool, rows(i * 10, 5)).await) })
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    for task in tasks {
        let (i, answer) = task.await.expect("runs");
        assert_eq!(answer.column(0).as_primitive::<Int64Type>().value(0), i * 10);
        assert_eq!(Some(answer.schema()), pool.output_schema());
        seen.insert(answer.column(2).as_primitive::<Int64Type>().value(0));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test]
async fn large_batches_do_not_block_and_long_lines_pass() {
    let texts: Vec<String> = (0..5).map(|i| char::from(b'a' + i).to_string().repeat(10 << 20)).collect();
    let sent = batch(vec![("t", Arc::new(LargeStringArray::from(texts)) as ArrayRef)]);
    let pool = jsonl("exec cat");
    let answer = pool.apply(sent.clone()).await.expect("answers");
    let all = arrow::compute::concat_batches(&answer[0].schema(), &answer).expect("one schema");
    assert_eq!(all.columns(), sent.records.columns());
    // Many short rows, with a child that answers only after it has read a lot.
    let answer = one(&jsonl("exec cat"), rows(0, 200_000)).await;
    assert_eq!(answer.num_rows(), 200_000);
}
