"""What an agent sends is JSON that every reader takes, whatever names others have chosen."""

from __future__ import annotations

import json
import os

from damoos.agent.messages import json_line

NAME = os.fsdecode(b"/a\xff\xfe.slice")


def test_a_name_that_is_no_utf_8_is_shown_and_the_rest_is_whole() -> None:
    message = {"error": f"process 7 is in {NAME}", "list": [NAME, ("\U0001f600", 1, None)], NAME: 1.5}
    line = json_line(message)
    assert "\n" not in line
    assert line.isascii()
    read = json.loads(line)
    assert read == {
        "error": "process 7 is in /a??.slice",
        "list": ["/a??.slice", ["\U0001f600", 1, None]],
        "/a??.slice": 1.5,
    }
    assert json.dumps(read, ensure_ascii=False).encode()


def test_a_message_of_plain_words_stays_as_it_is() -> None:
    message = {"id": 1, "result": ["\U0001f600 \\ud \\udcff", {"a": True}]}
    assert json.loads(json_line(message)) == message
