"""``python -m tests.golden``: write the golden files again."""

from tests.golden.interfaces import FOLDER, written

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in written():
        path.write_text(text, encoding="utf-8")
        print(path)
