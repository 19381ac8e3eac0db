"""Pure lineage: whose child is a call, by token prefix and by the ids that we minted."""
