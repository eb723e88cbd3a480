# SPDX-License-Identifier: Apache-2.0
"""Makes pages of the site of the executed vignettes: guides.py KNIT_FOLDER SOURCE_FOLDER.

knitr has written a vignette and its results as Markdown. The title in its head becomes a heading,
and links between vignettes become links between pages. Other documents of the repository become
pages in the same way.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

PAGES = {  # of the site, by vignette
    "sparkring": "start/r",
    "python": "start/python",
    "train": "guides/dataframe",
    "data": "guides/parquet",
    "estimators": "guides/estimators",
    "talk": "guides/keras",
    "models": "guides/statistics",
    "inference": "guides/inference",
    "gpu": "guides/gpus",
    "mpi": "guides/mpi",
    "rendezvous": "deploy/rendezvous",
    "migration": "move/calls",
    "elsewhere": "move/systems",
    "failures": "troubleshoot/failures",
    "performance": "project/performance",
}
DOCUMENTS = {
    "CONTRIBUTING.md": "project/contributing",
    "RELEASE.md": "project/release",
    "SECURITY.md": "project/security",
    "CHANGELOG.md": "project/changelog",
}
FENCE = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)


def main(knit: Path, source: Path) -> None:
    """Write the pages."""
    titles = {name: title_of(Path(f"vignettes/{name}.Rmd").read_text()) for name in PAGES}
    for name in PAGES:
        text = (knit / f"{name}.md").read_text()
        body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        body = re.sub(r'<img src="(.+?)" alt="(.+?)" +/>', r"![\2](\1)", body)
        body = body.replace("{width=100%}", "")  # pandoc's; the style of the site fits pictures
        write(source, PAGES[name], f"# {titles[name]}\n{tabs(body)}", titles)
        for picture in re.findall(r"!\[.*?\]\((.+?)\)", body):
            target = (source / PAGES[name]).parent / picture
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(knit / picture, target)
    for path, page in DOCUMENTS.items():
        text = Path(path).read_text()
        write(source, page, text if page != "project/changelog" else changelog(text), titles)


def tabs(text: str) -> str:
    """Turn the pairs of code of pandoc, before and after, into tabs."""
    pairs = re.split(r"^:::: \{\.pair\}$", text, flags=re.MULTILINE)
    for i in range(1, len(pairs)):
        pair = pairs[i].replace("::: {}", ":::{tab-item} Before", 1)
        pairs[i] = "::::{tab-set}" + pair.replace("::: {}", ":::{tab-item} With sparkring", 1)
    return "".join(pairs)


def title_of(text: str) -> str:
    """Return the title in the head of a vignette."""
    return re.search(r'^title: "(.*)"$', text, re.MULTILINE)[1]


def changelog(text: str) -> str:
    """Return the news of the R package as a page: a heading of its own, versions below."""
    return "# Changelog\n\n" + re.sub(r"^# ", "## ", text, flags=re.MULTILINE)


def write(source: Path, page: str, text: str, titles: dict[str, str]) -> None:
    """Write a page with links to other pages."""
    path = source / f"{page}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [linked(text[last : fence.start()], page, titles), fence[0]]
        last = fence.end()
    path.write_text("".join([*parts, linked(text[last:], page, titles)]))


def linked(text: str, page: str, titles: dict[str, str]) -> str:
    """Turn names and links of vignettes in prose into links to pages."""
    folder = page.rpartition("/")[0]

    def to(name: str) -> str:
        return os.path.relpath(f"{PAGES[name]}.md", folder or ".")

    def document(found: re.Match[str]) -> str:
        name = found[1]
        target = os.path.relpath(f"{DOCUMENTS[name]}.md", folder) if name in DOCUMENTS else name
        return f"]({target})"

    def link(found: re.Match[str]) -> str:
        name, anchor = found[1], (found[2] or "").replace(".", "")
        return f"]({to(name)}{anchor})" if name in PAGES else found[0]

    def named(found: re.Match[str]) -> str:
        name = found[1]
        return f"[{titles[name]}]({to(name)})" if name in PAGES else found[0]

    text = re.sub(r"\]\((?:vignettes/)?(\w+)\.(?:html|Rmd)(#[^)]*)?\)", link, text)
    text = re.sub(r"\]\(([A-Z]+\.md)\)", document, text)
    text = re.sub(r"\]\((#[^)]*)\)", lambda found: f"]({found[1].replace('.', '')})", text)
    return re.sub(r'`vignette\("(\w+)"(?:, "sparkring")?\)`', named, text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
