//! Troubles that tests plan.

use anyhow::Result;
use checkpoint_testkit::mock::Trouble;

use crate::client::{BUCKET, cos};

#[test]
fn refusals_have_no_effect_and_pass() -> Result<()> {
    let (mock, client) = cos()?;
    for (trouble, expected) in
        [(Trouble::SlowDown, (503, "SlowDown")), (Trouble::InternalError, (500, "InternalError"))]
    {
        mock.trouble_next(trouble, 2);
        for _ in 0..2 {
            assert_eq!(client.ask("PUT", "/k", &[], b"x")?.short(), expected);
        }
        assert!(mock.names(BUCKET).0.is_empty());
    }
    assert_eq!(client.ask("PUT", "/k", &[], b"x")?.short(), (200, ""));
    Ok(())
}

#[test]
fn a_lost_answer_has_its_effect() -> Result<()> {
    let (mock, client) = cos()?;
    mock.trouble_next(Trouble::LostAnswer, 1);
    assert!(client.ask("PUT", "/k", &[], b"x").is_err(), "half of a head is no answer");
    assert_eq!(mock.names(BUCKET).0, ["k"]);
    Ok(())
}

#[test]
fn a_copy_can_fail_inside_of_a_success() -> Result<()> {
    let (mock, client) = cos()?;
    client.ask("PUT", "/source", &[], b"x")?;
    mock.fail_inside_next(1);
    let source = format!("/{BUCKET}/source");
    let copy = [("x-amz-copy-source", source.as_str())];
    assert_eq!(client.ask("PUT", "/k", &copy, b"")?.short(), (200, "InternalError"));
    assert_eq!(mock.names(BUCKET).0, ["source"]);
    assert!(client.ask("PUT", "/k", &copy, b"")?.body.contains("<CopyObjectResult>"));
    assert_eq!(mock.names(BUCKET).0, ["k", "source"]);
    Ok(())
}
