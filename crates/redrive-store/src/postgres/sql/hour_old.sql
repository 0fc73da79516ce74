DELETE FROM redrive.hour_count WHERE hour < $1
