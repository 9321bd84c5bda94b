"""Chooses one of many panels by its parameters, of which each has a box on the page."""

import json
import re
from html import escape

# A figure stands in a template, which a browser draws only when the script below copies it out.
# A figure is shown unless it names another value of a parameter. A choice that no panel has is
# mended: of the panels with the new value, the one that keeps most of the other values.
_SCRIPT = """<script>
const {settings, first} = JSON.parse(document.getElementById("settings").textContent);
const boxes = [...document.querySelectorAll("#choice select")];
let chosen = first;
function choose() {
  for (const box of boxes) box.value = chosen[box.name] ?? "";
  for (const shown of document.querySelectorAll(".shown")) shown.remove();
  for (const template of document.querySelectorAll("template")) {
    const own = Object.entries(JSON.parse(template.dataset.setting));
    if (own.some(([name, value]) => name in chosen && chosen[name] !== value)) continue;
    const shown = document.createElement("div");
    shown.className = "shown";
    template.after(shown);
    shown.append(document.importNode(template.content, true));
  }
}
for (const box of boxes) box.addEventListener("change", () => {
  const same = setting => boxes.filter(
    each => (setting[each.name] ?? "") === (chosen[each.name] ?? "")).length;
  const able = settings.filter(setting => (setting[box.name] ?? "") === box.value);
  chosen = able.reduce((best, setting) => same(setting) > same(best) ? setting : best);
  choose();
});
choose();
</script>"""
_STYLE = """<style>
html { overflow-y: scroll; }
#choice { position: sticky; top: 0; z-index: 2; background: #fff; padding: .4rem 0;
          display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
#choice select { font: inherit; max-width: 16rem; }
</style>"""


def setting(panel) -> dict[str, str]:
    """The parameters that the text of a panel names, and "store" for words before them."""
    parts = re.split(r"(?:^|, )(\w+) = ", panel)
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {"store": parts[0], **named} if parts[0] else named


def boxes(panels, first) -> str:
    """A box for each parameter of the panels, with its values in the order of the panels.

    ``first`` is the panel that is shown before a choice.
    """
    settings: list[dict] = []
    for own in map(setting, panels):
        if not any(own.items() <= other.items() for other in settings):
            settings.append(own)
    found = []
    for name in dict.fromkeys(name for own in settings for name in own):
        values = dict.fromkeys(own.get(name, "") for own in settings)
        options = "".join(f'<option value="{escape(v)}">{escape(v)}</option>' for v in values)
        found.append(
            f'<label>{escape(name)} <select name="{escape(name)}">{options}</select></label>'
        )
    told = json.dumps({"settings": settings, "first": setting(first)}, ensure_ascii=False)
    told = told.replace("<", "\\u003c")
    return (f'{_STYLE}<form id="choice" autocomplete="off">{"".join(found)}</form>'
            f'<script type="application/json" id="settings">{told}</script>')  # fmt: skip


def hidden(panel, element) -> str:
    """An element of the page that is shown when its panel is chosen."""
    told = escape(json.dumps(setting(panel), ensure_ascii=False))
    return f'<template data-setting="{told}">{element}</template>'


def script() -> str:
    """What shows the chosen panel, for the end of a page."""
    return _SCRIPT
