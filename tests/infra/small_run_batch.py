"""A program that answers a file of requests as vLLM's `run-batch` does."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["run-batch"])
parser.add_argument("--model", required=True)
parser.add_argument("--input-file", required=True)
parser.add_argument("--output-file", required=True)
parser.add_argument("--status", type=int, default=0)
parser.add_argument("--seconds", type=float, default=0.0)
options, _ = parser.parse_known_args()
with Path(os.environ.get("RAN", os.devnull)).open("a") as file:
    file.write("ran\n")
time.sleep(options.seconds)
if options.status:
    sys.exit(options.status)
lines = []
for line in Path(options.input_file).read_text().splitlines():
    request = json.loads(line)
    message = {"role": "assistant", "content": '{"better": "first"}'}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["body"]["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }
    response = {"status_code": 200, "request_id": "vllm-batch-1", "body": body}
    answer = {"id": "vllm-1", "custom_id": request["custom_id"], "response": response, "error": None}
    lines.append(json.dumps(answer))
Path(options.output_file).write_text("".join(f"{line}\n" for line in lines))
