"""The next version: a "simpler" router that adds whenever it sees two numbers."""

import re

import agent


def route(question):
    numbers = [int(text) for text in re.findall(r"\d+", question)]
    if len(numbers) == 2:
        return "calculator", "add", {"a": numbers[0], "b": numbers[1]}
    return agent.route(question)


def answer(inputs, record):
    return agent.answer(inputs, record, route=route)
