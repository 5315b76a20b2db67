use tempfile::TempDir;

use super::*;
use crate::ErrorKind;

/// A home directory with these two files.
fn home(config: &str, credentials: &str) -> (TempDir, Environment) {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(home.path().join(".aws")).expect("writable");
    for (name, text) in [("config", config), ("credentials", credentials)] {
        std::fs::write(home.path().join(".aws").join(name), text).expect("writable");
    }
    let environment = with(&home, &[]);
    (home, environment)
}

fn with(home: &TempDir, variables: &[(&str, &str)]) -> Environment {
    let path = home.path().to_str().expect("UTF-8");
    [("HOME", path)].iter().chain(variables).copied().collect()
}

fn named(name: &str) -> Setting<String> {
    Setting::new(name.to_owned(), "options: profile")
}

fn profile(files: &AwsFiles, name: &str) -> AwsProfile {
    files.profile(Some(&named(name)), &Environment::default()).expect(name)
}

#[test]
fn sections_of_the_config_file() {
    let (_home, environment) = home(
        "[default]\nregion = first\n[profile default]\nregion = second\n\
         [profile 'my work']\nregion = w\n[profile a b]\nregion = x\n[profilec]\nregion = x\n[profiles d]\nregion = d\n\
         [profile \"\"]\nregion = empty\n[plain]\nregion = x\n\
         [sso-session s]\nsso_region = r\n[services v]\ns3 =\n  endpoint_url = http://v\n",
        "",
    );
    let files = AwsFiles::load(&environment).expect("valid");
    assert_eq!(files.profiles.keys().collect::<Vec<_>>(), ["", "d", "default", "my work"]);
    for (name, region) in [("default", "second"), ("my work", "w"), ("d", "d"), ("", "empty")] {
        assert_eq!(profile(&files, name).get("region"), Some(region), "{name:?}");
    }
    assert!(files.sso_sessions.contains_key("s") && files.services.contains_key("v"));
}

#[test]
fn the_credentials_file_is_merged_over_profiles_by_its_whole_headers() {
    let (_home, environment) = home(
        "[profile a]\nregion = config\noutput = json\n",
        "[a]\nREGION = credentials\n[profile a]\nregion = other\n[b]\n",
    );
    let files = AwsFiles::load(&environment).expect("valid");
    let a = profile(&files, "a");
    assert_eq!((a.get("region"), a.get("output")), (Some("credentials"), Some("json")));
    assert_eq!(profile(&files, "profile a").get("region"), Some("other"));
    assert_eq!(profile(&files, "b").get("region"), None);
    assert!(files.config_profiles.contains_key("a") && !files.config_profiles.contains_key("b"));
}

#[test]
fn which_profile() {
    let (home, _) = home("[profile a]\n[profile b]\n[profile c]\n", "");
    let choose = |explicit: Option<&str>, variables: &[(&str, &str)]| {
        let environment = with(&home, variables);
        AwsFiles::load(&environment)?.profile(explicit.map(named).as_ref(), &environment)
    };
    let both = [("AWS_DEFAULT_PROFILE", "b"), ("AWS_PROFILE", "c")];
    for (explicit, variables, name, source) in [
        (Some("a"), &both[..], "a", Some("options: profile")),
        (None, &both[..], "b", Some("environment: AWS_DEFAULT_PROFILE")),
        (None, &both[1..], "c", Some("environment: AWS_PROFILE")),
        (None, &[], "default", None),
    ] {
        let found = choose(explicit, variables).expect(name);
        assert_eq!((found.name(), found.source(), found.is_explicit()), (name, source, explicit.is_some()));
    }
    for (explicit, variables) in [
        (Some("x"), &[][..]),
        (Some("default"), &[]),
        (Some(""), &[]),
        (None, &[("AWS_PROFILE", "x")]),
        (None, &[("AWS_PROFILE", "")]),
        (None, &[("AWS_DEFAULT_PROFILE", ""), ("AWS_PROFILE", "c")]),
    ] {
        let error = choose(explicit, variables).expect_err("no such profile");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.hint().is_some_and(|hint| hint.ends_with("there are: a, b, c")), "{error:?}");
    }
}

#[test]
fn settings_of_blocks_and_services() {
    let (_home, environment) = home(
        "[profile a]\ns3 =\n  addressing_style = virtual\nservices = v\nendpoint_url = http://own\n\
         [profile b]\nservices = missing\n[profile c]\nservices = v\n[profile e]\nservices = empty\n\
         [services v]\ns3 =\n  endpoint_url = http://v\n[services empty]\n",
        "",
    );
    let files = AwsFiles::load(&environment).expect("valid");
    let a = profile(&files, "a");
    assert_eq!((a.get("s3"), a.nested("s3", "addressing_style")), (None, Some("virtual")));
    assert_eq!((a.nested("s3", "other"), a.nested("region", "x")), (None, None));
    assert_eq!(a.endpoint_url("s3").expect("valid"), Some(("http://v", "profile: services")));
    assert_eq!(a.endpoint_url("sts").expect("valid"), Some(("http://own", "profile: endpoint_url")));
    assert_eq!(profile(&files, "c").endpoint_url("sts").expect("valid"), None);
    for name in ["b", "e"] {
        assert_eq!(profile(&files, name).endpoint_url("s3").expect_err(name).kind(), ErrorKind::InvalidConfig);
    }
}

#[test]
fn files_where_the_variables_say() {
    let (home, _) = home("[default]\nregion = wrong\n", "");
    let elsewhere = home.path().join("elsewhere");
    std::fs::write(&elsewhere, "[default]\nregion = right\n").expect("writable");
    for (path, region) in [("~/elsewhere", Some("right")), ("$HOME/elsewhere", Some("right")), ("", None), ("~", None)]
    {
        let environment = with(&home, &[(CONFIG_FILE, path)]);
        let found = AwsFiles::load(&environment).expect("valid").profile(None, &environment).expect("valid");
        assert_eq!(found.get("region"), region, "{path:?}");
    }
    assert!(AwsFiles::load(&Environment::default()).expect("no home, no files").profiles.is_empty());
}

#[test]
fn a_broken_file_is_named_with_its_line_and_no_value() {
    for broken in ["[a]\nx = hunter2\n[a]\n", "[a]\nhunter2\n"] {
        for (config, credentials, name) in [(broken, "", "config line="), ("", broken, "credentials line=")] {
            let (_home, environment) = home(config, credentials);
            let error = AwsFiles::load(&environment).expect_err("broken");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(name), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
    let (home, environment) = home("", "");
    std::fs::write(home.path().join(".aws/config"), b"[a]\nx = \xff\n").expect("writable");
    assert!(AwsFiles::load(&environment).expect_err("no text").to_string().ends_with("line=2"));
}

#[test]
fn debug_shows_no_value() {
    let (_home, environment) = home("", "[default]\naws_secret_access_key = hunter2\n");
    let files = AwsFiles::load(&environment).expect("valid");
    let shown = format!("{files:?} {:?}", profile(&files, "default"));
    assert!(shown.contains("default") && !shown.contains("hunter2"), "{shown}");
}
