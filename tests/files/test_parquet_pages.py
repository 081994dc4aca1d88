"""Headers of the pages of a Parquet file, written by hand: whatever else they hold, their sizes are read."""

import pytest

from mtbench.files.pages import unpacked_sizes

SIZES = bytes([0x25, 20, 0x15, 8])  # fields 2 and 3: zigzag numbers 10 and 4
MORE = bytes([0x11, 0x13, 7, 0x17, *range(8), 0x18, 2, 1, 1, 0x19, 0x21, 1, 2, 0x1A, 0xF5, 1, 6, 0x1C, 0x15, 2, 0])
"""Truth, a byte, a double, two bytes of text, a list of two truths, a set of one number, a structure of one number."""


@pytest.mark.parametrize("more", [b"", MORE], ids=["sizes", "every kind"])
def test_the_unpacked_size_of_each_page_is_read(more):
    page = SIZES + more + b"\0" + bytes(4)
    assert list(unpacked_sizes(b"xx" + page + page, 2, 2 * len(page))) == [10, 10]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no header"),
        (b"\x00", "no header"),
        (b"\x15" + b"\x80" * 11, "more than 64 bits"),
        (b"\x1d", "of another kind"),
        (bytes([0x25, 20, 0x15, 7, 0]), "negative size"),
    ],
)
def test_what_is_no_page_is_refused(data, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(unpacked_sizes(data, 0, max(1, len(data))))


def test_a_column_of_negative_size_is_refused():
    with pytest.raises(ValueError, match="negative size"):
        list(unpacked_sizes(b"", -1, 3))
