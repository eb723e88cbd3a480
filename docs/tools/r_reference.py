# SPDX-License-Identifier: Apache-2.0
"""Makes pages of the site of R's help: r_reference.py HTML_FOLDER OUTPUT_FOLDER.

R writes the HTML. Headings and code become Markdown, so that the site numbers, finds and colors
them; the rest stays HTML. ``r-package/_pkgdown.yml`` has the groups of the index.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

MAN = Path("r-package/man")
INDEX = """# R reference

Functions of the R package, by what they are for. `help(package = "sparkring")` lists them in R.
"""


def main(html: Path, output: Path) -> None:
    """Write a page for each topic, and the index."""
    output.mkdir(parents=True, exist_ok=True)
    titles = {}
    for page in sorted(html.glob("*.html")):
        topic = BeautifulSoup(page.read_text(), "html.parser")
        titles[page.stem] = " ".join(topic.h2.text.split())
        (output / f"{page.stem}.md").write_text(page_of(page.stem, topic))
    (output / "index.md").write_text(index_of(titles))


def page_of(name: str, topic: BeautifulSoup) -> str:
    """Return the page of a topic."""
    parts = [f"# {name}\n\n**{' '.join(topic.h2.text.split())}**\n"]
    rest: list[str] = []
    for node in topic.h2.find_next_siblings():
        if node.name in ("h3", "pre") or node.name == "hr":
            parts += raw(rest)
            rest = []
        if node.name == "h3":
            parts.append(f"## {node.text.strip()}\n")
        elif node.name == "pre":
            parts.append(f"```r\n{node.text.strip()}\n```\n")
        elif node.name == "hr":
            break  # then comes the name of the package
        else:
            rest.append(str(tidy(node)))
    return "\n".join(parts + raw(rest))


def raw(fragments: list[str]) -> list[str]:
    """Return fragments of HTML as one block."""
    return (
        [f'```{{raw}} html\n<div class="rd">{"".join(fragments)}</div>\n```\n'] if fragments else []
    )


def tidy(node: Tag) -> Tag:
    """Turn links to the pages of this package, and a table of arguments into a list.

    R keeps some code on one line, by a style and by characters that join words.
    """
    for code in node.find_all("code", style=True):
        del code["style"]
        code.string = code.text.strip("\u2060")
    for link in node.find_all("a"):
        target = link.get("href", "")
        if not target.startswith("http") and not (MAN / target).with_suffix(".Rd").exists():
            link.unwrap()  # of another package
    rows = node.find_all("tr", recursive=False) if node.name == "table" else []
    if not rows or any(len(row.find_all("td", recursive=False)) != 2 for row in rows):
        return node
    if not all(row.td.code and row.td.find_next_sibling("td").p for row in rows):
        return node
    made = BeautifulSoup("<dl></dl>", "html.parser").dl
    for row in rows:
        name, text = row.find_all("td", recursive=False)
        name.name, text.name = "dt", "dd"
        made.append(name)
        made.append(text)
    return made


def index_of(titles: dict[str, str]) -> str:
    """Return the index: a table for each group of ``_pkgdown.yml``."""
    topics = {
        alias: page.stem
        for page in MAN.glob("*.Rd")
        for alias in re.findall(r"\\alias\{(.+)\}", page.read_text())
    }
    parts, listed = [INDEX], set()
    for group in yaml.safe_load(Path("r-package/_pkgdown.yml").read_text())["reference"]:
        parts.append(f"## {group['title']}\n\n{group.get('desc', '')}\n\n| Topic | |\n|---|---|")
        for name in dict.fromkeys(topics[each] for each in group["contents"]):
            parts.append(f"| [{name}]({name}.md) | {titles[name]} |")
            listed.add(name)
        parts.append("")
    left = {*titles} - listed
    if left - {"sparkring-package"}:
        raise SystemExit(f"r-package/_pkgdown.yml does not list {', '.join(sorted(left))}")
    pages = "\n".join(sorted(titles))
    return "\n".join(parts) + f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
