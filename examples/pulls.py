"""Pulls of each suboptimal arm by private learners, beside two lower bounds."""

from dpjax import Study, bounds, combinators, environments, learners

MEANS, EPSILONS = [0.3, 0.4, 0.5, 0.7], [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]


def main(horizon=10**6, trials=100):
    arms = environments.bernoulli(MEANS, regret="pseudo")
    study = Study(
        learners={"DP-KLUCB": learners.dp_klucb, "DP-SE": learners.successive_elimination,
                  "explore, then commit": learners.explore_then_commit},
        environments={"four arms": combinators.count_plays(arms)},
        grid={"epsilon": EPSILONS, "horizon": horizon, "arms": len(MEANS)},
        trials=trials,
    )  # fmt: skip
    plays = study.run()["tally_plays"].rename(tally_plays_0="arm").isel(arm=slice(1, None))
    pulls = plays.assign_coords(arm=MEANS[1:]).rename("pulls").to_dataset()
    print(pulls.dpjax.mean(of="pulls")[["mean", "low", "high"]].to_dataframe())
    note = "Dashed: lower bound with d_epsilon. Dotted: lower bound of Shariff and Sheffet 2018."
    figure = pulls.dpjax.figure("epsilon", of="pulls", color="learner", panel="arm", note=note)
    for place, axes in enumerate(figure.axes[: len(MEANS) - 1]):
        axes.set_yscale("log")
        for style, bound in (("--", bounds.d_epsilon_pulls), (":", bounds.shariff_sheffet_pulls)):
            axes.plot(EPSILONS, bound(horizon, MEANS, EPSILONS)[:, place], style, color="0.3")
    return figure


if __name__ == "__main__":
    main().savefig("pulls.pdf")
