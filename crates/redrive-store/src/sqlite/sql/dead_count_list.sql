SELECT cause, letters FROM dead_count WHERE letters > 0
