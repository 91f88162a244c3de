"""Tab: completion on request.

The toolkit's own Tab is lost if it comes in one read with the text before it, as over a slow line: the menu opened by
typing is being built then, and there is only one at a time. This Tab asks for itself.
"""

from __future__ import annotations

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, emacs_insert_mode, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


def bind_tab(bindings: KeyBindings) -> None:
    """Bind Tab: complete the common beginning of all names, then show them; in an open menu, go to the next one."""

    @bindings.add("tab", filter=(emacs_insert_mode | vi_insert_mode) & ~is_searching & _may_complete)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.completions:
            buffer.complete_next()
        else:
            event.app.create_background_task(_complete(buffer))


@Condition
def _may_complete() -> bool:
    return get_app().current_buffer.completer is not None


async def _complete(buffer: Buffer) -> None:
    document = buffer.document
    asked = buffer.completer.get_completions_async(document, CompleteEvent(completion_requested=True))
    found = [each async for each in asked]
    if buffer.document != document or not found:
        return  # the text has changed meanwhile, or nothing was found
    common = get_common_complete_suffix(document, found)
    buffer.complete_state = None  # closes the menu that typing has opened
    if common:
        buffer.insert_text(common)
        found = [each.new_completion_from_position(len(common)) for each in found]
    if len(found) > 1:
        buffer.complete_state = CompletionState(buffer.document, found)
        buffer.on_completions_changed.fire()
    elif not common:
        buffer.apply_completion(found[0])
