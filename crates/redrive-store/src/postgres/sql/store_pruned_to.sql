SELECT pruned_to FROM redrive.store
