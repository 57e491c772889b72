"""Today's benchmarks: where their facts are, which settings they are run with, and what others published.

>>> BENCHMARKS["grail-fb237-v1"].train_folder, BENCHMARKS["grail-fb237-v1"].folder
('grail/fb237_v1', 'grail/fb237_v1_ind')
>>> BENCHMARKS["wn18rr"].published[0]
PublishedFigures(method='AnyBURL', source='Meilicke et al.', mrr='0.497', hits_1='', hits_10='')

Each is run with the default learner. A benchmark is a folder with `train.txt.gz`, `valid.txt.gz` and `test.txt.gz`. An
inductive one has two: the model is trained on the facts of one, and answers from the facts of the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaifman.config import ProgressCallback
from gaifman.errors import InputError, KnowledgeBaseError, similar_names
from gaifman.evaluation.evaluate import EvaluationConfig
from gaifman.experiments.datasets import DATASETS, DatasetFiles, find_split_file, locate_dataset, split_file_names
from gaifman.experiments.paper import VISIBLE_FACTS
from gaifman.jobs.train import SourceText, TrainingSpec
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.ranker import listwise_options
from gaifman.training import AUTO, LISTWISE, TrainingConfig


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """What others published for a benchmark, as printed there; "" for what is not quoted."""

    method: str
    source: str
    mrr: str = ""
    hits_1: str = ""
    hits_10: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return fields for JSON, without those that are not quoted."""
        figures = {"mrr": self.mrr, "hits@1": self.hits_1, "hits@10": self.hits_10}
        return {"method": self.method, "source": self.source} | {name: text for name, text in figures.items() if text}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set with its published figures."""

    title: str
    """Its name in text."""
    folder: str
    """The folder of the facts that the model answers from, and of valid and test."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The published numbers of distinct facts of `BenchmarkSplits`; WN18 and FB15k have checksums instead."""
    published: tuple[PublishedFigures, ...] = ()
    train_folder: str | None = None
    """The folder of the training facts of an inductive benchmark; None if they are in `folder`."""
    file_format: str = "triples"
    """`triples`, or `nary` for lines of a relation and its objects."""

    @property
    def is_inductive(self) -> bool:
        """Whether the model answers from other facts, with other objects, than those it is trained on."""
        return self.train_folder is not None


def _sizes(train: int, valid: int, test: int, visible: int | None = None) -> dict[str, int]:
    return {"train": train, "visible": train if visible is None else visible, "valid": valid, "test": test}


_ANYBURL, _NBFNET, _REALE = "Meilicke et al.", "Zhu et al. 2021", "Fatemi et al. 2021"


def _inductive(title: str, stem: str, sizes: Mapping[str, int], grail: str, red_gnn: str, nbfnet: str) -> Benchmark:
    """Return a data set of GraIL with the figures of one column of the table of RED-GNN."""
    methods = {"GraIL": grail, "RED-GNN": red_gnn, "NBFNet": nbfnet}
    published = tuple(PublishedFigures(method, "Zhang & Yao 2022", mrr=mrr) for method, mrr in methods.items())
    return Benchmark(title, f"grail/{stem}_ind", sizes, published, f"grail/{stem}")


