SELECT pruned_to FROM store
