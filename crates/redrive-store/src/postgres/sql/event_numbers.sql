SELECT redrive.take_event_numbers($1)