BENCHMARKS: Mapping[str, Benchmark] = {
    "wn18": Benchmark("WN18", "WN18"),
    "fb15k": Benchmark("FB15k", "FB15k", published=(PublishedFigures("AnyBURL", _ANYBURL, hits_1="0.804–0.814"),)),
    "fb15k-237": Benchmark(
        "FB15k-237",
        "FB15k-237",
        _sizes(272_115, 17_535, 20_466),
        (
            PublishedFigures("AnyBURL", _ANYBURL, mrr="0.329–0.348"),
            PublishedFigures("logistic regression over AnyBURL's rules", "not recorded", mrr="0.354"),
            PublishedFigures("RulE", "Tang et al. 2024", mrr="0.362"),
            PublishedFigures("ComplEx, rank 2000", "Lacroix et al. 2018; LibKGE", mrr="0.37"),
            PublishedFigures("NBFNet", _NBFNET, mrr="0.415", hits_10="0.599"),
        ),
    ),
    "wn18rr": Benchmark(
        "WN18RR",
        "WN18RR",
        _sizes(86_835, 3_034, 3_134),
        (
            PublishedFigures("AnyBURL", _ANYBURL, mrr="0.497"),
            PublishedFigures("SAFRAN", "Ott et al. 2021", mrr="0.502"),
            PublishedFigures("NBFNet", _NBFNET, mrr="0.551"),
        ),
    ),
    "grail-fb237-v1": _inductive(
        "FB15k-237 v1 (inductive)", "fb237_v1", _sizes(4_245, 206, 205, 1_993), "0.279", "0.369", "0.422"
    ),
    "grail-fb237-v2": _inductive(
        "FB15k-237 v2 (inductive)", "fb237_v2", _sizes(9_739, 469, 478, 4_145), "0.276", "0.469", "0.514"
    ),
    "grail-wn18rr-v1": _inductive(
        "WN18RR v1 (inductive)", "WN18RR_v1", _sizes(5_410, 185, 188, 1_618), "0.627", "0.701", "0.741"
    ),
    "grail-wn18rr-v2": _inductive(
        "WN18RR v2 (inductive)", "WN18RR_v2", _sizes(15_262, 411, 441, 4_011), "0.625", "0.690", "0.704"
    ),
    "fb-auto": Benchmark(
        "FB-AUTO",
        "FB-AUTO",
        _sizes(6_778, 2_255, 2_180),
        (PublishedFigures("ReAlE", _REALE, mrr="0.861"),),
        file_format="nary",
    ),
    "jf17k": Benchmark(
        "JF17K",
        "JF17K",
        _sizes(61_104, 15_275, 24_568),
        (PublishedFigures("ReAlE", _REALE, mrr="0.530"),),
        file_format="nary",
    ),
    "kinships": Benchmark("Kinships", "kinships", _sizes(8_544, 1_068, 1_074)),
    "umls": Benchmark("UMLS", "umls", _sizes(5_216, 652, 661)),
    "nations": Benchmark("Nations", "nations", _sizes(1_592, 199, 201)),
    "family": Benchmark("Family", "family", _sizes(23_483, 2_038, 2_835)),
    "countries-s1": Benchmark("Countries S1", "countries_S1", _sizes(1_110, 24, 24)),
    "countries-s2": Benchmark("Countries S2", "countries_S2", _sizes(1_062, 24, 24)),
    "countries-s3": Benchmark("Countries S3", "countries_S3", _sizes(984, 24, 24)),
}
"""Benchmarks by the names that `gaifman reproduce` takes."""

INDUCTIVE_SETTINGS: Mapping[str, Any] = {"max_constants": 0}
"""For other objects than those of the training: formulas with constants name objects that are not there."""
CHOSEN_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "wn18": {},
    "fb15k": {},
    "fb15k-237": {"hide": "links"},
    "wn18rr": {},
    "grail-fb237-v1": INDUCTIVE_SETTINGS,
    "grail-fb237-v2": INDUCTIVE_SETTINGS,
    "grail-wn18rr-v1": INDUCTIVE_SETTINGS,
    "grail-wn18rr-v2": INDUCTIVE_SETTINGS,
    "fb-auto": {},
    "jf17k": {},
    "kinships": {},
    "umls": {},
    "nations": {},
    "family": {},
    "countries-s1": {},
    "countries-s2": {},
    "countries-s3": {},
}
"""Settings of `TrainingConfig`, and options of ranked lists, that differ from the defaults. They are chosen on the
validation facts, those in the folder of the training facts, or follow from the task: `INDUCTIVE_SETTINGS`."""


def find_benchmark(data: str) -> Benchmark:
    """Return a benchmark by its name."""
    if data not in BENCHMARKS:
        raise InputError(
            f"there is no benchmark {data}",
            suggestions=similar_names(data, BENCHMARKS),
            hint=f"benchmarks: {', '.join(BENCHMARKS)}",
        )
    return BENCHMARKS[data]


@dataclass(frozen=True, slots=True)
class BenchmarkExperiment:
    """A run of the default learner on a benchmark."""

    data: str
    """A name in `BENCHMARKS`."""
    phi: str | None = None
    """The name of Φ; None for the default."""
    phi_parts: tuple[str | SourceText, ...] = ()
    """Names of feature sets and texts of `.phi` files, if Φ is not one named set."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """More settings of `TrainingConfig`, or of the network; they replace the chosen ones."""
    visible_facts: str = "train"
    """Facts that are visible while test facts are ranked: one of `VISIBLE_FACTS`."""
    fraction: float | None = None
    """Fraction of the test facts to rank; None for all."""
    seed: int = 0

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark."""
        return find_benchmark(self.data)

    @property
    def chosen_settings(self) -> dict[str, Any]:
        """The settings chosen on the validation facts, without those that are given or that a given base lacks."""
        given = self.given_settings
        lacking = () if given.get("base", AUTO) in (AUTO, LISTWISE) else listwise_options()
        return {
            name: value
            for name, value in CHOSEN_SETTINGS[self.data].items()
            if name not in given and name not in lacking
        }

    @property
    def given_settings(self) -> dict[str, Any]:
        """The settings that the user gives."""
        return {**self.options} | ({} if self.phi is None else {"phi": self.phi})

    def training_job(self) -> TrainingSpec:
        """Return the training: a completion, with defaults for all other settings."""
        settings = {**self.chosen_settings, **self.given_settings, "seed": self.seed}
        listwise = {name: settings.pop(name) for name in listwise_options() if name in settings}
        options = {**settings.pop("options", {}), **listwise}
        return TrainingSpec(
            TrainingConfig.from_settings({**settings, "options": options}).as_dict(), phi=self.phi_parts
        )

    def check(self) -> None:
        """Raise an error for wrong settings, before anything is read or written."""
        find_benchmark(self.data)
        if taken := sorted({"phi", "seed"} & set(self.options)):
            raise KnowledgeBaseError(f"{taken[0]} is set by its own option", hint=f"--{taken[0]}")
        if self.visible_facts not in VISIBLE_FACTS:
            raise KnowledgeBaseError(
                f"visible facts must be one of {', '.join(VISIBLE_FACTS)}, not {self.visible_facts!r}"
            )
        EvaluationConfig(fraction=self.fraction)
        self.training_job().check()


