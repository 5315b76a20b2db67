"""Every case of others' suites that is not run, and why. fsspec's abstract suites: none."""

_NO_EMPTY_DIRECTORIES = (
    "wants a directory that nothing is in. Object stores have none: what pyarrow's own S3 filesystem writes in its "
    "place is an object, which others would see and which a job would have to clean up. "
    "test_arrow.py has the same with a file in each directory"
)

_OF_DIRECTORIES = [
    "test_filesystem_is_functional_after_pickling[{store}-True]",
    "test_filesystem_is_functional_after_pickling[{store}-False]",
    "test_get_file_info[{store}]",
    "test_get_file_info_with_selector[{store}]",
    "test_create_dir[{store}]",
    "test_delete_dir[{store}]",
    "test_delete_dir_with_explicit_subdir[{store}]",
    "test_delete_dir_contents[{store}]",
]

#: By file and case: the reason.
SKIPPED = {
    ("test_arrow_own_tests.py", case.format(store=store)): _NO_EMPTY_DIRECTORIES
    for store in ("memory", "s3")
    for case in _OF_DIRECTORIES
}
