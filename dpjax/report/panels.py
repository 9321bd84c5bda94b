"""The choice of one of many panels of a page, by a box for each parameter."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape

# A figure is in a template, which a browser draws only when the script below copies it. If no panel
# has the chosen values, the script shows the one with the new value that keeps most other values.
_SCRIPT = """<script>
const {settings, first} = JSON.parse(document.getElementById("settings").textContent);
const boxes = [...document.querySelectorAll("#choice select")];
let chosen = first;
function choose() {
  for (const box of boxes) box.value = chosen[box.name];
  for (const shown of document.querySelectorAll(".shown")) shown.remove();
  for (const template of document.querySelectorAll("template")) {
    const own = Object.entries(JSON.parse(template.dataset.setting));
    if (own.some(([name, value]) => chosen[name] !== value)) continue;
    const shown = document.createElement("div");
    shown.className = "shown";
    template.after(shown);
    shown.append(document.importNode(template.content, true));
  }
}
for (const box of boxes) box.addEventListener("change", () => {
  const same = setting => boxes.filter(
    each => setting[each.name] === chosen[each.name]).length;
  const able = settings.filter(setting => setting[box.name] === box.value);
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


def boxes(settings: Sequence[Mapping[str, str]], first: Mapping[str, str]) -> str:
    """A box for each parameter, with its values in their given order; numbers are sorted.

    Args:
      settings: the values of the parameters, with the same parameters in each setting.
      first: the setting that is shown at first.
    """
    found = []
    for name in settings[0]:
        values = list(dict.fromkeys(own[name] for own in settings))
        with suppress(ValueError):  # not numbers
            values.sort(key=float)
        options = "".join(f'<option value="{escape(v)}">{escape(v)}</option>' for v in values)
        found.append(
            f'<label>{escape(name)} <select name="{escape(name)}">{options}</select></label>'
        )
    told = json.dumps({"settings": settings, "first": first}, ensure_ascii=False)
    told = told.replace("<", "\\u003c")
    return (f'{_STYLE}<form id="choice" autocomplete="off">{"".join(found)}</form>'
            f'<script type="application/json" id="settings">{told}</script>')  # fmt: skip


def hidden(setting: Mapping[str, str], element: str) -> str:
    """An element of the page that is shown when its setting is chosen."""
    told = escape(json.dumps(setting, ensure_ascii=False))
    return f'<template data-setting="{told}">{element}</template>'


def script() -> str:
    """The script that shows the chosen setting, for the end of a page."""
    return _SCRIPT
