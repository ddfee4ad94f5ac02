//! The store in a file.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use oxferry_state::{
    Advanced, Checkpoint, CheckpointStore, FileStore, FileStoreError, JobIdentity, conformance,
};
use tempfile::TempDir;

fn store() -> (TempDir, FileStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path().join("job.json"));
    (folder, store)
}

fn temporary(folder: &TempDir) -> PathBuf {
    folder.path().join("job.json.tmp")
}

#[tokio::test]
async fn the_file_store_keeps_the_contract() {
    let (_folder, store) = store();
    conformance::all(&store).await;
}

#[tokio::test]
async fn only_the_owner_can_read_the_file_and_nothing_else_is_left() {
    let (folder, store) = store();
    // A crash left a half-written file that everybody can read.
    fs::write(temporary(&folder), "{\"format\"").unwrap();
    fs::set_permissions(temporary(&folder), fs::Permissions::from_mode(0o644)).unwrap();
    let advanced = store.advance(&conformance::sample(1)).await.unwrap();
    assert_eq!(advanced, Advanced::Durable);
    let mode = fs::metadata(store.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!temporary(&folder).exists());
}

#[tokio::test]
async fn a_crash_while_writing_leaves_the_checkpoint_before() {
    let (folder, store) = store();
    let _durable = store.advance(&conformance::sample(1)).await.unwrap();
    fs::write(temporary(&folder), "{\"format\"").unwrap();
    assert_eq!(store.load().await.unwrap(), Some(conformance::sample(1)));
}

#[tokio::test]
async fn another_jobs_file_is_left_alone() {
    let (_folder, store) = store();
    let _durable = store.advance(&conformance::sample(1)).await.unwrap();
    let mut other = Checkpoint::new(JobIdentity::migrate(vec![], vec![]), "1", "u");
    other.stamp("2026-01-31T12:00:00Z");
    assert!(matches!(
        store.advance(&other).await,
        Err(FileStoreError::OtherJob { .. })
    ));
    assert_eq!(store.load().await.unwrap(), Some(conformance::sample(1)));
}

#[tokio::test]
async fn a_file_that_is_no_checkpoint_is_not_overwritten() {
    let (_folder, store) = store();
    fs::write(store.path(), "my shopping list").unwrap();
    assert!(store.advance(&conformance::sample(1)).await.is_err());
    let kept = fs::read_to_string(store.path()).unwrap();
    assert_eq!(kept, "my shopping list");
}

#[tokio::test]
async fn a_missing_folder_is_an_error_that_names_the_file() {
    let (folder, _) = store();
    let store = FileStore::new(folder.path().join("no/job.json"));
    let error = store.advance(&conformance::sample(1)).await.unwrap_err();
    assert!(error.to_string().contains("no/job.json"), "{error}");
}
