-- The newest task always stays, so that its number is not given again.
SELECT coalesce(max(id), 0) + 1 FROM task
