"""An import-linter contract that says what a package *may* import, instead of what it may not.

The contracts that come with import-linter list what is forbidden, so a folder added later is allowed until somebody
thinks of it. Here everything is refused that is not named. Registered in setup.cfg as `allowed_imports`.
"""

import sys
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.contract import InvalidContractOptions

ANY = "any"
STANDARD_LIBRARY = "standard-library"


class AllowedImportsContract(Contract):
    """The modules of `source` import themselves, what is allowed, and nothing else.

    Options:
        source: the package, with all its submodules.
        allowed: modules of the root package that it may import, each with all its submodules. The root package itself
            (`import quorate`) has to be named too.
        external: `any` (the default), or `standard-library` to refuse every third-party package.
        forbidden_external: top-level modules from outside that are refused in any case.

    Direct imports are judged, not chains of them: what an allowed module imports is the business of its own contract.
    An import under `if TYPE_CHECKING:` counts like any other.
    """

    type_name = "allowed_imports"

    source = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField(), required=False)
    external = fields.StringField(default=ANY)
    forbidden_external = fields.ListField(subfield=fields.StringField(), required=False)

    def validate(self) -> None:
        """Refuse a value of `external` that nobody would check."""
        if self._option("external") not in (ANY, STANDARD_LIBRARY):
            raise InvalidContractOptions({"external": f"Must be {ANY!r} or {STANDARD_LIBRARY!r}."})

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Judge every direct import that leaves the source package."""
        source = self._option("source")
        if source not in graph.modules:
            raise ValueError(f"contract {self.name!r}: there is no module {source}")
        refused: list[str] = []
        for importer in sorted({source} | graph.find_descendants(source)):
            output.verbose_print(verbose, f"Looking at what {importer} imports...")
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                reason = self._why_refused(imported)
                if reason:
                    refused.append(f"{importer} -> {imported} ({_lines(graph, importer, imported)}): {reason}")
        return ContractCheck(kept=not refused, metadata={"refused": refused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each refused import with its line and the reason."""
        for line in check.metadata["refused"]:
            output.print_error(f"- {line}")
        output.new_line()

    def _why_refused(self, imported: str) -> str | None:
        """Return why a module may not be imported, or None when it may."""
        if _is_within(imported, self._option("source")):
            return None
        top = _top(imported)
        if top == _top(self._option("source")):
            if any(_is_within(imported, allowed) for allowed in self._options("allowed")):
                return None
            return "not among the parts it may import"
        if top in self._options("forbidden_external"):
            return "forbidden here"
        if self._option("external") == STANDARD_LIBRARY and top not in sys.stdlib_module_names:
            return "not in the standard library"
        return None

    # import-linter replaces each field by its parsed value on the instance; its annotations do not say so.

    def _option(self, name: str) -> str:
        return cast(str, getattr(self, name))

    def _options(self, name: str) -> list[str]:
        return cast("list[str] | None", getattr(self, name)) or []


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _lines(graph: ImportGraph, importer: str, imported: str) -> str:
    numbers = sorted(detail["line_number"] for detail in graph.get_import_details(importer=importer, imported=imported))
    return ", ".join(f"line {number}" for number in numbers)
