"""The paper's experiments on WN18 and FB15k: data sets, table rows, and a resumable runner."""
