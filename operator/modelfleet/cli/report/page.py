"""The page itself: a template filled with a view. Names that users wrote are escaped wherever they stand."""

from typing import Any

from modelfleet.cli.report.view import Page, page_of
from modelfleet.cli.yaml_io import MissingExtraError
from modelfleet.core.layout.answer import Answer
from modelfleet.core.layout.question import Question


def html(name: str, question: Question, answer: Answer) -> str:
    """The report of an answer: one page without any outside part. Raises MissingExtraError without jinja2."""
    return filled(page_of(name, question, answer))


def filled(page: Page) -> str:
    """The page with its figures."""
    text: str = template("page.html.j2").render(page=page)
    return text


def template(name: str) -> Any:
    """A template of this package. Raises MissingExtraError without jinja2."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("jinja2") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("modelfleet.cli.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(name)
