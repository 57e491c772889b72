"""Jobs that can be stopped, killed and resumed."""
