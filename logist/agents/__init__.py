"""Who does the work: a model behind litellm, archived answers; one protocol for all."""
