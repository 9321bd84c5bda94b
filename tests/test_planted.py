"""The table of planted errors fits the package as it is now."""

from collections import Counter

from tests import ROOT, planted


def test_each_error_replaces_a_text_that_occurs_once():
    names = [what for errors in planted.ERRORS.values() for *_, what in errors]
    assert len(names) == len(set(names)) == 121
    for file, errors in planted.ERRORS.items():
        text = (ROOT / "dpjax" / file).read_text()
        for old, new, what in errors:
            assert text.count(old) == 1 and new != old, f"{file}: {what}"
        assert (ROOT / planted.near(file)[0]).exists(), file


def test_errors_are_in_every_room():
    rooms = Counter(
        planted.room_of(file) for file, errors in planted.ERRORS.items() for _ in errors
    )
    paths = (ROOT / "dpjax").glob("[!_]*")
    assert set(rooms) == {planted.room_of(path.name) for path in paths if path.name != "py.typed"}
    assert min(rooms.values()) >= 2


def test_the_first_failure_is_read_from_the_output():
    output = (
        "FAILED tests/a.py::test_all[x - y] - assert 1 == 2\nERROR tests/b.py\n"
        "FAILED tests/a.py::test_one\n"
    )
    assert planted.failed(output)[1:] == ["tests/b.py", "tests/a.py::test_one"]
