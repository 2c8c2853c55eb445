from __future__ import annotations

from dataclasses import dataclass

from cerp.graph.climbing import climbed


@dataclass(frozen=True)
class Place:
    x: int
    y: int


LADDERS = {"x": range(10), "y": range(10)}


def test_the_top_of_a_hill_is_found_from_anywhere():
    def height(place: Place) -> float:
        return -((place.x - 7) ** 2) - (place.y - 2) ** 2

    for x in (0, 7, 9):
        assert climbed(Place(x, 9), LADDERS, height, rounds=9) == Place(7, 2)


def test_of_equal_figures_the_earlier_stays():
    assert climbed(Place(4, 4), LADDERS, lambda _: 1.0, rounds=9) == Place(4, 4)


def test_a_setting_moves_after_another_made_room_and_rounds_are_counted():
    def height(place: Place) -> float:  # y helps only as far as x has come, and x as y
        return min(place.x, place.y + 1) + min(place.y, place.x)

    # A round goes from (0, 0) to (1, 1), and each further one by one step more.
    assert climbed(Place(0, 0), LADDERS, height, rounds=1) == Place(1, 1)
    assert climbed(Place(0, 0), LADDERS, height, rounds=2) == Place(2, 2)
    assert climbed(Place(0, 0), LADDERS, height, rounds=99) == Place(9, 9)


def test_nothing_is_judged_after_a_round_without_a_change():
    asked: list[Place] = []

    def height(place: Place) -> float:
        asked.append(place)
        return 0.0

    climbed(Place(5, 5), LADDERS, height, rounds=9)
    assert set(asked) == {Place(5, 5), Place(6, 5), Place(4, 5), Place(5, 6), Place(5, 4)}
    assert len(asked) == 8  # each of four steps beside where it starts, once
