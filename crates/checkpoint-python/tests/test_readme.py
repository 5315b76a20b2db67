"""Every block of code in the README runs, in its order, as one program."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_readme_runs(tmp_path):
    text = README.read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5 and {language for language, _ in blocks} == {"python"}
    program = tmp_path / "readme.py"
    program.write_text("\n".join(code for _, code in blocks))
    ended = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_its_links_lead_somewhere():
    for page in (README, README.parents[2] / "docs" / "python.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), (page.name, link)
