"""Pair rows with columns so that the sum of the weights is largest: the Hungarian algorithm on
whole numbers.

It is written here because the weights are exact and the matrices tiny: one cell for each pair of
calls of one tool. The order of rows and columns decides between several best assignments.
O(rows^2 * columns) at worst; ties cost little, because a free column is taken first.
"""

from __future__ import annotations

from collections.abc import Sequence


def assign(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """The column of each row; None for rows without one, if there are more rows than columns.

    >>> assign([[3, 2], [3, 0]]), assign([[1], [5]]), assign([])
    ([1, 0], [None, 0], [])
    """
    rows = len(weights)
    columns = len(weights[0]) if rows else 0
    if not columns:
        return [None] * rows
    if rows <= columns:
        return list(_assign(weights, rows, columns))
    turned: list[int | None] = [None] * rows
    for column, row in enumerate(_assign(list(zip(*weights, strict=True)), columns, rows)):
        turned[row] = column
    return turned


def _assign(weights: Sequence[Sequence[int]], rows: int, columns: int) -> list[int]:
    """Shortest augmenting paths with potentials; there are at least as many columns as rows. Column
    and row 0 are sentinels.
    """
    of_row, of_column = [0] * (rows + 1), [0] * (columns + 1)
    holder = [0] * (columns + 1)
    """The row that each column is assigned to, 0 for none."""
    came_from = [0] * (columns + 1)
    # no reduced cost reaches it: a potential moves by at most the largest weight for each row
    far = 4 * (rows + columns + 2) * (1 + max(max(map(abs, row)) for row in weights))
    for row in range(1, rows + 1):
        holder[0] = row
        at = 0
        least = [far] * (columns + 1)
        open_columns = list(range(1, columns + 1))
        used = [0]
        while holder[at]:
            here = holder[at]
            line, potential = weights[here - 1], of_row[here]
            step, nearest, is_free = far, 0, False
            for column in open_columns:
                cost = -line[column - 1] - potential - of_column[column]
                if cost < least[column]:
                    least[column] = cost
                    came_from[column] = at
                cost = least[column]
                if cost < step or (cost == step and not is_free and not holder[column]):
                    step, nearest, is_free = cost, column, not holder[column]
            for column in used:
                of_row[holder[column]] += step
                of_column[column] -= step
            for column in open_columns:
                least[column] -= step
            at = nearest
            used.append(at)
            open_columns.remove(at)
        while at:
            before = came_from[at]
            holder[at] = holder[before]
            at = before
    column_of = [0] * rows
    for column in range(1, columns + 1):
        if holder[column]:
            column_of[holder[column] - 1] = column - 1
    return column_of
