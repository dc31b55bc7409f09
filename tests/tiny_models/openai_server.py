"""An OpenAI-compatible chat server over a local checkpoint, whose answers are held to a JSON Schema.

The decoding is constrained by llguidance, one of vLLM's own back-ends. It serves text models, one request at
a time, on the loopback interface, in a thread that ends with the `with` block; or as a program that runs
until it is ended: ``python -m tests.tiny_models.openai_server FOLDER NAME PORT``.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch
from tests.tiny_models.serving import Handler, Serving, completion


class ChatModel:
    """A checkpoint that answers conversations; `gguf` names a file of the folder that holds all of it.

    Attributes
    ----------
    prompts
        The tokens of every prompt that it was given.
    """

    def __init__(self, folder: Path, name: str, constrained: bool = True, gguf: str | None = None) -> None:
        self._torch = prepare_torch()
        import llguidance.hf
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.name = name
        self.prompts: list[list[int]] = []
        self._constrained = constrained
        local = {"local_files_only": True, **({"gguf_file": gguf} if gguf else {})}
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **local)
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, **local).eval()
        self._vocabulary: int = self._model.config.vocab_size
        self._guide = llguidance.hf.from_tokenizer(self.tokenizer, n_vocab=self._vocabulary)
        self._context: int = self._model.config.max_position_embeddings
        # one at a time; torch's generator is shared as well
        self._lock = threading.Lock()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to a request."""
        asked = self.tokenizer.apply_chat_template(
            body["messages"],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
            **body.get("chat_template_kwargs", {}),
        )
        prompt = asked["input_ids"].shape[1]
        most = body.get("max_completion_tokens") or 256
        if prompt + most > self._context:
            return 400, _error(f"the context length is {self._context}, asked for {prompt} + {most} tokens")
        self.prompts.append(asked["input_ids"][0].tolist())
        processors = []
        form = body.get("response_format")
        if form is not None and self._constrained:
            processors.append(self._guided(json.dumps(form["json_schema"]["schema"]), prompt))
        with self._lock, self._torch.inference_mode():
            self._torch.manual_seed(body.get("seed") or 0)
            tokens = self._model.generate(
                **asked,
                max_new_tokens=most,
                do_sample=True,
                temperature=max(body.get("temperature", 1.0), 1e-3),
                top_p=body.get("top_p", 1.0),
                top_k=body.get("top_k", 0),
                min_p=body.get("min_p"),
                repetition_penalty=body.get("repetition_penalty", 1.0),
                logits_processor=processors,
            )[0, prompt:].tolist()
        ended = bool(tokens) and tokens[-1] == self.tokenizer.eos_token_id
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        finish = "stop" if ended else "length"
        message = {"role": "assistant", "content": text}
        return 200, completion(self.name, message, finish, (prompt, len(tokens)))

    def _guided(self, schema: str, prompt: int) -> Any:
        """Return what masks every token that the schema does not allow next."""
        import llguidance.numpy as masks  # the one for torch compiles a kernel first
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
        matcher = LLMatcher(self._guide, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        mask = masks.allocate_token_bitmask(1, self._vocabulary)
        seen = prompt

        def allow(tokens: Any, scores: Any) -> Any:
            nonlocal seen
            new = tokens[0, seen:].tolist()
            seen = tokens.shape[1]
            if new and not matcher.is_stopped():
                matcher.consume_tokens(new)
            masks.fill_next_token_bitmask(matcher, mask, 0)
            masks.apply_token_bitmask_inplace(scores.numpy(), mask)
            return scores

        return allow


class _Answers(Handler):
    owner: ChatModelServer

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": self.owner.model.name, "object": "model"}]})

    def do_POST(self) -> None:
        body, model = json.loads(self.content()), self.owner.model
        known = body["model"] == model.name
        self.send(*(model.answer(body) if known else (404, _error(f"there is no model {body['model']}"))))


class ChatModelServer(Serving):
    """Serves a model until its `with` block ends."""

    handler = _Answers

    def __init__(self, model: ChatModel, port: int = 0) -> None:
        self.model, self.port = model, port


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}


if __name__ == "__main__":
    folder, name, port = sys.argv[1:]
    with ChatModelServer(ChatModel(Path(folder), name), int(port)) as server:
        print(server.url, flush=True)
        threading.Event().wait()
