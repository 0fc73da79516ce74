UPDATE redrive.store SET pruned_to = $1
