"""Bad input: one line that says what is wrong, exit code 2, and no data in it."""

from __future__ import annotations

import pytest

FILES = {
    "empty.csv": "",
    "header.csv": "a,y\n",
    "one.csv": "a,y\n1,0\n",
    "text.csv": "a,y\nsecret,0\n2,1\n",
    "bare.csv": "secret,1.25,7\n2,1,3\n2,1,3\n",
    "names.csv": "Y,a\n1,0\n2,1\n",
    "wide.csv": "a,y\n1,0\n2,1\n3,0\n",
    "people.csv": "who,a,y\nsecret,1,0\n,2,1\nsecret,3,0\n",
}
CASES = [  # command lines, and what is said
    ("run none.csv --label y", "no such file: none.csv"),
    ("run empty.csv --label y", "empty.csv is empty"),
    ("run header.csv --label y", "0 rows"),
    ("run one.csv --label y --range 0:9", "1 rows"),
    ("run text.csv --label y", "without the columns of text: a"),
    ("run text.csv --label y --features a --range 0:9", "columns of text: a"),
    ("run wide.csv", "--range COLUMN=LOW:HIGH for a, y"),
    ("run wide.csv --features b", "no column 'b' among its 2: a, y"),
    ("run wide.csv --features a", "--label COLUMN"),
    ("run wide.csv --label y --loss squared", "--range y=LOW:HIGH"),
    ("run wide.csv --label y --range a", "--range must be LOW:HIGH"),
    ("run wide.csv wide.csv --label y", "unexpected extra argument"),
    ("run no-*.csv --label y", "no file is called no-*.csv"),
    ("run --set seed=1 --decision model.json", "leave out the seed"),
    ("run --set output=wide.csv", "wide.csv exists"),
    ("publish wide.csv --like wide.csv --to new.json", "no model"),
    ("predict wide.csv wide.csv", "no model"),
    ("journal status wide.csv", "is not a journal"),
    ("journal backup none.db copy.db", "no such file: none.db"),
    ("run bare.csv --label y", "--set header=false"),
    ("run bare.csv --label y --set header=false", "no column 'y'"),
    ("run names.csv --label y", "no column 'y' among its 2: Y, a"),
    ("run --set header=false", "need a FILE"),
    ("run wide.csv --label z", "no column 'z'"),
    ("run wide.csv --label y --features a,b", "no column 'b'"),
    ("run wide.csv --label y --features y", "cannot be a feature"),
    ("run wide.csv --label y --range 1", "LOW:HIGH"),
    ("run wide.csv --label y --range 2:1", "LOW < HIGH"),
    ("run wide.csv --label y --range b=0:1", "'b'"),
    ("run wide.csv --label y --range 0:9 --range y=0:inf", "--range"),
    ("run --label y", "need a FILE"),
    ("run --set intercept=false", "need a FILE"),
    ("run --loss hinge", "loss must be one of"),
    ("run --epsilon 0", "epsilon"),
    ("run --epsilon abc", "epsilon must be a number"),
    ("run --delta 1", "delta"),
    ("run --set p=0.5", "p must be in"),
    ("run --set radius=-1", "radius"),
    ("run --set feature-bound=0", "feature_bound"),
    ("run --horizon 0", "horizon"),
    ("run --learner tree-frank-wolfe --set batch=0", "batch"),
    ("run --learner tree-frank-wolfe --set batch=50000", "batch"),
    ("run --learner tree-frank-wolfe --set batch", "NAME=VALUE"),
    ("run --set batch=3", "name one with --learner"),
    ("run --set slope-bound=0.4", "slope_bound must be in [1/2, 1]"),
    ("run --set slope-bound=0.5 --loss huber", "slope-bound is for --loss logistic"),
    ("run --set slope-bound=0.5 --learner tree-frank-wolfe", "has no bounds for a slope_bound"),
    ("run --learner tree-frank-wolfe --set batch=many", "batch must be a whole number"),
    ("run --learner tree-frank-wolfe --set step-skale=2", "did you mean 'step_scale'?"),
    ("run --learner tree-frank-wolfe --set domain=ball", "nor option of tree-frank-wolfe"),
    ("run --learner noisy-ftrl --set weights=none", "weights"),
    ("run --set repeats=0", "repeats"),
    ("run --set seed=-1", "seed"),
    ("run --learner tree-frank-wolfe --set step-scale=nan", "step_scale"),
    ("run --learner tree-frank-wolfe --set sum-method=heap", "sum_method"),
    ("run --set noise=uniform", "noise"),
    ("run --resume", "--checkpoint"),
    ("run --checkpoint none --set skip-played=true", "--resume"),
    ("run --checkpoint none --resume", "none: No such file"),
    ("run --checkpoint no/such/state", "no such directory"),
    ("run --checkpoint wide.csv --resume", "state"),
    ("run --checkpoint state --set repeats=2", "repeats"),
    ("run --out wide.csv", "--out"),
    ("run --out wide.csv/deeper", "--out"),
    ("run --frobnicate", "--frobnicate"),
    ("run surplus", "surplus"),
    ("run --learner comw --set exploration=1", "nor option of comw, 'exploration'"),
    ("run --learner sufficient-statistics --checkpoint state", "one fit"),
    ("run --learner sufficient-statistics --set batch=2", "'batch'"),
    ("run wide.csv --label y --rounds-per-person 2", "needs --person"),
    ("run wide.csv --label y --rounds-per-person 0 --person a", "rounds must be in"),
    ("run wide.csv --label y --person a", "--person needs --rounds-per-person"),
    ("run wide.csv --label y --rounds-per-person 2 --person b", "no column 'b'"),
    ("run wide.csv --label y --rounds-per-person 2 --person y", "nothing is learned from"),
    ("run wide.csv --label y --rounds-per-person 2 --person a", "no column to learn from"),
    ("run people.csv --label y --rounds-per-person 2 --person who", "missing values"),
    (
        "run people.csv --label y --rounds-per-person 2 --set separation=0 --person a",
        "separation must be in",
    ),
    ("run phishing --set separation=2", "separation needs --rounds-per-person"),
    ("run phishing --rounds-per-person 2 --person a", "need a FILE"),
    (
        "run phishing --learner noisy-ftrl --rounds-per-person 2 --set separation=2000",
        "separation must be at most the horizon, 1250",
    ),
    (
        "run --learner sufficient-statistics phishing --rounds-per-person 2",
        "no --rounds-per-person",
    ),
    ("run weather", "phishing"),
    ("run phishing x.csv --label y", "unexpected extra argument"),
    ("audit", "name a learner, or ask for --list"),
    ("audit noisy-mex", "did you mean 'noisy-max'?"),
    ("audit zebra", "it is one of: tree-frank-wolfe"),
    ("audit noisy-max --trials 10", "trials must be at least"),
    ("audit noisy-max --epsilon -1", "epsilon"),
    ("audit noisy-max --delta 3", "delta"),
    ("audit noisy-max --horizon 0", "horizon"),
    ("audit noisy-max --published printed", "with published parameters must be one of"),
    ("audit noisy-max --seed -1", "--seed must be at least 0"),
    ("audit noisy-max --figure nowhere/a.png", "no such directory"),
    ("audit noisy-max --figure a.txt", "--figure must end in"),
    ("audit tree-frank-wolfe --delta 0", "never purely private"),
    ("compare --learners comw,prefix-hedge", "prefix-hedge does not learn from labelled records"),
    ("run --learner linucb", "in Python, use learner.run(contexts, rewards)"),
    ("run --learner linucb", "(live: dpoco serve)"),
    ("run --learner lipschitz", "dpoco monitor --quantiles"),
    ("run --learner batch-share pollsters", "learner.run(losses) or dpoco.evaluation.play"),
    ("run pollsters", "load_losses"),
    ("run --set loss-range=0,1", "did you mean 'range'?"),
    ("run --set slope-bound=0.5 --learner sufficient-statistics --loss squared", "of records"),
    ("compare --learners comw,comw", "twice"),
    ("compare --learners auto,auto", "twice"),
    ("compare --epsilons 1,1", "twice"),
    ("compare --epsilons one", "numbers"),
    ("compare --epsilons -1", "positive"),
    ("compare --set repeats=0", "repeats"),
    ("compare wide.csv --label y --rounds-per-person 2", "needs --person"),
    ("run --learner distribution-learner", "not for this"),
    ("run phishing --learner noisy-newton --set radius=inf", "radius must be finite"),
    ("run phishing --learner noisy-newton --set slope-bound=inf", "slope_bound must be"),
    ("run --horizon ten", "horizon must be a whole number"),
    ("run --learner comw --set batch=2", "nor option of comw, 'batch'"),
    ("run --learner noisy-newton --loss squared", "needs --loss logistic or huber"),
    ("run --set switches=2 --learner comw", "nor option of comw"),
    ("plan nosuch", "it is one of: auto, experts, statistics, tree-frank-wolfe"),
    ("plan ctrl --horizon 0 --dimension 2", ""),
    ("plan ctrl --horizon 10 --dimension 0", ""),
    ("plan ctrl --horizon 10 --dimension 2 --epsilon -1", ""),
    ("plan ctrl --horizon 10 --dimension 2 --delta 2", ""),
    ("plan ctrl --horizon 10 --dimension 2 --loss hinge", ""),
    ("plan ctrl --horizon 10 --dimension 2 --domain cone", ""),
    ("plan ctrl --horizon 10 --dimension 2 --coupling dartboard", ""),
    ("plan comw --horizon 10 --dimension 1 --domain simplex", ""),
    ("plan comw --horizon 10 --dimension 2 --relation local", ""),
    ("plan comw --horizon 10 --dimension 2 --calibration best", ""),
    ("plan comw --dimension 2", ""),
    ("plan noisy-ftrl --horizon 10 --dimension 2 --separation 2", "needs --rounds-per-person"),
    ("plan noisy-ftrl --horizon 10 --dimension 2 --rounds-per-person 0", "rounds must be in"),
    (
        "plan sufficient-statistics --horizon 10 --dimension 2 --rounds-per-person 2",
        "No such option",
    ),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --adversary friendly", ""),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --switches -1", ""),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --epsilon 0", ""),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --experts 0", ""),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --horizon 0", ""),
    ("plan experts --experts 10 --horizon 100000 --switches 5 --delta 1.5", ""),
    ("table noise --horizons ten", ""),
    ("table noise --horizons 0", ""),
    ("table noise --horizons 1.5", ""),
    ("table noise --epsilons -1", ""),
    ("table heat", ""),
    ("fly", ""),
]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize(("words", "message"), CASES, ids=[words for words, _ in CASES])
def test_one_clear_line(capfd, words, message, tmp_path):
    from dpoco.cli import main

    pytest.importorskip("river")
    assert main(words.split(" ")) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "secret" not in err
    assert "1.25" not in err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("words", ["", "plan", "journal", "table"])
def test_a_group_without_a_command_shows_its_help(capfd, words):
    from dpoco.cli import main

    assert main(words.split()) == 0
    out, err = capfd.readouterr()
    assert f"Usage: dpoco {words}" in out
    assert err == ""


def test_labels_outside_the_range_are_clipped(capfd, tmp_path):
    from dpoco.cli import main

    (tmp_path / "odd.csv").write_text(
        "a,y\n" + "\n".join(f"{i % 2},{i % 2 * 9}" for i in range(60))
    )
    (tmp_path / "even.csv").write_text("a,y\n" + "\n".join(f"{i % 2},{i % 2}" for i in range(60)))
    outputs = []
    for name in ("odd", "even"):
        options = "--label y --range a=-1:1 --range y=0:1 --set seed=1 --set figure=false"
        arguments = [f"{name}.csv", *options.split()]
        assert main(["run", *arguments, "--out", name]) == 0
        outputs.append(capfd.readouterr().out.splitlines()[3:8])
    assert outputs[0] == outputs[1]
