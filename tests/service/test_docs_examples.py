"""The examples of docs/serve.md, against a service."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from samespot.service.app import create_app
from samespot.service.options import ServeOptions
from tests.service.fuzz import served

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def address(street):
    with served(create_app(ServeOptions(maps=[str(street / "map")]))) as found:
        yield found


@pytest.fixture
def here(street, tmp_path, monkeypatch):
    from PIL import Image

    Image.open(street / "query03.png").convert("RGB").save(tmp_path / "query.jpg", quality=95)
    monkeypatch.chdir(tmp_path)


def blocks(language, address):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return [code.replace("http://localhost:8000", address) for code in found]


def test_curl(here, address):
    for block in blocks("shell", address):
        for line in block.splitlines():
            done = subprocess.run(
                ["bash", "-c", f"{line} --silent --fail-with-body"], capture_output=True, text=True
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            assert json.loads(done.stdout)


def test_python(here, address, capsys):
    for block in blocks("py", address):
        exec(compile(block, "serve.md", "exec"), {})
    assert capsys.readouterr().out.startswith("True 0.")


def test_javascript(address, browser):
    page = browser.new_page()
    page.goto(f"{address}/healthz")
    for block in blocks("js", address):
        told = page.evaluate(f"async () => {{ {block}; return answer; }}")
        assert told["found"]
    page.close()
