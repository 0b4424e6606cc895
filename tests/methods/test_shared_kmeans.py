import torch

from methods.blocks.kmeans import kmeans
from methods.blocks.occupancy import Occupancy
from methods.blocks.self_label import SelfLabelling
from methods.blocks.shared_kmeans import shared_kmeans
from tests.ranks import together

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)) + 5 * torch.eye(3)[torch.arange(60) % 3]
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


def test_one_process_gets_kmeans():
    fitted = kmeans(X, 3, 4, max_iter=20, seed=7)
    centres, labels = shared_kmeans(X, 3, 4, 20, 7 + 2**31)
    assert torch.equal(centres, fitted.centres)
    assert torch.equal(labels, fitted.labels)


def work(rank, folder):
    share = slice(3 * rank, 3 * rank + 3)
    # What process 1 would find by itself differs: only process 0's clustering counts.
    clustering = shared_kmeans(X if rank == 0 else X.flip(1), 3, 4, 20, 7)
    occupancy, labelling = Occupancy(4), SelfLabelling(4, 0.5, balance=False)
    occupancy.add(LOGITS[share].argmax(1))
    labelling(LOGITS[share], LOGITS[share])
    torch.save((*clustering, occupancy.take(), labelling.statistics()), folder / f"{rank}.pt")


def test_two_processes_share_a_clustering_and_count_the_whole_batch(tmp_path):
    together(work, tmp_path)
    fitted = kmeans(X, 3, 4, max_iter=20, seed=7)
    occupancy, labelling = Occupancy(4), SelfLabelling(4, 0.5, balance=False)
    occupancy.add(LOGITS.argmax(1))
    labelling(LOGITS, LOGITS)
    occupied, statistics = occupancy.take(), labelling.statistics()
    for rank in range(2):
        centres, labels, its_occupied, its_statistics = torch.load(tmp_path / f"{rank}.pt", weights_only=False)
        assert torch.equal(centres, fitted.centres)
        assert torch.equal(labels, fitted.labels)
        assert its_occupied == occupied
        assert its_statistics == statistics
