"""Parts of `dpoco.accounting.batch_baselines`: one module per learner."""
