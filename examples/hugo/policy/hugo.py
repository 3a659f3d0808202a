"""The operator's validators of the example site. They ask Hugo itself, and report each check by its id.

python3 hugo.py article|build|draft CANDIDATE
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ARTICLE = "content/posts/example-hugo.md"
TEXT = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)


def hugo(site, *arguments):
    """Run Hugo on a copy of the candidate."""
    command = ["/usr/bin/hugo", *arguments, "--source", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def front_matter(site):
    """Return the article's front matter and text; None if there is no article in the one form that is allowed."""
    path = site / ARTICLE
    found = TEXT.fullmatch(path.read_text("utf-8")) if path.is_file() else None
    return found.groups() if found else None


def article(site):
    """Is there an article, with a title and a text?"""
    found = front_matter(site)
    head, text = found or ("", "")
    return {"there": found is not None, "title": bool(re.search(r"(?m)^title: \S", head)), "text": bool(text.strip())}


def build(site):
    """Does the site build?"""
    ran = hugo(site, "--destination", tempfile.mkdtemp())
    print(ran.stdout, ran.stderr)
    return {"build": ran.returncode == 0}


def draft(site):
    """Is the article a draft, for a reader, for Hugo, and in what Hugo writes?"""
    if not (site / ARTICLE).exists():
        return {"declared": True, "known": True, "unseen": True}
    head = (front_matter(site) or ("", ""))[0]
    keys = [line for line in head.splitlines() if line.partition(":")[0].strip(" \"'").casefold() == "draft"]
    listed = hugo(site, "list", "drafts").stdout
    output = Path(tempfile.mkdtemp())
    hugo(site, "--destination", str(output))
    pages = [page.read_text("utf-8") for page in output.rglob("*.html")]
    unseen = not (output / "posts" / "example-hugo").exists() and not any("/example-hugo/" in page for page in pages)
    return {"declared": keys == ["draft: true"], "known": ARTICLE in listed, "unseen": bool(pages) and unseen}


def main():
    """Print the report, and end with 0 if every check is good, else with 1."""
    # Hugo writes beside the content, and the candidate can't be written to.
    site = Path(shutil.copytree(sys.argv[2], Path(tempfile.mkdtemp()) / "site", symlinks=True))
    checks = {"article": article, "build": build, "draft": draft}[sys.argv[1]](site)
    print(json.dumps({"checks": checks}))
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
