"""Every relative link in the README, in CONTRIBUTING and in docs/ leads somewhere."""

from pathlib import Path

import pytest

from tests.docs.links import broken_links

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, ROOT) == []


def test_decisions_are_all_in_their_list() -> None:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    assert [page.name for page in sorted(folder.glob("[0-9]*.md")) if f"({page.name})" not in listed] == []


def test_glossary_is_in_order_and_names_nothing_twice() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [line.split("**")[1] for line in lines if line.startswith("| **")]
    assert words
    assert words == sorted(set(words))


@pytest.mark.parametrize(
    "target",
    [
        "missing.md",
        "there.md#no-such-heading",
        "#no-such-heading",
        "../outside.md",
        "folder/missing.png",
        "picture.png#part",
    ],
)
def test_a_broken_link_is_found(target: str, tmp_path: Path) -> None:
    root = make_pages(tmp_path, f"See [it]({target}), or not.")
    assert broken_links(root / "page.md", root) == [target]


@pytest.mark.parametrize(
    "target",
    ["there.md", "there.md#the-2nd-part-of-it", "#a-page", "folder/", "https://example.org/x#y", "mailto:a@example.org"],
)
def test_a_good_link_is_left_alone(target: str, tmp_path: Path) -> None:
    root = make_pages(tmp_path, f"See [it]({target}), or not.")
    assert broken_links(root / "page.md", root) == []


def test_links_in_code_are_no_links_and_references_are(tmp_path: Path) -> None:
    root = make_pages(tmp_path, "`[a](b.md)`\n\n```\n[c](d.md)\n```\n\n[word][e]\n\n[e]: f.md\n")
    assert broken_links(root / "page.md", root) == ["f.md"]


def make_pages(folder: Path, text: str) -> Path:
    root = folder / "root"
    (root / "folder").mkdir(parents=True)
    (folder / "outside.md").write_text("# Outside\n")
    (root / "there.md").write_text("# There\n\n## The 2nd part, of it\n")
    (root / "picture.png").write_bytes(b"")
    (root / "page.md").write_text(f"# A page\n\n{text}\n")
    return root
