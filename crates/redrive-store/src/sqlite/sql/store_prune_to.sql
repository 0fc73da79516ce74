UPDATE store SET pruned_to = ?1