# Facts


@dataclass(frozen=True, slots=True)
class BenchmarkFiles:
    """The files of a benchmark; `visible` is `train` unless it is inductive."""

    train: Path
    visible: Path
    valid: Path
    test: Path


@dataclass(frozen=True, slots=True)
class BenchmarkSplits:
    """The facts of a benchmark."""

    train: KnowledgeBase
    """Facts to train on."""
    visible: KnowledgeBase
    """Facts to answer from: those of train, unless the benchmark is inductive."""
    valid: KnowledgeBase
    """Facts that are true too: no candidates."""
    test: KnowledgeBase
    """Facts to rank."""
    source: Path
    """The file of the training facts."""
    is_published: bool
    """Whether they are the published facts, by their checksums or, if there are none, their numbers."""


def locate_benchmark(
    data: str, data_dir: str | None = None, progress: ProgressCallback | None = None
) -> BenchmarkFiles:
    """Find the files below `data_dir`, else below GAIFMAN_DATA; only WN18 and FB15k can be downloaded."""
    benchmark = find_benchmark(data)
    if data in DATASETS:
        found = locate_dataset(DATASETS[data], data_dir, progress)
        return BenchmarkFiles(found.train, found.train, found.valid, found.test)
    root = data_dir if data_dir is not None else os.environ.get("GAIFMAN_DATA")
    if not root:
        raise InputError(
            f"{benchmark.title} cannot be downloaded: name a folder that has it", hint=_needed_files(benchmark)
        )
    folder = Path(root) / benchmark.folder
    train_folder = Path(root) / (benchmark.train_folder or benchmark.folder)
    wanted = [(train_folder, "train"), (folder, "train"), (folder, "valid"), (folder, "test")]
    return BenchmarkFiles(*(_require_file(benchmark, *each) for each in wanted))


def _require_file(benchmark: Benchmark, folder: Path, split: str) -> Path:
    path = find_split_file(folder, split)
    if path is None:
        raise InputError(f"there is no file {folder / split}.txt.gz", hint=_needed_files(benchmark))
    return path


def _needed_files(benchmark: Benchmark) -> str:
    """Return which files are needed where.

    >>> _needed_files(BENCHMARKS["jf17k"]).partition("; ")[0]
    'put train.txt.gz, valid.txt.gz and test.txt.gz into FOLDER/JF17K (tab-separated lines: relation, objects)'
    """
    lines = "lines: relation, objects" if benchmark.file_format == "nary" else "triples"
    train = f", and train.txt.gz into FOLDER/{benchmark.train_folder}" if benchmark.is_inductive else ""
    return (
        f"put {split_file_names()} into FOLDER/{benchmark.folder}{train} (tab-separated {lines}); "
        "use --data-dir FOLDER or GAIFMAN_DATA=FOLDER"
    )


def read_benchmark(data: str, files: BenchmarkFiles, read: Callable[[str], KnowledgeBase]) -> BenchmarkSplits:
    """Read the files of a benchmark; `read` reads one of its format."""
    train, valid, test = (read(str(path)) for path in (files.train, files.valid, files.test))
    visible = train if files.visible == files.train else read(str(files.visible))
    facts = {"train": train, "visible": visible, "valid": valid, "test": test}
    if data in DATASETS:
        published = DatasetFiles(files.train, files.valid, files.test).is_published(DATASETS[data])
    else:
        published = {name: len(kb) for name, kb in facts.items()} == find_benchmark(data).sizes
    return BenchmarkSplits(**facts, source=files.train.absolute(), is_published=published)
