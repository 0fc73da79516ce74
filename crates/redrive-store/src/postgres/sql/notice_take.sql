-- In one order, so that two who change the same ones do not wait for each other. Whoever was waited for has said what is read here.
SELECT n.id, n.space, n.name, n.version FROM redrive.notice n
WHERE (n.space, n.name) IN (SELECT k.space, k.name FROM unnest($1::text[], $2::text[]) AS k (space, name))
ORDER BY n.space, n.name FOR UPDATE
