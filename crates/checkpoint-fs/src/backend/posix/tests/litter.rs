use super::super::litter::Maker;
use super::*;

#[tokio::test]
async fn the_first_write_to_a_directory_removes_what_dead_processes_left_there() {
    let (dir, storage) = scratch();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("d")).expect("made");
    let (dead, live, foreign) = (Maker::ended().name(), Maker::current().name(), Maker::elsewhere().name());
    for name in [&dead, &live, &foreign] {
        std::fs::write(root.join("d").join(name), "1").expect("writes");
    }
    std::fs::write(root.join(&dead), "1").expect("writes");
    put(&storage, "d/x", "1").await;
    let mut expected =
        vec![dead.clone(), "d".to_owned(), format!("d/{live}"), format!("d/{foreign}"), "d/x".to_owned()];
    expected.sort();
    assert_eq!(on_disk(&root), expected, "the other directory was not written to");
}

#[tokio::test]
async fn sweeping_removes_the_old_litter_of_other_machines_and_no_live_file() {
    let (dir, storage) = scratch();
    put(&storage, "d/e/x", "1").await;
    let root = dir.path().join("root");
    let (dead, live, foreign) = (Maker::ended().name(), Maker::current().name(), Maker::elsewhere().name());
    for name in [&dead, &live, &foreign] {
        std::fs::write(root.join("d/e").join(name), "1").expect("writes");
    }
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let hour = Duration::from_secs(3600);
    assert_eq!(storage.sweep_litter(&path("d"), hour).await.expect("sweeps"), 1, "the dead one, whatever its age");
    for name in [&live, &foreign] {
        let file = std::fs::File::options().write(true).open(root.join("d/e").join(name)).expect("opens");
        file.set_modified(old).expect("sets");
    }
    assert_eq!(storage.sweep_litter(&ObjectPath::root(), hour).await.expect("sweeps"), 1);
    assert_eq!(on_disk(&root), ["d", "d/e", format!("d/e/{live}").as_str(), "d/e/x"]);
    assert_eq!(storage.sweep_litter(&path("none"), hour).await.expect("nothing there"), 0);
}

#[tokio::test]
async fn a_directory_with_nothing_but_litter_can_be_deleted() {
    let (dir, storage) = scratch();
    std::fs::create_dir_all(dir.path().join("root/d")).expect("made");
    std::fs::write(dir.path().join("root/d").join(Maker::ended().name()), "1").expect("writes");
    storage.delete(&path("d"), DeleteOptions::new()).await.expect("deletes");
    assert_eq!(on_disk(&dir.path().join("root")), [""; 0]);
}
