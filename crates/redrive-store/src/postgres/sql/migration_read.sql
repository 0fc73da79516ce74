SELECT coalesce(max(number), 0), coalesce(max(oldest), 0) FROM redrive.migration
