"""The table of questions: every module answers what the table says, and nothing else."""

from importlib import import_module

from shiftlog.control.questions import MODULE_OF, MODULES, OPERATORS


def test_every_module_answers_exactly_the_questions_that_the_table_gives_it() -> None:
    for module, methods in MODULES.items():
        assert list(import_module(f"shiftlog.control.{module}").QUESTIONS) == methods.split()


def test_questions_that_only_an_operator_may_ask_exist() -> None:
    assert MODULE_OF.keys() >= OPERATORS
