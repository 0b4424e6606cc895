import torch

from methods.blocks.occupancy import Occupancy


def test_counts_occupied_clusters_and_the_largest_share_and_starts_anew():
    occupancy = Occupancy(4)
    occupancy.add(torch.tensor([0, 0, 3]))
    occupancy.add(torch.tensor([0]))
    assert occupancy.counts.tolist() == [3, 0, 0, 1]
    assert occupancy.take() == (2, 0.75)
    assert occupancy.counts.tolist() == [0, 0, 0, 0]


def test_nothing_counted_is_no_error():
    assert Occupancy(3).take() == (0, 0.0)


def test_counts_are_part_of_the_state():
    one, other = Occupancy(3), Occupancy(3)
    one.add(torch.tensor([1, 1]))
    other.load_state_dict(one.state_dict())
    assert other.take() == (1, 1.0)
